// Writes the vocabulary and merges of a tokenizer.json as a GGUF file has them.
#pragma once

#include <string>
#include <string_view>

#include "tests/support/temp_folder.h"

namespace thresher::testing {

// A byte-level tokenizer with tokenizer.ggml.pre = `pre`; added tokens become control tokens. The
// first id of a TemplateProcessing is the beginning token, and is added as the file says by
// default. Returns the file's path.
std::string WriteTokenizerGguf(const TempFolder& folder, std::string_view tokenizer_json,
                               std::string_view pre);

}  // namespace thresher::testing
