// Random events on the queue of a worker model. Each accepted request ends exactly once, gets
// nothing after its end, and nothing is left when all workers have finished.
#include "runtime/schedule/workers/worker_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace baton;
using namespace baton::schedule;
using namespace std::chrono_literals;

namespace {

class world {
public:
  explicit world(std::uint64_t seed) : random_(seed), queue_(drawn_limits()) {}

  void run() {
    for (int i = 0; i < 400; ++i) {
      step();
      obey();
      queue_.check_integrity();
    }
    settle();
    CHECK(queue_.waiting() == 0);
    CHECK(queue_.running() == 0);
    for (const auto& [request, ends] : ends_)
      CHECK_MESSAGE(ends == 1, request);
  }

private:
  struct job {
    std::uint64_t request;
    std::uint32_t next = 0;
  };
  struct process {
    worker_incarnation which;
    std::vector<job> jobs;
  };

  std::uint32_t draw(std::uint32_t below) {
    return std::uniform_int_distribution<std::uint32_t>(0, below - 1)(random_);
  }
  queue_policy drawn_policy() {
    queue_policy policy;
    policy.timeout = std::chrono::milliseconds(draw(2) * draw(800));
    policy.is_delayed = draw(2) == 0;
    policy.allow_timeout_override = draw(2) == 0;
    policy.max_queue_size = draw(2) * draw(5);
    return policy;
  }
  worker_limits drawn_limits() {
    worker_limits limits;
    limits.batch_size = 1 + draw(4);
    limits.max_batch_delay = std::chrono::milliseconds(draw(50));
    limits.max_queued = 1 + draw(8);
    limits.response_timeout = 1s;
    limits.absence_max = 2s;
    limits.use_job_ticket = draw(4) == 0;
    for (std::uint32_t size = 1; size <= limits.batch_size; ++size)
      if (draw(3) == 0)
        limits.preferred_batch_sizes.push_back(size);
    limits.priority_levels = draw(4);
    limits.default_priority_level =
        limits.priority_levels > 0 ? 1 + draw(limits.priority_levels) : 0;
    limits.default_queue_policy = drawn_policy();
    for (std::uint32_t level = 1; level <= limits.priority_levels; ++level)
      if (draw(2) == 0)
        limits.priority_queue_policy[level] = drawn_policy();
    levels_ = limits.priority_levels;
    return limits;
  }

  void step() {
    switch (draw(8)) {
    case 0:
    case 1:
      return ask();
    case 2:
      return start(process_id{1 + draw(3)});
    case 3:
      if (draw(4) == 0 && !processes_.empty())
        kill(draw(static_cast<std::uint32_t>(processes_.size())));
      return;
    case 4:
      if (last_ > 0) {
        const auto request = 1 + draw(static_cast<std::uint32_t>(last_));
        if (ends_.contains(request) && ends_[request] == 0) {
          ++ends_[request]; // only its client ends it
          queue_.cancel(request, now_);
        }
      }
      return;
    case 5:
      now_ += std::chrono::milliseconds(draw(400));
      return queue_.tick(now_);
    default:
      return work(draw(3) == 0);
    }
  }

  void ask() {
    std::optional<worker_queue::instant> deadline;
    if (draw(4) == 0)
      deadline = now_ + std::chrono::milliseconds(draw(2000));
    const auto request = ++last_;
    const std::chrono::milliseconds timeout(draw(4) == 0 ? draw(500) : 0);
    const bool goes_alone = draw(4) == 0;
    const auto came_in = queue_.enter(
        {request, 1 + draw(100), deadline, draw(levels_ + 2), timeout, goes_alone}, now_);
    if (goes_alone)
      alone_.insert(request);
    if (came_in)
      ends_[request] = 0;
    else
      CHECK((came_in.error().code == errc::overloaded ||
             came_in.error().code == errc::no_job_ticket ||
             came_in.error().code == errc::invalid_value));
  }

  void start(process_id id) {
    std::erase_if(processes_, [&](const process& p) { return p.which.process == id; });
    const worker_incarnation which{id, {++epochs_}};
    processes_.push_back({which, {}});
    queue_.worker_up(which, now_);
  }

  void kill(std::size_t index) {
    const auto which = processes_[index].which;
    processes_.erase(processes_.begin() + static_cast<std::ptrdiff_t>(index));
    queue_.worker_gone(which, "killed", now_);
  }

  void work(bool is_last) {
    if (processes_.empty())
      return;
    auto& p = processes_[draw(static_cast<std::uint32_t>(processes_.size()))];
    if (p.jobs.empty())
      return;
    auto& j = p.jobs[draw(static_cast<std::uint32_t>(p.jobs.size()))];
    const auto request = j.request;
    const auto index = j.next++;
    const auto which = p.which;
    if (is_last)
      std::erase_if(p.jobs, [&](const job& one) { return one.request == request; });
    if (queue_.take_piece(which, request, index, is_last, now_)) {
      CHECK_MESSAGE(ends_[request] == 0, "request ", request, " is told something behind its end");
      ends_[request] += is_last ? 1 : 0;
    }
  }

  void obey() {
    for (const auto& order : queue_.take_orders()) {
      if (const auto* b = std::get_if<start_batch>(&order)) {
        auto p = std::find_if(processes_.begin(), processes_.end(),
                              [&](const process& one) { return one.which == b->worker; });
        REQUIRE(p != processes_.end());
        CHECK(p->jobs.empty());
        for (const auto request : b->requests) {
          p->jobs.push_back({request});
          CHECK((b->requests.size() == 1 || !alone_.contains(request)));
        }
      } else if (const auto* e = std::get_if<end_request>(&order)) {
        CHECK(++ends_[e->request] == 1);
      } else if (const auto* f = std::get_if<fence_worker>(&order)) {
        std::erase_if(processes_, [&](const process& p) { return p.which == f->worker; });
      }
    }
  }

  void settle() {
    start(process_id{1});
    for (int round = 0; round < 1000 && queue_.waiting() + queue_.running() > 0; ++round) {
      obey();
      for (auto& p : std::vector(processes_))
        for (const auto& j : p.jobs)
          if (queue_.take_piece(p.which, j.request, j.next, true, now_))
            ++ends_[j.request];
      for (auto& p : processes_)
        p.jobs.clear();
      obey();
      now_ += 50ms;
      queue_.tick(now_);
    }
    obey();
  }

  std::mt19937_64 random_;
  std::uint32_t levels_ = 0;
  worker_queue queue_;
  worker_queue::instant now_{1000s};
  std::vector<process> processes_;
  std::map<std::uint64_t, int> ends_; // of accepted requests
  std::set<std::uint64_t> alone_;
  std::uint64_t last_ = 0;
  std::uint64_t epochs_ = 0;
};

} // namespace

TEST_CASE("under all worker faults, each request ends once") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    world(seed).run();
  }
}
