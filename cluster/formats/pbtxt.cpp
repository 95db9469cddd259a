#include "cluster/formats/pbtxt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

namespace baton::cluster {
namespace {

using nlohmann::ordered_json;

constexpr int depth_max = 32;

bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
bool is_space(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

class parser {
public:
  explicit parser(std::string_view text) : text_(text) {}

  result<ordered_json> whole() {
    auto all = fields('\0', 0);
    if (at_ < text_.size())
      fail_here("a byte of zero");
    if (wrong_)
      return *wrong_;
    return all;
  }

private:
  // Skips white space and comments. '\0' at the end.
  char peek() {
    while (at_ < text_.size() && (is_space(text_[at_]) || text_[at_] == '#'))
      at_ = text_[at_] == '#' ? std::min(text_.find('\n', at_), text_.size()) : at_ + 1;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char mark) {
    if (peek() != mark || at_ == text_.size())
      return false;
    ++at_;
    return true;
  }
  ordered_json fail_here(std::string_view what) {
    if (!wrong_) {
      const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<long>(at_), '\n');
      wrong_ = fail(errc::bad_config, "line {}: {}", line, what);
    }
    return {};
  }

  std::string word() {
    const auto begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]) ||
                                  text_[at_] == '.' || text_[at_] == '-' || text_[at_] == '+'))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  ordered_json fields(char end, int depth) {
    auto all = ordered_json::object();
    if (depth > depth_max)
      return fail_here("there are too many levels");
    while (!wrong_ && peek() != end) {
      if (!is_letter(peek()))
        return fail_here("the name of a field is missing");
      auto& values = all.emplace(word(), ordered_json::array()).first.value();
      const bool has_colon = take(':');
      if (peek() == '[') {
        list(values, depth);
      } else {
        if (!has_colon && peek() != '{' && peek() != '<')
          return fail_here("':' is missing");
        values.push_back(value(depth));
      }
      if (peek() == ',' || peek() == ';')
        ++at_;
    }
    if (end != '\0')
      ++at_;
    return all;
  }

  void list(ordered_json& values, int depth) {
    ++at_;
    while (!wrong_ && !take(']')) {
      values.push_back(value(depth));
      if (!wrong_ && !take(',') && peek() != ']')
        fail_here("',' or ']' is missing");
    }
  }

  ordered_json value(int depth) {
    const char first = peek();
    if (first == '{' || first == '<') {
      ++at_;
      return fields(first == '{' ? '}' : '>', depth + 1);
    }
    if (first == '"' || first == '\'') {
      std::string all;
      while (!wrong_ && (peek() == '"' || peek() == '\'')) // adjacent strings are concatenated
        quoted(all);
      return all;
    }
    if (is_digit(first) || first == '-' || first == '.')
      return number();
    if (!is_letter(first))
      return fail_here("a value is missing");
    auto name = word();
    if (name == "true" || name == "True" || name == "t")
      return true;
    if (name == "false" || name == "False" || name == "f")
      return false;
    return name;
  }

  void quoted(std::string& all) {
    const char mark = text_[at_++];
    while (at_ < text_.size() && text_[at_] != mark && text_[at_] != '\n') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size())
        escape(all);
      else
        all += text_[at_++];
    }
    if (at_ == text_.size() || text_[at_] != mark)
      fail_here("a string does not end");
    else
      ++at_;
  }

  // Names of files and models need only these escapes; \x and octal digits are also accepted.
  void escape(std::string& all) {
    constexpr std::string_view letters = "abfnrtv", meant = "\a\b\f\n\r\t\v";
    const char c = text_[++at_];
    if (const auto i = letters.find(c); i != letters.npos) {
      all += meant[i];
      ++at_;
      return;
    }
    const bool is_hex = c == 'x' || c == 'X';
    const bool is_octal = c >= '0' && c <= '7';
    if (!is_hex && !is_octal) {
      all += c;
      ++at_;
      return;
    }
    const auto* begin = text_.data() + at_ + (is_hex ? 1 : 0);
    const auto* most = std::min(begin + (is_hex ? 2 : 3), text_.data() + text_.size());
    unsigned byte = 0;
    const auto read = std::from_chars(begin, most, byte, is_hex ? 16 : 8);
    if (read.ec != std::errc() || byte > 0xff) {
      fail_here("an escape is out of range");
      return;
    }
    all += static_cast<char>(byte);
    at_ = static_cast<std::size_t>(read.ptr - text_.data());
  }

  ordered_json number() {
    const auto digits = word();
    const auto* end = digits.data() + digits.size();
    std::int64_t whole = 0;
    const bool is_hex = digits.starts_with("0x") || digits.starts_with("0X");
    const auto* begin = digits.data() + (is_hex ? 2 : 0);
    if (const auto read = std::from_chars(begin, end, whole, is_hex ? 16 : 10);
        read.ec == std::errc() && read.ptr == end)
      return whole;
    const auto* most = digits.ends_with('f') && !is_hex ? end - 1 : end; // 1.5f
    double real = 0;
    if (const auto read = std::from_chars(digits.data(), most, real);
        read.ec == std::errc() && read.ptr == most)
      return real;
    return fail_here("'" + digits.substr(0, 32) + "' is no number");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<error> wrong_;
};

// Octal escapes for bytes outside of printable ASCII: parse_pbtxt reads bytes, not characters.
std::string quoted_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (c >= 0x20 && c < 0x7f)
      out += c;
    else
      out += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  }
  return out + '"';
}

void write_message(std::string& out, const ordered_json& message) {
  for (const auto& [name, values] : message.items()) {
    for (const auto& value : values) {
      out += name;
      if (value.is_object()) {
        out += " { ";
        write_message(out, value);
        out += "}";
      } else {
        out += ": " + (value.is_string() ? quoted_text(value.get_ref<const std::string&>())
                                         : value.dump());
      }
      out += ' ';
    }
  }
}

} // namespace

std::string pbtxt_text(const ordered_json& message) {
  std::string out;
  write_message(out, message);
  return out;
}

result<nlohmann::ordered_json> parse_pbtxt(std::string_view text) {
  return parser(text).whole();
}

} // namespace baton::cluster
