// Random requests on the queue of a worker model with preferred sizes, priorities and timeouts. A
// simple model of the queue gives the order of service, the times of batches, and the refusals.
#include "runtime/schedule/workers/worker_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <tuple>

using namespace baton;
using namespace baton::schedule;
using namespace std::chrono_literals;

namespace {

class account {
public:
  explicit account(std::uint64_t seed) : random_(seed), limits_(drawn_limits()), queue_(limits_) {}

  void run() {
    for (std::uint64_t number = 1; number <= 2; ++number)
      queue_.worker_up({{static_cast<std::uint32_t>(number)}, {1}}, now_);
    for (int i = 0; i < 300; ++i) {
      step();
      obey();
      queue_.check_integrity();
      CHECK(queue_.waiting() == waiting_.size());
      look_at_idle_workers();
    }
  }

private:
  using instant = worker_queue::instant;
  struct request {
    std::uint32_t level = 0;
    instant arrived;
    std::optional<instant> expiry;
    bool is_delayed = false;
  };

  std::uint32_t draw(std::uint32_t below) {
    return std::uniform_int_distribution<std::uint32_t>(0, below - 1)(random_);
  }
  queue_policy drawn_policy() {
    queue_policy policy;
    policy.timeout = std::chrono::milliseconds(draw(2) * (1 + draw(300)));
    policy.is_delayed = draw(2) == 0;
    policy.allow_timeout_override = draw(2) == 0;
    return policy;
  }
  worker_limits drawn_limits() {
    worker_limits limits;
    limits.batch_size = 1 + draw(6);
    limits.max_batch_delay = std::chrono::milliseconds(draw(3) == 0 ? 0 : draw(200));
    limits.max_queued = 1 + draw(20);
    limits.response_timeout = 1h;
    for (std::uint32_t size = 1; size <= limits.batch_size; ++size)
      if (draw(3) == 0)
        limits.preferred_batch_sizes.push_back(size);
    limits.priority_levels = 1 + draw(3);
    limits.default_priority_level = 1 + draw(limits.priority_levels);
    limits.default_queue_policy = drawn_policy();
    for (std::uint32_t level = 1; level <= limits.priority_levels; ++level)
      if (draw(2) == 0)
        limits.priority_queue_policy[level] = drawn_policy();
    return limits;
  }

  void step() {
    switch (draw(6)) {
    case 0:
    case 1:
    case 2:
      return ask();
    case 3:
      if (!waiting_.empty() && draw(3) == 0) {
        const auto gone =
            std::next(waiting_.begin(), draw(static_cast<std::uint32_t>(waiting_.size())));
        const auto number = gone->first;
        waiting_.erase(gone);
        queue_.cancel(number, now_);
      }
      return;
    case 4:
      return finish();
    default:
      now_ += std::chrono::milliseconds(draw(150));
      expire();
      queue_.tick(now_);
    }
  }

  void ask() {
    request r;
    const auto given = draw(limits_.priority_levels + 1);
    r.level = given > 0 ? given : limits_.default_priority_level;
    r.arrived = now_;
    const auto policy = limits_.policies()[r.level - 1];
    std::chrono::microseconds own{0};
    if (policy.allow_timeout_override && draw(2) == 0)
      own = std::chrono::milliseconds(1 + draw(300));
    auto timeout = policy.timeout;
    if (own.count() > 0 && (timeout.count() == 0 || own < timeout))
      timeout = own;
    if (timeout.count() > 0)
      r.expiry = now_ + timeout;
    const auto number = ++last_;
    const bool has_room = waiting_.size() < limits_.max_queued;
    if (has_room)
      waiting_.emplace(number, r);
    CHECK(queue_.enter({number, 1, {}, given, own}, now_).has_value() == has_room);
  }

  void finish() {
    if (running_.empty())
      return;
    const auto at = std::next(running_.begin(), draw(static_cast<std::uint32_t>(running_.size())));
    const auto [worker, batch] = *at;
    running_.erase(at);
    for (const auto number : batch)
      CHECK(queue_.take_piece(worker, number, 0, true, now_));
  }

  // Removes requests whose time is over, in order.
  void expire() {
    std::vector<std::pair<instant, std::uint64_t>> due;
    for (const auto& [number, r] : waiting_)
      if (r.expiry && !r.is_delayed && *r.expiry <= now_)
        due.emplace_back(*r.expiry, number);
    std::sort(due.begin(), due.end());
    for (const auto& [expiry, number] : due) {
      auto& r = waiting_.at(number);
      if (limits_.policies()[r.level - 1].is_delayed)
        r.is_delayed = true;
      else
        refused_.push_back(number);
    }
    for (const auto number : refused_)
      waiting_.erase(number);
  }

  auto rank(std::uint64_t number) const {
    const auto& r = waiting_.at(number);
    return std::tuple(r.level, r.is_delayed, r.is_delayed ? *r.expiry : instant{}, number);
  }
  std::vector<std::uint64_t> in_order() const {
    std::vector<std::uint64_t> all;
    for (const auto& [number, r] : waiting_)
      all.push_back(number);
    std::sort(all.begin(), all.end(), [&](auto a, auto b) { return rank(a) < rank(b); });
    return all;
  }

  // The size of the batch that starts now from the first `count`; 0 for none.
  std::size_t due_size(const std::vector<std::uint64_t>& order) const {
    const auto count = std::min<std::size_t>(order.size(), limits_.batch_size);
    instant oldest = instant::max();
    for (std::size_t i = 0; i < count; ++i)
      oldest = std::min(oldest, waiting_.at(order[i]).arrived);
    const auto delay = limits_.max_batch_delay;
    if (count == 0 || (delay.count() > 0 && now_ - oldest >= delay))
      return count;
    for (auto size = limits_.preferred_batch_sizes.rbegin();
         size != limits_.preferred_batch_sizes.rend(); ++size)
      if (*size <= count)
        return *size;
    return count == limits_.batch_size || delay.count() == 0 ? count : 0;
  }

  void obey() {
    for (const auto& order : queue_.take_orders()) {
      if (const auto* b = std::get_if<start_batch>(&order)) {
        auto expected = in_order();
        expected.resize(due_size(expected));
        CHECK(b->requests == expected);
        for (const auto number : b->requests)
          waiting_.erase(number);
        CHECK(running_.emplace(b->worker, b->requests).second);
      } else {
        const auto& e = std::get<end_request>(order);
        CHECK(e.why.code == errc::queue_timeout);
        REQUIRE_FALSE(refused_.empty());
        CHECK(e.request == refused_.front());
        refused_.erase(refused_.begin());
      }
    }
    CHECK(refused_.empty());
  }

  void look_at_idle_workers() {
    if (running_.size() < 2)
      CHECK(due_size(in_order()) == 0);
  }

  std::mt19937_64 random_;
  worker_limits limits_;
  worker_queue queue_;
  instant now_{1000s};
  std::map<std::uint64_t, request> waiting_;
  std::vector<std::uint64_t> refused_; // not reported yet
  std::map<worker_incarnation, std::vector<std::uint64_t>> running_;
  std::uint64_t last_ = 0;
};

} // namespace

TEST_CASE("batches, priorities and timeouts equal those of a simple model") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    account(seed).run();
  }
}
