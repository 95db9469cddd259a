#include "gateway/api/openai/calls/call_literal.hpp"

#include "gateway/api/openai/calls/call_scan.hpp"
#include "runtime/grammar/automata/character_set.hpp"
#include "runtime/grammar/json_schema/json_value.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace baton::gateway {
namespace {

constexpr std::size_t literal_depth_max = 64;
constexpr std::string_view bare_name_ends = ":,{}[]() \t\r\n\"'";

class literal_reader {
public:
  literal_reader(std::string_view text, std::string_view quote) : text_(text), quote_(quote) {}

  std::optional<std::string> read() {
    auto value = read_value(0);
    skip_space();
    return at_ == text_.size() ? value : std::nullopt;
  }

private:
  void skip_space() { at_ = behind_space(text_, at_); }
  bool accept(std::string_view what) {
    const bool is_there = !what.empty() && text_.substr(at_).starts_with(what);
    at_ += is_there ? what.size() : 0;
    return is_there;
  }

  std::optional<std::string> read_value(std::size_t depth) {
    skip_space();
    if (at_ == text_.size() || depth > literal_depth_max) {
      return std::nullopt;
    }
    if (auto text = read_text()) {
      return grammar::quoted(*text);
    }
    const char first = text_[at_];
    if (first == '{') {
      return read_map(depth);
    }
    if (first == '[' || first == '(') {
      return read_list(first == '[' ? ']' : ')', depth);
    }
    return read_word();
  }

  std::optional<std::string> read_text() {
    if (accept(quote_)) {
      const auto end = text_.find(quote_, at_);
      if (end == std::string_view::npos) {
        return std::nullopt;
      }
      auto out = std::string(text_.substr(at_, end - at_));
      at_ = end + quote_.size();
      return out;
    }
    const char mark = at_ < text_.size() ? text_[at_] : '\0';
    if (mark != '"' && mark != '\'') {
      return std::nullopt;
    }
    std::string out;
    for (auto i = at_ + 1; i < text_.size(); ++i) {
      if (text_[i] == mark) {
        at_ = i + 1;
        return out;
      }
      if (text_[i] != '\\') {
        out += text_[i];
      } else if (!read_escape(++i, out)) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  // At the character behind the backslash; moves to the last one of the escape.
  bool read_escape(std::size_t& i, std::string& out) const {
    if (i >= text_.size()) {
      return false;
    }
    constexpr std::string_view names = "nrtbfv0\\'\"/", values("\n\r\t\b\f\v\0\\'\"/", 11);
    const char c = text_[i];
    if (const auto known = names.find(c); known != std::string_view::npos) {
      out += values[known];
      return true;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) { // Python keeps the backslash
      out += {'\\', c};
      return true;
    }
    auto code = number_at(i + 1, digits);
    if (!code) {
      return false;
    }
    i += digits;
    if (*code >= 0xD800 && *code < 0xDC00 && text_.substr(i + 1).starts_with("\\u")) {
      const auto low = number_at(i + 3, 4);
      if (low && *low >= 0xDC00 && *low < 0xE000) {
        code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
        i += 6;
      }
    }
    const bool is_character = *code <= grammar::character_max && (*code < 0xD800 || *code > 0xDFFF);
    out += grammar::utf8_of(is_character ? static_cast<char32_t>(*code) : U'\uFFFD');
    return true;
  }

  std::optional<std::uint32_t> number_at(std::size_t at, std::size_t digits) const {
    const auto hex = text_.substr(std::min(at, text_.size()), digits);
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    const bool is_whole =
        error == std::errc{} && hex.size() == digits && end == hex.data() + hex.size();
    return is_whole ? std::optional(code) : std::nullopt;
  }

  std::optional<std::string> read_list(char close, std::size_t depth) {
    std::string out = "[";
    ++at_;
    for (skip_space(); !accept({&close, 1}); skip_space()) {
      const auto item = read_value(depth + 1);
      skip_space();
      const bool goes_on = accept(",");
      if (!item || (!goes_on && !text_.substr(at_).starts_with(close))) {
        return std::nullopt;
      }
      out += (out.size() == 1 ? "" : ", ") + *item;
    }
    return out + "]";
  }

  std::optional<std::string> read_map(std::size_t depth) {
    std::string out = "{";
    ++at_;
    for (skip_space(); !accept("}"); skip_space()) {
      auto name = read_text();
      if (!name && !quote_.empty()) {
        const auto end = std::min(text_.find_first_of(bare_name_ends, at_), text_.size());
        name = text_.substr(at_, end - at_);
        at_ = end;
      }
      skip_space();
      if (!name || name->empty() || !accept(":")) {
        return std::nullopt;
      }
      const auto value = read_value(depth + 1);
      skip_space();
      const bool goes_on = accept(",");
      if (!value || (!goes_on && !text_.substr(at_).starts_with('}'))) {
        return std::nullopt;
      }
      out += (out.size() == 1 ? "" : ", ") + grammar::quoted(*name) + ": " + *value;
    }
    return out + "}";
  }

  // A number or a name.
  std::optional<std::string> read_word() {
    const auto end = std::min(text_.find_first_of(",)]}: \t\r\n", at_), text_.size());
    auto word = text_.substr(at_, end - at_);
    at_ = end;
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> names{
        {{"True", "true"}, {"False", "false"}, {"None", "null"}}};
    for (const auto& [python, json] : names) {
      word = word == python ? json : word;
    }
    const auto parsed = grammar::parse_json(word);
    return parsed ? std::optional(grammar::to_text(*parsed)) : std::nullopt;
  }

  std::string_view text_, quote_;
  std::size_t at_ = 0;
};

} // namespace

bool literal_scanner::find_end(std::string_view text, std::size_t& at) {
  while (at < text.size()) {
    const auto rest = text.substr(at);
    if (!quote_.empty() && (mark_ == 0 || mark_ == 'q')) {
      if (rest.starts_with(quote_)) {
        mark_ = mark_ == 0 ? 'q' : '\0';
        at += quote_.size();
        continue;
      }
      if (quote_.starts_with(rest)) {
        return false; // it may become one
      }
    }
    const char c = rest.front();
    if (mark_ == '"' || mark_ == '\'') {
      if (c == '\\') {
        if (rest.size() == 1) {
          return false;
        }
        ++at;
      } else if (c == mark_) {
        mark_ = 0;
      }
    } else if (mark_ == 0) {
      const bool closes = c == ')' || c == ']' || c == '}';
      if (depth_ == 0 && (closes || c == ',')) {
        return true;
      }
      depth_ += c == '(' || c == '[' || c == '{' ? 1 : 0;
      depth_ -= closes ? 1 : 0;
      mark_ = c == '"' || c == '\'' ? c : '\0';
    }
    ++at;
  }
  return false;
}

std::optional<std::string> json_of_literal(std::string_view text, std::string_view quote) {
  return literal_reader(text, quote).read();
}

} // namespace baton::gateway
