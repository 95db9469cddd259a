#include "gateway/api/ollama/ollama_keep_alive.hpp"

#include <cmath>
#include <cstdint>
#include <utility>

namespace baton::gateway {
namespace {

constexpr std::pair<std::string_view, double> units[] = { // "ms" before "m"
    {"ns", 1e-9}, {"us", 1e-6}, {"\xc2\xb5s", 1e-6}, {"\xce\xbcs", 1e-6},
    {"ms", 1e-3}, {"s", 1},     {"m", 60},           {"h", 3600}};

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

// Takes digits with at most one point off the front. Nothing: there is no digit.
std::optional<double> take_number(std::string_view& text) noexcept {
  double value = 0, place = 1;
  bool has_digit = false, has_point = false;
  for (; !text.empty() && (is_digit(text[0]) || (text[0] == '.' && !has_point));
       text.remove_prefix(1))
    if (text[0] == '.') {
      has_point = true;
    } else {
      has_digit = true;
      place = has_point ? place / 10 : 1;
      value = has_point ? value + place * (text[0] - '0') : value * 10 + (text[0] - '0');
    }
  return has_digit ? std::optional(value) : std::nullopt;
}

// Takes a unit off the front; -> its seconds.
std::optional<double> take_unit(std::string_view& text) noexcept {
  for (const auto& [name, seconds] : units)
    if (text.starts_with(name)) {
      text.remove_prefix(name.size());
      return seconds;
    }
  return std::nullopt;
}

} // namespace

std::chrono::milliseconds keep_alive_of(double seconds) noexcept {
  if (seconds == 0)
    return std::chrono::milliseconds(0);
  const auto most = std::chrono::duration<double>(keep_alive_max).count();
  if (!(seconds > 0) || seconds > most)
    return keeps_forever;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

std::optional<std::chrono::milliseconds> parse_keep_alive(std::string_view text) noexcept {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+'))
    text.remove_prefix(1);
  double seconds = 0;
  for (bool is_first = true; is_first || !text.empty(); is_first = false) {
    const auto number = take_number(text);
    const bool is_plain = is_first && text.empty();
    const auto unit = is_plain ? std::optional(1.0) : take_unit(text);
    if (!number || !unit)
      return std::nullopt;
    seconds += *number * *unit;
  }
  return keep_alive_of(is_negative ? -seconds : seconds);
}

} // namespace baton::gateway
