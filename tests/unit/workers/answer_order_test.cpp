// Answers are delivered in the order of their requests.
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

// "request:body" of all deliverable pieces; the last ones end their requests.
std::vector<std::string> delivered(answer_order& order) {
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

TEST_CASE("the first answer is delivered as it comes, others after all before them") {
  answer_order order;
  for (const std::uint64_t request : {7u, 3u, 5u})
    order.enter(request);
  CHECK(order.can_deliver(7));
  CHECK_FALSE(order.can_deliver(3));
  CHECK(order.hold(piece(5, "x", true)));
  CHECK(order.hold(piece(3, "a", false)));
  CHECK(order.hold(piece(3, "b", false)));
  CHECK(delivered(order).empty());
  order.leave(7);
  CHECK_FALSE(order.can_deliver(3)); // held pieces come before the new one
  CHECK(delivered(order) == words{"3:a", "3:b"});
  CHECK(order.can_deliver(3));
  order.leave(3);
  CHECK(delivered(order) == words{"5:x"});
  CHECK(order.held_bytes() == 0);
  CHECK_FALSE(order.is_known(5));
}

TEST_CASE("a request that ends early drops its held pieces") {
  answer_order order;
  order.enter(1);
  order.enter(2);
  CHECK(order.hold(piece(2, "x", true)));
  order.leave(2);
  CHECK(order.held_bytes() == 0);
  order.leave(1);
  order.leave(1);
  CHECK(delivered(order).empty());
}

TEST_CASE("the held bytes are bounded") {
  answer_order order;
  order.enter(1);
  order.enter(2);
  CHECK(order.hold(piece(2, std::string(held_answer_bytes_max / 2, 'x'), false)));
  const auto before = order.held_bytes();
  CHECK_FALSE(order.hold(piece(2, std::string(held_answer_bytes_max / 2, 'x'), false)));
  CHECK(order.held_bytes() == before);
  CHECK(order.hold(piece(2, "y", true)));
}
