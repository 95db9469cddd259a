#include "runtime/grammar/json_schema/json_value.hpp"

#include "runtime/grammar/automata/text_reader.hpp"

#include <algorithm>
#include <set>

namespace baton::grammar {
namespace {

class json_parser {
public:
  explicit json_parser(std::string_view text) : in_(text) {}

  result<json_value> read() {
    json_value out;
    if (auto ok = read_value(out, 0); !ok)
      return ok.error();
    skip_space();
    if (!in_.is_at_end())
      return wrong("text after the value");
    return out;
  }

private:
  error wrong(std::string_view what) const {
    return fail(errc::invalid_value, "this is not JSON: {}, at position {}", what, in_.position());
  }

  void skip_space() {
    while (in_.accept(" ") || in_.accept("\n") || in_.accept("\r") || in_.accept("\t")) {
    }
  }

  result<void> read_value(json_value& out, std::size_t depth) {
    if (depth > grammar_limits::depth_max)
      return wrong("nested too deeply");
    skip_space();
    if (in_.accept("{"))
      return read_object(out, depth);
    if (in_.accept("["))
      return read_array(out, depth);
    if (in_.accept("\"")) {
      out.is = json_value::kind::string;
      return read_string(out.text);
    }
    if (in_.accept("null"))
      return {};
    for (const bool b : {true, false})
      if (in_.accept(b ? "true" : "false")) {
        out.is = json_value::kind::boolean;
        out.boolean = b;
        return {};
      }
    return read_number(out);
  }

  result<void> read_object(json_value& out, std::size_t depth) {
    out.is = json_value::kind::object;
    std::set<std::string> names;
    skip_space();
    if (in_.accept("}"))
      return {};
    do {
      skip_space();
      auto& [name, value] = out.members.emplace_back(std::string(), json_value());
      if (!in_.accept("\""))
        return wrong("a member without a name");
      if (auto ok = read_string(name); !ok)
        return ok;
      if (!names.insert(name).second)
        return wrong("a duplicate member");
      skip_space();
      if (!in_.accept(":"))
        return wrong("a member without ':'");
      if (auto ok = read_value(value, depth + 1); !ok)
        return ok;
      skip_space();
    } while (in_.accept(","));
    return in_.accept("}") ? result<void>() : wrong("'}' or ',' is missing");
  }

  result<void> read_array(json_value& out, std::size_t depth) {
    out.is = json_value::kind::array;
    skip_space();
    if (in_.accept("]"))
      return {};
    do {
      if (auto ok = read_value(out.items.emplace_back(), depth + 1); !ok)
        return ok;
      skip_space();
    } while (in_.accept(","));
    return in_.accept("]") ? result<void>() : wrong("']' or ',' is missing");
  }

  // Starts after the first quote.
  result<void> read_string(std::string& out) {
    while (!in_.is_at_end()) {
      const char32_t c = in_.next();
      if (c == '"')
        return {};
      if (c < 0x20)
        return wrong("a control character in a string");
      if (c != '\\') {
        out += utf8_of(c);
        continue;
      }
      const auto escaped = read_escape();
      if (!escaped)
        return wrong("an unknown escape");
      out += utf8_of(*escaped);
    }
    return wrong("an unterminated string");
  }

  std::optional<char32_t> read_escape() {
    constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    if (in_.is_at_end())
      return std::nullopt;
    const char32_t c = in_.next();
    if (c != 'u') {
      const auto at = c < 0x80 ? names.find(static_cast<char>(c)) : std::string_view::npos;
      return at == std::string_view::npos ? std::nullopt : std::optional<char32_t>(meanings[at]);
    }
    const auto high = in_.number(16, 4, 4);
    if (!high || *high < 0xD800 || *high > 0xDFFF)
      return high;
    if (*high > 0xDBFF || !in_.accept("\\u"))
      return std::nullopt; // half of a surrogate pair
    const auto low = in_.number(16, 4, 4);
    if (!low || *low < 0xDC00 || *low > 0xDFFF)
      return std::nullopt;
    return 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00);
  }

  bool read_digits(std::string& out) {
    const auto before = out.size();
    while (in_.peek() >= '0' && in_.peek() <= '9')
      out += static_cast<char>(in_.next());
    return out.size() > before;
  }

  result<void> read_number(json_value& out) {
    out.is = json_value::kind::number;
    auto& text = out.text;
    if (in_.accept("-"))
      text += '-';
    const bool has_zero = in_.peek() == '0';
    const auto begin = text.size();
    if (!read_digits(text) || (has_zero && text.size() > begin + 1))
      return wrong("a value is missing");
    if (in_.accept(".")) {
      text += '.';
      if (!read_digits(text))
        return wrong("a number without digits after its point");
    }
    if (in_.accept("e") || in_.accept("E")) {
      text += 'e';
      if (in_.accept("-"))
        text += '-';
      else
        in_.accept("+");
      if (!read_digits(text))
        return wrong("a number without digits in its exponent");
    }
    return {};
  }

  text_reader in_;
};

} // namespace

const json_value* json_value::find(std::string_view name) const noexcept {
  const auto it = std::find_if(members.begin(), members.end(),
                               [&](const auto& member) { return member.first == name; });
  return it == members.end() ? nullptr : &it->second;
}

result<json_value> parse_json(std::string_view text) {
  return json_parser(text).read();
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    constexpr std::string_view controls = "\b\f\n\r\t", names = "bfnrt";
    const auto byte = static_cast<unsigned char>(c);
    const auto named = controls.find(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (byte < 0x20 && named != std::string_view::npos)
      out += {'\\', names[named]};
    else if (byte < 0x20)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c;
  }
  return out + '"';
}

std::string to_text(const json_value& value) {
  switch (value.is) {
  case json_value::kind::null:
    return "null";
  case json_value::kind::boolean:
    return value.boolean ? "true" : "false";
  case json_value::kind::number:
    return value.text;
  case json_value::kind::string:
    return quoted(value.text);
  case json_value::kind::array:
  case json_value::kind::object:
    break;
  }
  std::string out;
  for (const auto& item : value.items)
    out += (out.empty() ? "" : ", ") + to_text(item);
  for (const auto& [name, member] : value.members)
    out += (out.empty() ? "" : ", ") + quoted(name) + ": " + to_text(member);
  return value.is == json_value::kind::array ? "[" + out + "]" : "{" + out + "}";
}

} // namespace baton::grammar
