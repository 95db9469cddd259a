#include "cluster/formats/toml_section.hpp"

#include "cluster/formats/toml_guard.hpp"
#include "schema/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

namespace baton::cluster {

namespace {

bool is_beyond_ascii(char c) noexcept {
  return static_cast<unsigned char>(c) >= 0x80;
}

// Escapes non-ASCII bytes, so different keys stay different; removes a byte order mark.
std::string in_ascii(std::string_view text) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  if (text.starts_with(mark))
    text.remove_prefix(mark.size());
  std::string out;
  for (const char c : text) {
    if (is_beyond_ascii(c))
      fmt::format_to(std::back_inserter(out), "{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

} // namespace

result<toml::table> parse_toml(std::string_view text, const std::string& origin) {
  if (auto ok = check_toml(text, origin); !ok)
    return ok.error();
  try {
    // After a wrong value toml++ searches for white space, even within strings. So such a text is
    // parsed in ASCII first, without the characters that break the search.
    if (std::any_of(text.begin(), text.end(), is_beyond_ascii))
      static_cast<void>(toml::parse(in_ascii(text), origin));
    return toml::parse(text, origin);
  } catch (const toml::parse_error& e) {
    return fail(errc::bad_config, "{}:{}: {}", origin, e.source().begin.line, e.description());
  }
}

std::string toml_section::full(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void toml_section::set_error(errc code, std::string_view key, const toml::node* where,
                             std::string text) {
  if (first_)
    return;
  auto line = where ? where->source().begin.line : 0;
  first_ = error{code, fmt::format("{}:{}: {}", origin_, line, text), full(key)};
}

const toml::node* toml_section::find(std::string_view key) {
  known_.emplace_back(key);
  return table_ ? table_->get(key) : nullptr;
}

const toml::node* toml_section::take(std::string_view key) {
  return find(key);
}

void toml_section::read(std::string_view key, std::string& value) {
  const auto* node = find(key);
  if (!node)
    return;
  if (auto text = node->value_exact<std::string>())
    value = *text;
  else
    set_error(errc::bad_config, key, node, fmt::format("{} must be a string", full(key)));
}

void toml_section::read(std::string_view key, bool& value) {
  const auto* node = find(key);
  if (!node)
    return;
  if (auto flag = node->value_exact<bool>())
    value = *flag;
  else
    set_error(errc::bad_config, key, node, fmt::format("{} must be true or false", full(key)));
}

void toml_section::read(std::string_view key, std::vector<std::string>& value) {
  const auto* node = find(key);
  if (!node)
    return;
  const auto* array = node->as_array();
  std::vector<std::string> texts;
  for (std::size_t i = 0; array && i < array->size(); ++i)
    if (auto text = array->get(i)->value_exact<std::string>())
      texts.push_back(*text);
  if (!array || texts.size() != array->size())
    set_error(errc::bad_config, key, node, fmt::format("{} must be a list of strings", full(key)));
  else
    value = std::move(texts);
}

std::optional<std::uint64_t> toml_section::read_integer(std::string_view key, std::uint64_t least,
                                                        std::uint64_t most) {
  const auto* node = find(key);
  if (!node)
    return std::nullopt;
  auto number = node->value_exact<std::int64_t>();
  if (!number) {
    set_error(errc::bad_config, key, node, fmt::format("{} must be a whole number", full(key)));
  } else if (*number < 0 || static_cast<std::uint64_t>(*number) < least ||
             static_cast<std::uint64_t>(*number) > most) {
    set_error(errc::bad_config, key, node,
              fmt::format("{} must be between {} and {}, not {}", full(key), least, most, *number));
  } else {
    return static_cast<std::uint64_t>(*number);
  }
  return std::nullopt;
}

void toml_section::read_bytes(std::string_view key, std::uint64_t& value, std::uint64_t least,
                              std::uint64_t most) {
  const auto* node = find(key);
  if (!node)
    return;
  std::uint64_t bytes = 0;
  if (auto number = node->value_exact<std::int64_t>(); number && *number >= 0) {
    bytes = static_cast<std::uint64_t>(*number);
  } else if (auto text = node->value_exact<std::string>()) {
    const auto* end = text->data() + text->size();
    auto [rest, failed] = std::from_chars(text->data(), end, bytes);
    while (rest != end && *rest == ' ')
      ++rest;
    std::string_view unit(rest, static_cast<std::size_t>(end - rest));
    unsigned shift = unit == "KiB"   ? 10
                     : unit == "MiB" ? 20
                     : unit == "GiB" ? 30
                     : unit == "TiB" ? 40
                                     : 0;
    if (failed != std::errc() || (shift == 0 && !unit.empty() && unit != "B") ||
        bytes > most >> shift)
      bytes = most + 1;
    else
      bytes <<= shift;
  } else {
    bytes = most + 1;
  }
  if (bytes < least || bytes > most)
    set_error(errc::bad_config, key, node,
              fmt::format("{} must be a size such as \"512MiB\", between {} and {} bytes",
                          full(key), least, most));
  else
    value = bytes;
}

void toml_section::read_bytes(std::string_view key, std::optional<std::uint64_t>& value,
                              std::uint64_t least, std::uint64_t most) {
  const auto* node = find(key);
  if (!node)
    return;
  if (node->value_exact<std::string>() == "auto")
    return value.reset();
  read_bytes(key, value.emplace(), least, most);
}

std::optional<double> toml_section::read_double(std::string_view key, std::string_view what,
                                                double least, double most) {
  const auto* node = find(key);
  if (!node)
    return std::nullopt;
  const auto number = node->value<double>();
  if (number && !node->is_string() && *number >= least && *number <= most)
    return number;
  set_error(errc::bad_config, key, node,
            fmt::format("{} must be {} between {} and {}", full(key), what, least, most));
  return std::nullopt;
}

void toml_section::read_seconds(std::string_view key, std::chrono::milliseconds& value,
                                double least, double most) {
  if (const auto seconds = read_double(key, "seconds", least, most))
    value = std::chrono::milliseconds(std::llround(*seconds * 1e3));
}

void toml_section::read_seconds(std::string_view key, std::chrono::microseconds& value,
                                double least, double most) {
  if (const auto seconds = read_double(key, "seconds", least, most))
    value = std::chrono::microseconds(std::llround(*seconds * 1e6));
}

void toml_section::read_number(std::string_view key, float& value, double least, double most) {
  if (const auto number = read_double(key, "a number", least, most))
    value = static_cast<float>(*number);
}

result<void> toml_section::finish() {
  if (first_)
    return *first_;
  if (!table_)
    return {};
  for (const auto& [key, node] : *table_) {
    if (std::find(known_.begin(), known_.end(), key.str()) != known_.end())
      continue;
    auto near = nearest_name(key.str(), known_);
    set_error(errc::unknown_key, key.str(), &node,
              fmt::format("unknown key {}{}", full(key.str()),
                          near ? fmt::format("; did you mean '{}'?", *near) : std::string()));
    return *first_;
  }
  return {};
}

} // namespace baton::cluster
