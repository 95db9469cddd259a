// A nodes.toml with one of its lines changed.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace baton::testing {

inline std::string replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string all(text);
  const auto at = all.find(what);
  REQUIRE(at != std::string::npos);
  return all.replace(at, what.size(), with);
}

} // namespace baton::testing
