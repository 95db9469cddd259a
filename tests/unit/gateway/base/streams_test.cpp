// A stream is bounded by bytes and never blocks the side that pushes.
#include "gateway/base/streams.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

namespace {

chunk stream_chunk(std::size_t bytes, std::uint32_t index = 1) {
  chunk c;
  c.index = index;
  c.count = 1;
  c.text.assign(bytes, 'x');
  return c;
}

} // namespace

TEST_CASE("events come out in the order of pushes, with one wake-up for all") {
  int woken = 0;
  stream s(1, 4096, [&] { ++woken; });
  CHECK(s.push(granted{1, ticket_id{7}, epoch_id{1}}));
  CHECK(s.push(stream_chunk(10)));
  CHECK(woken == 0);
  s.wake_reader();
  CHECK(woken == 1);
  auto first = s.next();
  REQUIRE(first);
  CHECK(std::get<granted>(*first).ticket == ticket_id{7});
  CHECK(std::get<chunk>(*s.next()).text.size() == 10);
  CHECK_FALSE(s.next());
}

TEST_CASE("a push beyond the limit cuts the stream and leaves one terminal error") {
  stream s(1, 2000, nullptr);
  CHECK(s.push(stream_chunk(700)));
  CHECK(s.push(stream_chunk(700)));
  CHECK_FALSE(s.push(stream_chunk(700)));
  CHECK(s.is_cut());
  auto last = s.next();
  REQUIRE(last);
  CHECK(std::get<failed>(*last).reason.code == errc::slow_reader);
  CHECK_FALSE(s.next());
  CHECK(s.push(stream_chunk(1))); // no further wake-up, no further event
  CHECK_FALSE(s.next());
}

TEST_CASE("events taken by the reader no longer count against the limit") {
  stream s(1, 2000, nullptr);
  for (int i = 0; i < 100; ++i) {
    CHECK(s.push(stream_chunk(1500)));
    CHECK(s.next());
  }
  CHECK_FALSE(s.is_cut());
}

TEST_CASE("one event larger than the limit is accepted by an empty stream") {
  stream s(1, 100, nullptr);
  CHECK(s.push(stream_chunk(5000)));
  CHECK_FALSE(s.push(stream_chunk(1)));
}

TEST_CASE("a chunk with more tokens than the reader has room for stays in the stream") {
  stream s(1, 4096, nullptr);
  auto c = stream_chunk(5);
  c.count = 3;
  s.push(c);
  CHECK_FALSE(s.next(2));
  CHECK(s.next(3));
}

TEST_CASE("a detached stream drops pushes and wakes nobody") {
  int woken = 0;
  stream s(1, 4096, [&] { ++woken; });
  s.detach();
  CHECK(s.push(stream_chunk(10)));
  s.wake_reader();
  CHECK(woken == 0);
  CHECK_FALSE(s.next());
}

TEST_CASE("a chunk gives its link credit back when the stream takes it") {
  stream s(1, 4096, nullptr);
  auto c = stream_chunk(10);
  auto held = std::make_shared<int>(0);
  c.lease = held;
  s.push(std::move(c));
  CHECK(held.use_count() == 1);
}
