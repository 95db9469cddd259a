// Stored responses: their owners, their number and their lifetime; waiting readers are woken.
#include "gateway/api/responses/response_store.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<kept_response> made(std::uint64_t ticket, const std::string& owner = "a",
                                    std::size_t bytes = 10) {
  response_shape shape;
  shape.asked = "{}";
  return std::make_shared<kept_response>(owner, shape, reply_identity{ticket_id{ticket}, 0, "t", 1},
                                         chat_prompt{{"user", std::string(bytes, 'x'), {}}});
}

std::shared_ptr<kept_response> over(std::uint64_t ticket, const std::string& owner = "a",
                                    std::size_t bytes = 10) {
  auto one = made(ticket, owner, bytes);
  chunk c;
  c.text = "said";
  c.finish = finish::stop;
  one->add(c);
  return one;
}

const response_store::instant store_start{};

} // namespace

TEST_CASE("a response belongs to the key that created it") {
  response_store store({});
  const auto one = over(1);
  REQUIRE(store.enter(one, store_start));
  CHECK(store.find(one->id, "a", store_start) == one);
  CHECK_FALSE(store.find(one->id, "b", store_start));
  CHECK_FALSE(store.find(one->id, "", store_start));
  CHECK_FALSE(store.remove(one->id, "b", store_start));
  CHECK(store.remove(one->id, "a", store_start));
  CHECK_FALSE(store.remove(one->id, "a", store_start));
  CHECK(store.size() == 0);
}

TEST_CASE("an evicted id is known for a while: no other response uses it") {
  response_limits limits;
  limits.responses_max = 2;
  limits.kept_for = 10s;
  response_store store(limits);
  CHECK_FALSE(store.knows(over(1)->id, store_start));
  REQUIRE(store.enter(over(1), store_start));
  CHECK(store.knows(over(1)->id, store_start));
  store.remove(over(1)->id, "a", store_start);
  CHECK(store.knows(over(1)->id, store_start + 9s));
  CHECK_FALSE(store.knows(over(1)->id, store_start + 10s));
  for (std::uint64_t i = 1; i <= 8; ++i) {
    REQUIRE(store.enter(over(i), store_start + std::chrono::milliseconds(i)));
  }
  CHECK(store.knows(over(5)->id, store_start + 1s));       // evicted for others
  CHECK_FALSE(store.knows(over(4)->id, store_start + 1s)); // the known ids are bounded as well
}

TEST_CASE("a response is kept for a time from its end; the oldest goes first, running ones stay") {
  response_limits limits;
  limits.responses_max = 2;
  limits.kept_for = 10s;
  response_store store(limits);
  const auto running = made(1);
  REQUIRE(store.enter(running, store_start));
  REQUIRE(store.enter(over(2), store_start + 1s));
  const auto third = over(3);
  REQUIRE(store.enter(third, store_start + 2s));
  CHECK(store.find(running->id, "a", store_start + 2s));
  CHECK_FALSE(store.find(over(2)->id, "a", store_start + 2s));
  CHECK(store.find(third->id, "a", store_start + 2s));
  CHECK_FALSE(store.find(third->id, "a", store_start + 12s + 1ms));
  CHECK(store.find(running->id, "a", store_start + 100s));
  running->fail(fail(errc::internal, "x"));
  CHECK(store.find(running->id, "a", store_start + 100s));
  CHECK_FALSE(store.find(running->id, "a", store_start + 110s));
}

TEST_CASE("running responses are bounded, and their room is not given to others") {
  response_limits limits;
  limits.background_max = 1;
  limits.responses_max = 1;
  response_store store(limits);
  const auto running = made(1);
  REQUIRE(store.enter(running, store_start));
  const auto second = store.enter(made(2), store_start);
  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::overloaded);
  CHECK_FALSE(store.enter(over(3), store_start));
  running->cancel();
  CHECK(store.enter(made(2), store_start));
}

TEST_CASE("bytes are bounded over all of them") {
  response_limits limits;
  limits.bytes_max = 50'000;
  response_store store(limits);
  for (std::uint64_t i = 1; i <= 20; ++i) {
    REQUIRE(store.enter(over(i, "a", 10'000), store_start));
    CHECK(store.size() <= 4);
  }
  CHECK(store.find(over(20)->id, "a", store_start));
  CHECK(store.size() == 4);
  REQUIRE(store.enter(over(30, "a", 60'000), store_start)); // more than the limit: alone
  CHECK(store.size() == 1);
}

TEST_CASE("a cancelled response stops its producer, and reports that once") {
  const auto one = made(1);
  int stops = 0, wakes = 0;
  one->on_cancel([&] { ++stops; });
  one->watch(&wakes, [&] { ++wakes; });
  chunk c;
  c.text = "a";
  one->add(c);
  CHECK(wakes == 1);
  one->cancel();
  one->cancel();
  CHECK(stops == 1);
  CHECK(wakes == 2);
  CHECK(one->is_over());
  CHECK(one->has_failed());
  one->add(c); // in flight when it was cancelled
  const auto news = one->since(0);
  CHECK(news.pieces.size() == 1);
  REQUIRE(news.failure);
  CHECK(news.failure->code == errc::cancelled);
  one->unwatch(&wakes);
  const auto done = over(2);
  done->cancel();
  CHECK_FALSE(done->has_failed());
}

TEST_CASE("the conversation continues with the stored messages") {
  const auto all = over(1)->conversation();
  REQUIRE(all.size() == 2);
  CHECK(all[1] == chat_message{"assistant", "said", {}});
}
