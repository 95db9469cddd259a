// Answers that leave in the order in which their requests came.
#include "gateway/workers/answer_order.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace baton;
using namespace baton::gateway;

namespace {

answer_order::held piece(std::uint64_t request, std::string body, bool is_last) {
  inferred p;
  p.request = request;
  p.body = std::move(body);
  p.is_last = is_last;
  return {request, std::move(p), is_last};
}

// "request:body" of all that may be told, the last pieces of which end their requests.
std::vector<std::string> told(answer_order& order) {
  std::vector<std::string> all;
  while (auto one = order.next()) {
    all.push_back(std::to_string(one->request) + ":" + std::get<inferred>(one->event).body);
    if (one->is_last)
      order.leave(one->request);
  }
  return all;
}

using words = std::vector<std::string>;

} // namespace

TEST_CASE("the first is told as it comes, others when all before them have left") {
  answer_order order;
  for (const std::uint64_t request : {7u, 3u, 5u})
    order.enter(request);
  CHECK(order.can_deliver(7));
  CHECK_FALSE(order.can_deliver(3));
  CHECK(order.hold(piece(5, "x", true)));
  CHECK(order.hold(piece(3, "a", false)));
  CHECK(order.hold(piece(3, "b", false)));
  CHECK(told(order).empty());
  order.leave(7);
  CHECK_FALSE(order.can_deliver(3)); // what is held comes before what comes now
  CHECK(told(order) == words{"3:a", "3:b"});
  CHECK(order.can_deliver(3));
  order.leave(3);
  CHECK(told(order) == words{"5:x"});
  CHECK(order.held_bytes() == 0);
  CHECK_FALSE(order.is_known(5));
}

TEST_CASE("who leaves takes what is held of it along") {
  answer_order order;
  order.enter(1);
  order.enter(2);
  CHECK(order.hold(piece(2, "x", true)));
  order.leave(2);
  CHECK(order.held_bytes() == 0);
  order.leave(1);
  order.leave(1);
  CHECK(told(order).empty());
}

TEST_CASE("what is held has a bound") {
  answer_order order;
  order.enter(1);
  order.enter(2);
  CHECK(order.hold(piece(2, std::string(held_answer_bytes_max / 2, 'x'), false)));
  const auto before = order.held_bytes();
  CHECK_FALSE(order.hold(piece(2, std::string(held_answer_bytes_max / 2, 'x'), false)));
  CHECK(order.held_bytes() == before);
  CHECK(order.hold(piece(2, "y", true)));
}
