// Stored logits of another implementation; see golden/scripts.
#pragma once

#include <string>
#include <vector>

#include "scheduler/ids.h"
#include "tests/support/golden_path.h"

namespace thresher::testing {

struct LogitsGolden {
  std::vector<TokenId> tokens;
  std::vector<float> logits;  // [tokens, vocab_size]
};

// logits/<name>.tokens and .f32. A test failure if they are not there.
LogitsGolden ReadLogitsGolden(const std::string& name);

// The name of a model's golden: "a.gguf" and "a" to "a".
std::string StemOf(const std::string& model);

// Every model below golden/models, by the name of its folder or file.
std::vector<std::string> TinyModels();

}  // namespace thresher::testing
