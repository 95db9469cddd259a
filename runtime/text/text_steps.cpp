// Each step by its kind; see text_steps.hpp.
#include "runtime/text/text_steps.hpp"

#include "runtime/text/normal_forms.hpp"
#include "runtime/text/sentencepiece_text.hpp"

namespace baton::text {

namespace {

std::string applied(const text_step& step, std::string_view text) {
  switch (step.what) {
  case text_step::kind::nfc:
    return normalized(text, normal_form::nfc);
  case text_step::kind::nfd:
    return normalized(text, normal_form::nfd);
  case text_step::kind::nfkc:
    return normalized(text, normal_form::nfkc);
  case text_step::kind::nfkd:
    return normalized(text, normal_form::nfkd);
  case text_step::kind::lower_case:
    break;
  }
  return lower_case(text);
}

} // namespace

result<std::string> text_steps::apply(std::string_view text) const {
  std::string made(text);
  for (const text_step& step : steps_) {
    made = applied(step, made);
    if (made.size() > normalized_bytes_max)
      return too_long_once_normalized();
  }
  return made;
}

} // namespace baton::text
