// The checks that keep a damaged file from making a vocabulary that contradicts itself.
#include "engine/text/vocabulary.h"

#include "absl/strings/str_cat.h"

namespace thresher {

absl::Status Vocabulary::AddHidden(std::string_view text, TokenId id) {
  if (id < 0 || id >= kMaxSize) {
    return absl::InvalidArgumentError(absl::StrCat("token '", std::string(text), "' has id ", id,
                                                   "; ids are 0 to ", kMaxSize - 1));
  }
  if (Has(id)) {
    return absl::InvalidArgumentError(absl::StrCat("tokens '", std::string(Text(id)), "' and '",
                                                   std::string(text), "' both have id ", id));
  }
  if (id >= size()) {
    texts_.resize(id + 1);
    present_.resize(id + 1);
  }
  texts_[id] = text;
  present_[id] = true;
  return absl::OkStatus();
}

absl::Status Vocabulary::Add(std::string_view text, TokenId id) {
  if (const std::optional<TokenId> other = Find(text); other.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("token '", std::string(text), "' has two ids, ", *other, " and ", id));
  }
  if (absl::Status status = AddHidden(text, id); !status.ok()) return status;
  ids_.emplace(text, id);
  return absl::OkStatus();
}

std::optional<TokenId> Vocabulary::Find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace thresher
