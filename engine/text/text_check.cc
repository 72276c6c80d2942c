// Checked once, at the boundary; everything inside trusts it.
#include "engine/text/text_check.h"

#include "absl/strings/str_cat.h"
#include "engine/text/utf8.h"

namespace thresher {

absl::Status CheckText(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text has ", text.size(), " bytes; the limit is ", kMaxTextBytes));
  }
  const std::size_t valid = ValidUtf8Length(text);
  if (valid == text.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the text is not UTF-8 at byte ", valid));
}

}  // namespace thresher
