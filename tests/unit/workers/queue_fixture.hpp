// A queue of a worker model, its clock, and the orders that it produced.
#pragma once

#include "runtime/schedule/workers/worker_queue.hpp"
#include "tests/unit/workers/worker_lives.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace baton::tests {

using namespace baton::schedule;
using namespace std::chrono_literals;

struct queue_fixture {
  worker_queue queue;
  worker_queue::instant now{1000s};
  std::vector<worker_order> orders;

  explicit queue_fixture(worker_limits limits = {}) : queue(limits) {}

  result<void> ask(std::uint64_t request, std::size_t bytes = 10,
                   std::optional<worker_queue::instant> deadline = {}) {
    return enter({request, bytes, deadline});
  }
  result<void> ask_at(std::uint64_t priority, std::uint64_t request,
                      std::chrono::microseconds timeout = {}) {
    return enter({request, 10, {}, priority, timeout});
  }
  result<void> enter(const worker_queue::new_request& a) {
    auto ok = queue.enter(a, now);
    look();
    return ok;
  }
  void look() {
    queue.check_integrity();
    for (auto& o : queue.take_orders())
      orders.push_back(std::move(o));
  }
  void up(worker_incarnation w) {
    queue.worker_up(w, now);
    look();
  }
  void gone(worker_incarnation w) {
    queue.worker_gone(w, "killed by signal 9", now);
    look();
  }
  bool piece(worker_incarnation w, std::uint64_t request, std::uint32_t index, bool is_last) {
    const bool wanted = queue.take_piece(w, request, index, is_last, now);
    look();
    return wanted;
  }
  void pass(std::chrono::milliseconds time) {
    now += time;
    queue.tick(now);
    look();
  }
  // The orders of this type since the last call.
  template <class Order>
  std::vector<Order> take() {
    std::vector<Order> of_type;
    for (const auto& o : std::exchange(orders, {}))
      if (const auto* one = std::get_if<Order>(&o))
        of_type.push_back(*one);
    return of_type;
  }
  using requests = std::vector<std::uint64_t>;
  std::vector<requests> batches() {
    std::vector<requests> all;
    for (auto& b : take<start_batch>())
      all.push_back(std::move(b.requests));
    return all;
  }
  std::vector<std::pair<std::uint64_t, errc>> ends() {
    std::vector<std::pair<std::uint64_t, errc>> all;
    for (const auto& e : take<end_request>())
      all.emplace_back(e.request, e.why.code);
    return all;
  }
};

using requests = queue_fixture::requests;
using batches_of = std::vector<requests>;
using endings = std::vector<std::pair<std::uint64_t, errc>>;

} // namespace baton::tests
