// Reads an answer's calls whole and cut into two at every place: the result must be the same.
#pragma once

#include "gateway/api/openai/calls/call_parser.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace baton::test {

using namespace baton::gateway;

inline std::shared_ptr<const call_reading> reading(call_format format,
                                                   bool is_constrained = false) {
  return std::make_shared<const call_reading>(
      call_reading{format, {"f", "get_weather"}, is_constrained});
}

inline void join(call_delta& to, const call_delta& from) {
  to.text += from.text;
  for (const auto& part : from.calls) {
    if (!part.name.empty()) {
      CHECK(part.index == to.calls.size());
      to.calls.push_back(part);
    } else {
      REQUIRE(part.index + 1 == to.calls.size());
      to.calls.back().arguments += part.arguments;
    }
  }
}

inline std::string shown(const call_delta& d) {
  auto out = "'" + d.text + "'";
  for (const auto& c : d.calls) {
    out += fmt::format(" {}:{}{}", c.index, c.name, c.arguments);
  }
  return out;
}

// The result for pieces that end at these offsets.
inline std::string read_cut(const std::shared_ptr<const call_reading>& how, std::string_view text,
                            const std::vector<std::size_t>& ends) {
  call_parser parser(how);
  call_delta all;
  std::size_t at = 0;
  for (const auto end : ends) {
    call_delta d;
    parser.add(text.substr(at, end - at), d);
    join(all, d);
    at = end;
  }
  call_delta d;
  parser.add(text.substr(at), d);
  parser.finish(d);
  join(all, d);
  CHECK(parser.calls() == all.calls.size());
  return shown(all);
}

inline std::string read_calls(const std::shared_ptr<const call_reading>& how,
                              std::string_view text) {
  const auto whole = read_cut(how, text, {});
  std::vector<std::size_t> each;
  for (std::size_t i = 0; i < text.size(); ++i) {
    CAPTURE(i);
    CHECK(read_cut(how, text, {i}) == whole);
    each.push_back(i);
  }
  CHECK(read_cut(how, text, each) == whole);
  return whole;
}

} // namespace baton::test
