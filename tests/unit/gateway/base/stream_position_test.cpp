// Stream positions, as clients keep them.
#include "gateway/base/stream_position.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

TEST_CASE("a position is read as it was written") {
  for (const auto& position : {stream_position{{17}, 0xC0FFEE, {{12, false}}},
                               stream_position{{UINT64_MAX}, UINT64_MAX, {{UINT32_MAX, true}}},
                               stream_position{{1}, 1, {{0, false}, {9, true}, {3, false}}},
                               stream_position{{1}, 1, {{7, false}, {9, true}}, {0, 1ULL << 40}}}) {
    std::string text;
    append_position(text, position);
    CAPTURE(text);
    const auto back = parse_position(text, static_cast<std::uint32_t>(position.from.size()));
    REQUIRE(back);
    CHECK(*back == position);
  }
  std::string text;
  append_position(text, {{17}, 0xC0FFEE, {{12, false}, {9, true}}});
  CHECK(text == "17-0000000000c0ffee:12,9!");
}

TEST_CASE("an invalid position is refused by the header's name") {
  for (const char* text :
       {"", "17", "17:3", "17-:3", "17-ab", "17-ab:", "17-ab:3,", "17-ab:3!!", "17-ab:-3",
        "17-ab:4294967296", "-17-ab:3", "17-xyz:3", "17-ab:3 ", "18446744073709551616-ab:3",
        "17-ab:3,4", "17-ab:3.", "17-ab:3.x", "17-ab:3!.5"}) {
    CAPTURE(text);
    const auto read = parse_position(text, 1);
    REQUIRE(!read);
    CHECK(read.error().code == errc::invalid_value);
    CHECK(read.error().param == "Last-Event-ID");
  }
}
