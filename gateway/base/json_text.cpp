#include "gateway/base/json_text.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
constexpr std::string_view json_space = " \t\n\r";
constexpr std::string_view after_literal =
    ",:}] \t\n\r"; // the end of a number, true, false or null

// Walks through a text, never beyond its end. Each step consumes what it expects, or reports that
// it is not there.
class text_cursor {
public:
  explicit text_cursor(std::string_view text) : left_(text) {}

  bool accept(char c) noexcept {
    if (!left_.starts_with(c)) {
      return false;
    }
    left_.remove_prefix(1);
    return true;
  }

  void skip_space() noexcept {
    left_.remove_prefix(std::min(left_.find_first_not_of(json_space), left_.size()));
  }

  // With its quotes.
  std::optional<std::string_view> string() noexcept {
    if (!left_.starts_with('"')) {
      return std::nullopt;
    }
    for (std::size_t i = 1; i < left_.size(); ++i) {
      if (left_[i] == '\\') {
        ++i;
      } else if (left_[i] == '"') {
        return take(i + 1);
      }
    }
    return std::nullopt;
  }

  // For an object or an array: all up to its last bracket.
  std::optional<std::string_view> value() noexcept {
    const auto from_here = left_;
    std::size_t depth = 0;
    do {
      if (left_.empty()) {
        return std::nullopt;
      }
      const char c = left_.front();
      if (c == '"') {
        if (!string()) {
          return std::nullopt;
        }
      } else if (c == '{' || c == '[') {
        ++depth;
        left_.remove_prefix(1);
      } else if (depth > 0) {
        depth -= c == '}' || c == ']' ? 1 : 0;
        left_.remove_prefix(1);
      } else if (const auto end = std::min(left_.find_first_of(after_literal), left_.size());
                 end > 0) {
        left_.remove_prefix(end);
      } else {
        return std::nullopt;
      }
    } while (depth > 0);
    return from_here.substr(0, from_here.size() - left_.size());
  }

private:
  std::string_view take(std::size_t size) noexcept {
    const auto taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  std::string_view left_;
};

// `quoted` may contain escapes.
bool is_name(std::string_view quoted, std::string_view name) {
  if (quoted.find('\\') == std::string_view::npos) {
    return quoted.substr(1, quoted.size() - 2) == name;
  }
  const auto read = nlohmann::json::parse(quoted, nullptr, /*allow_exceptions=*/false);
  return read.is_string() && read.get_ref<const std::string&>() == name;
}

std::optional<std::string_view> member_of(std::string_view object, std::string_view name) {
  text_cursor at(object);
  std::optional<std::string_view> found;
  at.skip_space();
  if (!at.accept('{')) {
    return std::nullopt;
  }
  do {
    at.skip_space();
    const auto quoted = at.string();
    at.skip_space();
    if (!quoted || !at.accept(':')) {
      return std::nullopt;
    }
    at.skip_space();
    const auto value = at.value();
    if (!value) {
      return std::nullopt;
    }
    if (is_name(*quoted, name)) {
      found = value;
    }
    at.skip_space();
  } while (at.accept(','));
  return at.accept('}') ? found : std::nullopt;
}

} // namespace

std::string_view without_mark(std::string_view text) noexcept {
  if (text.starts_with(byte_order_mark)) {
    text.remove_prefix(byte_order_mark.size());
  }
  return text;
}

void append_json_string(std::string& out, std::string_view text) {
  const auto is_plain = [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x80 &&
           c != '"' && c != '\\';
  };
  if (std::all_of(text.begin(), text.end(), is_plain)) {
    out += '"';
    out += text;
    out += '"';
  } else {
    out += json_text(nlohmann::ordered_json(text));
  }
}

std::string shown_member(std::string_view name) {
  constexpr std::size_t bytes_shown = 64;
  std::string out(name.substr(0, bytes_shown));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return out;
}

result<std::string> raw_member(std::string_view text, std::span<const std::string_view> path) {
  std::optional<std::string_view> at = without_mark(text);
  std::string full;
  for (const auto name : path) {
    full += (full.empty() ? "" : ".") + shown_member(name);
  }
  for (const auto name : path) {
    at = member_of(*at, name);
    if (!at) {
      return fail_param(errc::invalid_request, full, "the text of '{}' cannot be read", full);
    }
  }
  return std::string(*at);
}

} // namespace baton::gateway
