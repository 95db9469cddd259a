// Dates as text: the C library's strftime in the "C" locale, which Python also calls.
#include "runtime/text/template/builtins/strftime.hpp"

#include <locale.h>

#include <array>
#include <ctime>

namespace baton::text::jinja {

namespace {

constexpr std::size_t directive_bytes_max = 64; // output of one directive: the longest has about 30

// Length of the directive at `at`: '%', flags, a width, 'E' or 'O', its letter. 0 if none.
std::size_t directive_length(std::string_view format, std::size_t at) {
  const std::size_t flags = format.find_first_not_of("_-0^#", at + 1);
  const std::size_t width = format.find_first_not_of("0123456789", flags);
  const std::size_t letter = width == std::string_view::npos
                                 ? width
                                 : width + (format[width] == 'E' || format[width] == 'O' ? 1 : 0);
  return letter < format.size() ? letter + 1 - at : 0;
}

// Python's own directives: a time without a zone has no zone name, and here no fraction.
std::optional<std::string_view> python_directive(std::string_view directive) {
  if (directive == "%f") {
    return "000000";
  }
  return directive == "%z" || directive == "%Z" ? std::optional<std::string_view>("")
                                                : std::nullopt;
}

std::optional<std::string> write(std::string_view directive, const std::tm& time) {
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  // The leading mark distinguishes an empty text from one that is too long.
  const std::string format = "." + std::string(directive);
  std::array<char, directive_bytes_max> text{};
  const auto size = strftime_l(text.data(), text.size(), format.c_str(), &time, c_locale);
  return size > 0 ? std::optional(std::string(text.data() + 1, size - 1)) : std::nullopt;
}

} // namespace

maybe format_time(interpreter& run, const marked_text& format, std::chrono::sys_seconds time) {
  const std::time_t seconds = time.time_since_epoch().count();
  std::tm civil{};
  if (!gmtime_r(&seconds, &civil)) {
    return run.fail("strftime_now: the year is out of range");
  }
  const std::string& text = format.text();
  marked_text out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t percent = std::min(text.find('%', at), text.size());
    if (!run.append(out, format, at, percent)) {
      return std::nullopt;
    }
    if (percent == text.size()) {
      break;
    }
    const std::size_t length = directive_length(text, percent);
    const auto directive = std::string_view(text).substr(percent, length);
    const auto known = python_directive(directive);
    const auto part = known ? std::string(*known) : write(directive, civil);
    if (length == 0 || !part) {
      return run.fail("strftime_now does not know the format '{}'",
                      text.substr(percent, length > 0 ? length : std::string::npos));
    }
    if (!run.check_text_size(out.size() + part->size()) || !run.spend(1)) {
      return std::nullopt;
    }
    out.append_as(*part, format, percent, percent + length);
    at = percent + length;
  }
  return run.make_text(std::move(out));
}

} // namespace baton::text::jinja
