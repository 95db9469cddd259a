#include "runtime/model/part_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace baton::model {
namespace {

constexpr std::size_t part_digits_max = 5;

bool is_like(std::string_view text, std::string_view lower) noexcept {
  return std::ranges::equal(text, lower, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
  });
}

// Takes a number of one to five digits off the end.
std::optional<std::string_view> taken_number(std::string_view& text) noexcept {
  std::size_t digits = 0;
  while (digits < text.size() && digits <= part_digits_max &&
         text[text.size() - 1 - digits] >= '0' && text[text.size() - 1 - digits] <= '9')
    ++digits;
  if (digits == 0 || digits > part_digits_max)
    return std::nullopt;
  const auto number = text.substr(text.size() - digits);
  text.remove_suffix(digits);
  return number;
}

bool taken(std::string_view& text, std::string_view lower) noexcept {
  if (text.size() < lower.size() || !is_like(text.substr(text.size() - lower.size()), lower))
    return false;
  text.remove_suffix(lower.size());
  return true;
}

std::uint32_t value_of(std::string_view digits) noexcept {
  std::uint32_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

} // namespace

std::string part_name::of(std::uint32_t other) const {
  return fmt::format("{}-{:0{}}-of-{:0{}}{}", before, other, digits, count, digits, after);
}

std::optional<part_name> parse_part_name(std::string_view text) {
  constexpr std::string_view ending = ".gguf";
  auto rest = text;
  if (!taken(rest, ending))
    return std::nullopt;
  const auto after = text.substr(rest.size());
  const auto count = taken_number(rest);
  if (!count || !taken(rest, "-of-"))
    return std::nullopt;
  const auto number = taken_number(rest);
  if (!number || number->size() != count->size() || !taken(rest, "-"))
    return std::nullopt;
  part_name name{.before = std::string(rest),
                 .after = std::string(after),
                 .number = value_of(*number),
                 .count = value_of(*count),
                 .digits = static_cast<std::uint32_t>(count->size())};
  if (name.count < 2 || name.count > part_count_max || name.number < 1 || name.number > name.count)
    return std::nullopt;
  return name.of(name.number) == text ? std::optional(std::move(name)) : std::nullopt;
}

std::string without_part_number(std::string_view text) {
  const auto name = parse_part_name(text);
  return name ? name->before + name->after : std::string(text);
}

} // namespace baton::model
