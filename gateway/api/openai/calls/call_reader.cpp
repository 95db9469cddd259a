#include "gateway/api/openai/calls/call_reader.hpp"

#include "schema/ensure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace baton::gateway {
namespace {

constexpr std::string_view name_letters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
constexpr std::size_t tool_name_bytes_max = 128;

} // namespace

json_scanner::verdict json_scanner::next(char c) noexcept {
  if (is_in_string_) {
    is_in_string_ = is_escaped_ || c != '"';
    is_escaped_ = !is_escaped_ && c == '\\';
    return verdict::more;
  }
  if (c == '{' || c == '[') {
    ++depth_;
    return verdict::more;
  }
  if (depth_ == 0) {
    return verdict::bad;
  }
  if (c == '}' || c == ']') {
    return --depth_ == 0 ? verdict::done : verdict::more;
  }
  is_in_string_ = c == '"';
  // The only literals in JSON are true, false and null.
  constexpr std::string_view possible = "\",: \t\r\n0123456789+-.eEtrufalsn";
  return possible.find(c) == std::string_view::npos ? verdict::bad : verdict::more;
}

void call_reader::begin_argument(std::string_view key) {
  keys_.emplace(key);
  auto& arguments = calls_.back().arguments;
  arguments += (arguments.empty() ? "{" : ", ") + grammar::quoted(key) + ": ";
}

void call_reader::end_arguments() {
  keys_.clear();
  auto& arguments = calls_.back().arguments;
  arguments += arguments.empty() ? "{}" : "}";
}

call_reader::verdict call_reader::read_mark(std::string_view text, std::string_view pattern,
                                            bool is_over) {
  switch (match_loosely(text, at_, pattern)) {
  case text_match::whole:
    return verdict::whole;
  case text_match::partly:
    return is_over ? verdict::bad : verdict::more;
  case text_match::no:
    break;
  }
  return verdict::bad;
}

// The texts that open a list and its first call, or the second part of them.
call_reader::verdict call_reader::read_open(std::string_view text, bool is_over) {
  const auto open =
      fmt::format("{} {}", row_.list_open, row_.call_open); // white space may be there
  const auto first = read_mark(text, open, is_over);
  const auto other = row_.other_mark.empty() ? std::string::npos : open.find(row_.other_mark);
  if (first == verdict::whole || other == std::string::npos) {
    return first;
  }
  const auto second = read_mark(text, std::string_view(open).substr(other), is_over);
  return second == verdict::bad ? first : second;
}

call_reader::verdict call_reader::read_name(std::string_view text, bool is_over) {
  const auto begin = behind_space(text, at_);
  const auto end = std::min(text.find_first_not_of(name_letters, begin), text.size());
  if (end == text.size() && !is_over && end - begin <= tool_name_bytes_max) {
    return verdict::more;
  }
  const auto name = text.substr(begin, end - begin);
  const auto tool = std::find(how_.names.begin(), how_.names.end(), name);
  if (tool == how_.names.end()) {
    return verdict::bad;
  }
  tool_ = static_cast<std::size_t>(tool - how_.names.begin());
  calls_.push_back({std::string(name), {}});
  at_ = end;
  return verdict::whole;
}

std::unique_ptr<call_reader> make_call_reader(const call_reading& how) {
  // Indexed by call_syntax.
  constexpr std::array<std::unique_ptr<call_reader> (*)(const text::call_row&, const call_reading&),
                       5>
      makers{nullptr, make_named_call_reader, make_tagged_call_reader, make_literal_call_reader,
             make_literal_call_reader};
  const auto& row = text::row_of(how.format);
  const auto make = makers[static_cast<std::size_t>(row.syntax)];
  ENSURE(make, "the format '{}' has no reader", row.name);
  return make(row, how);
}

} // namespace baton::gateway
