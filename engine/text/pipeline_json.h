// The steps that tokenizer.json declares, built or refused by name.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/text/json_fields.h"
#include "engine/text/normalizer.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/token_decoding.h"

namespace thresher {

// All: Unimplemented naming the type or option that is not known, InvalidArgument for a damaged
// declaration. A null declares no step.

absl::Status ReadNormalizers(const JsonPlace& declaration,
                             std::vector<std::unique_ptr<Normalizer>>& normalizers);

// `byte_level` becomes true if a ByteLevel step, which must be the last, hands the model bytes.
absl::Status ReadPreTokenizers(const JsonPlace& declaration,
                               std::vector<std::unique_ptr<PreTokenizer>>& steps, bool& byte_level);

absl::Status ReadDecoder(const JsonPlace& declaration, TokenDecoding& decoding);

}  // namespace thresher
