#include "runtime/grammar/automata/control_text.hpp"

#include <algorithm>

namespace baton::grammar {

std::string control_text(std::string_view piece) {
  return control_byte + std::string(piece);
}

std::string_view shown_text(std::string_view text) noexcept {
  return text.substr(text.starts_with(control_byte) ? 1 : 0);
}

expression text_with_controls(grammar_builder& to, std::string_view text,
                              std::span<const std::string_view> controls) {
  std::vector<expression> parts;
  std::size_t plain = 0; // where the text behind the last control begins
  for (std::size_t at = 0; at < text.size();) {
    const auto control = std::find_if(controls.begin(), controls.end(), [&](std::string_view c) {
      return !c.empty() && text.substr(at).starts_with(c);
    });
    if (control == controls.end()) {
      ++at;
      continue;
    }
    parts.push_back(to.text(text.substr(plain, at - plain)));
    parts.push_back(to.either({to.text(*control), to.text(control_text(*control))}));
    plain = at += control->size();
  }
  parts.push_back(to.text(text.substr(plain)));
  return to.sequence(std::move(parts));
}

} // namespace baton::grammar
