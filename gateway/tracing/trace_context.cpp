#include "gateway/tracing/trace_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace baton::gateway {
namespace {

constexpr std::size_t header_chars = 55; // of version 00

// Upper case is not valid here (section 3.2.2).
std::optional<std::uint8_t> digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') {
    return static_cast<std::uint8_t>(c - '0');
  }
  if (c >= 'a' && c <= 'f') {
    return static_cast<std::uint8_t>(c - 'a' + 10);
  }
  return std::nullopt;
}

template <std::size_t N>
bool read_hex(std::string_view text, std::array<std::uint8_t, N>& to) noexcept {
  for (std::size_t i = 0; i < N; ++i) {
    const auto high = digit_of(text[2 * i]);
    const auto low = digit_of(text[2 * i + 1]);
    if (!high || !low) {
      return false;
    }
    to[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  return true;
}

template <std::size_t N>
bool is_zero(const std::array<std::uint8_t, N>& id) noexcept {
  return std::all_of(id.begin(), id.end(), [](std::uint8_t byte) { return byte == 0; });
}

template <std::size_t N>
std::string hex(const std::array<std::uint8_t, N>& bytes) {
  std::string out;
  for (const auto byte : bytes) {
    fmt::format_to(std::back_inserter(out), "{:02x}", byte);
  }
  return out;
}

bool is_lower_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Section 3.3.1.3.1, level 2: at most 256 characters, the first a letter or a digit. One "@" may
// separate a tenant from its system, as in level 1.
bool is_key(std::string_view key) noexcept {
  constexpr std::size_t key_chars_max = 256;
  return !key.empty() && key.size() <= key_chars_max && is_lower_or_digit(key.front()) &&
         std::count(key.begin(), key.end(), '@') <= 1 && key.back() != '@' &&
         std::all_of(key.begin(), key.end(), [](char c) {
           return is_lower_or_digit(c) || c == '_' || c == '-' || c == '*' || c == '/' || c == '@';
         });
}

// Section 3.3.1.3.2: printable ASCII except "," and "=", not ending with a space.
bool is_value(std::string_view value) noexcept {
  constexpr std::size_t value_chars_max = 256;
  return !value.empty() && value.size() <= value_chars_max && value.back() != ' ' &&
         std::all_of(value.begin(), value.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; });
}

std::string_view trimmed(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string_view key_of(std::string_view member) noexcept {
  return member.substr(0, member.find('='));
}

bool is_member(std::string_view member) noexcept {
  const auto equals = member.find('=');
  return equals != std::string_view::npos && is_key(member.substr(0, equals)) &&
         is_value(member.substr(equals + 1));
}

// Empty unless all members are valid and their keys are unique.
std::optional<std::vector<std::string_view>> members_of(std::string_view list) {
  std::vector<std::string_view> all;
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    const auto member = trimmed(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (member.empty()) {
      continue; // allowed
    }
    const bool is_known = std::any_of(all.begin(), all.end(), [&](std::string_view other) {
      return key_of(other) == key_of(member);
    });
    if (!is_member(member) || is_known || all.size() == tracestate_members_max) {
      return std::nullopt;
    }
    all.push_back(member);
  }
  return all;
}

std::size_t bytes_of_list(const std::vector<std::string_view>& members) noexcept {
  std::size_t bytes = 0;
  for (const auto member : members) {
    bytes += member.size() + 1;
  }
  return bytes == 0 ? 0 : bytes - 1;
}

} // namespace

std::optional<trace_parent> parse_traceparent(std::string_view header) {
  header = trimmed(header);
  if (header.size() < header_chars) {
    return std::nullopt;
  }
  const bool has_dashes = header[2] == '-' && header[35] == '-' && header[52] == '-';
  trace_parent parent;
  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  const bool is_read =
      has_dashes && read_hex(header, version) && read_hex(header.substr(3), parent.trace) &&
      read_hex(header.substr(36), parent.span) && read_hex(header.substr(53), flags);
  if (!is_read || version[0] == 0xff || is_zero(parent.trace) || is_zero(parent.span)) {
    return std::nullopt;
  }
  const bool has_more = header.size() > header_chars;
  if (has_more && (version[0] == 0 || header[header_chars] != '-')) {
    return std::nullopt;
  }
  // Other flags of a newer version have no known meaning and are not propagated.
  parent.flags = static_cast<std::uint8_t>(flags[0] & (flag_sampled | flag_random));
  return parent;
}

std::string parse_tracestate(std::string_view header) {
  auto members = members_of(header);
  if (!members) {
    return {};
  }
  for (auto i = members->size(); i-- > 0 && bytes_of_list(*members) > tracestate_bytes_max;) {
    if ((*members)[i].size() > tracestate_member_bytes_large) {
      members->erase(members->begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  while (bytes_of_list(*members) > tracestate_bytes_max) {
    members->pop_back();
  }
  return fmt::format("{}", fmt::join(*members, ","));
}

std::string traceparent_of(const trace_parent& parent) {
  return fmt::format("00-{}-{}-{:02x}", hex(parent.trace), hex(parent.span), parent.flags);
}

std::string hex_of(const trace_id& id) {
  return hex(id);
}

std::string hex_of(const span_id& id) {
  return hex(id);
}

bool is_in_share(const trace_id& id, double share) noexcept {
  constexpr double all = 72057594037927936.0; // 2^56: the values of 7 bytes
  std::uint64_t drawn = 0;
  for (std::size_t i = 9; i < id.size(); ++i) {
    drawn = drawn << 8 | id[i];
  }
  return drawn < static_cast<std::uint64_t>(share * all); // as a double, the last ones are 2^56
}

} // namespace baton::gateway
