#include "gateway/base/stream_position.hpp"

#include <charconv>
#include <iterator>
#include <optional>

namespace baton::gateway {
namespace {

// Removes a number from the beginning of `text`.
template <class T>
std::optional<T> take_number(std::string_view& text, int base = 10) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (code != std::errc{}) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take_mark(std::string_view& text, char mark) {
  if (!text.starts_with(mark)) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

std::optional<stream_position> read(std::string_view text) {
  const auto ticket = take_number<std::uint64_t>(text);
  const auto key = take_mark(text, '-') ? take_number<std::uint64_t>(text, 16) : std::nullopt;
  if (!ticket || !key || !take_mark(text, ':')) {
    return std::nullopt;
  }
  stream_position out{{*ticket}, *key, {}};
  do {
    const auto index = take_number<std::uint32_t>(text);
    if (!index) {
      return std::nullopt;
    }
    if (take_mark(text, '.')) {
      const auto bytes = take_number<std::uint64_t>(text);
      if (!bytes) {
        return std::nullopt;
      }
      out.text_bytes.push_back(*bytes);
    }
    const bool has_finish = take_mark(text, '!');
    out.from.push_back({*index, has_finish});
  } while (take_mark(text, ','));
  const bool is_even = out.text_bytes.empty() || out.text_bytes.size() == out.from.size();
  return text.empty() && is_even ? std::optional(std::move(out)) : std::nullopt;
}

} // namespace

void append_position(std::string& out, const stream_position& position) {
  fmt::format_to(std::back_inserter(out), "{}-{:016x}", position.ticket.value, position.resume_key);
  for (std::size_t i = 0; i < position.from.size(); ++i) {
    const auto& point = position.from[i];
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? ':' : ',', point.index);
    if (!position.text_bytes.empty()) {
      fmt::format_to(std::back_inserter(out), ".{}", position.text_bytes[i]);
    }
    out += point.has_finish ? "!" : "";
  }
}

result<stream_position> parse_position(std::string_view text, std::uint32_t choices) {
  auto position = read(text);
  if (!position) {
    return fail_param(errc::invalid_value, "Last-Event-ID",
                      "'{}' is no id of an event of this server: '<ticket>-<key>:<index>'",
                      text.substr(0, 128));
  }
  if (position->from.size() != choices) {
    return fail_param(errc::invalid_value, "Last-Event-ID",
                      "the position is in a stream of {} choices, but the request has {}",
                      position->from.size(), choices);
  }
  return *std::move(position);
}

} // namespace baton::gateway
