// The error table is on the wire and in HTTP bodies: every code has a row, names are unique.
#include "schema/result.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace baton;

TEST_CASE("every row of the error table is found again by its number") {
  std::set<std::string_view> names;
  for (const auto& row : errc_table()) {
    CHECK(errc_from(static_cast<std::uint16_t>(row.code)) == row.code);
    CHECK(names.insert(row.name).second);
    CHECK(row.http_status >= 400);
    CHECK(row.http_status < 600);
  }
}

TEST_CASE("a number that no build has assigned is not an errc") {
  CHECK_FALSE(errc_from(0));
  CHECK_FALSE(errc_from(29));
  CHECK_FALSE(errc_from(65535));
}

TEST_CASE("a result holds its value or its error") {
  result<int> good = 7;
  result<int> bad = fail_param(errc::invalid_value, "top_p", "top_p is {}", 2);
  REQUIRE(good);
  CHECK(*good == 7);
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == errc::invalid_value);
  CHECK(bad.error().param == "top_p");
  CHECK(bad.error().message == "top_p is 2");
}
