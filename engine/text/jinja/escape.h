// Markup escaping, for the few places where Jinja does it without autoescape.
#pragma once

#include <string>
#include <string_view>

namespace thresher::jinja {

std::string EscapeHtml(std::string_view text);

}  // namespace thresher::jinja
