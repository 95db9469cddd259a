#include "runtime/grammar/automata/text_reader.hpp"

#include "runtime/text/unicode/utf8.hpp"

namespace baton::grammar {
namespace {

std::optional<unsigned> digit_of(char32_t c) noexcept {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return std::nullopt;
}

} // namespace

std::optional<char32_t> text_reader::number(unsigned base, std::size_t least, std::size_t most) {
  char32_t value = 0;
  std::size_t digits = 0;
  for (; digits < most && !is_at_end(); ++digits) {
    const auto digit = digit_of(peek());
    if (!digit || *digit >= base)
      break;
    value = value * base + *digit;
    ++at_;
  }
  return digits < least ? std::nullopt : std::optional(value);
}

result<text_reader::bounds> text_reader::counts() {
  const auto least = number(10, 1, repeat_digits_max);
  bounds out{least.value_or(0), least};
  bool is_sound = least.has_value();
  if (is_sound && accept(",")) {
    out.most = number(10, 1, repeat_digits_max);
    is_sound = !out.most || *out.most >= out.least;
  }
  if (!is_sound || !accept("}"))
    return fail(errc::invalid_value, "a repetition is {{m}}, {{m,}} or {{m,n}}, at position {}",
                at_);
  if (out.least > grammar_limits::repeat_max ||
      (out.most && *out.most > grammar_limits::repeat_max))
    return fail(errc::invalid_value, "a repetition count is at most {}, at position {}",
                grammar_limits::repeat_max, at_);
  return out;
}

result<void> check_source(std::string_view text, std::string_view what) {
  if (text.empty())
    return fail(errc::invalid_value, "the {} is empty", what);
  if (text.size() > grammar_limits::source_bytes_max)
    return fail(errc::invalid_value, "the {} has {} bytes of at most {}", what, text.size(),
                grammar_limits::source_bytes_max);
  if (text::utf8_valid_prefix(text) != text.size())
    return fail(errc::invalid_value, "the {} is not UTF-8", what);
  return {};
}

} // namespace baton::grammar
