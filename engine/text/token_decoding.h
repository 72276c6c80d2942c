// What a decoder makes of one token, whichever tokens stand around it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/byte_alphabet.h"

namespace thresher {

struct TokenDecoding {
  bool byte_level = false;     // texts are in the ByteAlphabet
  bool byte_fallback = false;  // "<0x0A>" is that byte
  std::vector<std::pair<std::string, std::string>> replacements = {};  // in order, neither empty
  bool strips_leading_space = false;                                   // of the whole text
};

// The byte that "<0x0A>" stands for; -1 if the text is not of that form.
int ByteOfFallbackToken(std::string_view text);

// The bytes of the token that the model writes as `text`.
std::string DecodeToken(std::string_view text, const TokenDecoding& decoding,
                        const ByteAlphabet& alphabet);

}  // namespace thresher
