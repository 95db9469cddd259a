// Threads, pinning and the barrier of a team.
#include "runtime/cpu/thread_team.hpp"

#include "schema/ensure.hpp"

#include <pthread.h>
#include <sched.h>

#include <chrono>

namespace baton::cpu {
namespace {

constexpr auto spin_time = std::chrono::microseconds(50);
// Between looks at the clock; a pause is 40 to 140 cycles.
constexpr int pauses_per_look = 32;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` is no longer `old`.
void await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) noexcept {
  for (int i = 0; i < 8 * pauses_per_look; ++i) {
    if (value.load(std::memory_order_acquire) != old)
      return;
    pause();
  }
  const auto until = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < pauses_per_look; ++i) {
      if (value.load(std::memory_order_acquire) != old)
        return;
      pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  value.wait(old, std::memory_order_acquire);
}

} // namespace

thread_team::thread_team(unsigned size, std::vector<int> cpus)
    : size_(size), cpus_(std::move(cpus)) {
  ENSURE(size >= 1 && (cpus_.empty() || cpus_.size() == size), "{} threads on {} cpus", size,
         cpus_.size());
  threads_.reserve(size - 1);
  for (unsigned member = 1; member < size; ++member)
    threads_.emplace_back([this, member] { serve(member); });
}

thread_team::~thread_team() {
  is_closing_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (auto& thread : threads_)
    thread.join();
}

void thread_team::run(const std::function<void(unsigned)>& work) {
  if (!cpus_.empty() && pinned_caller_ != std::this_thread::get_id()) {
    pin(0);
    pinned_caller_ = std::this_thread::get_id();
  }
  work_ = &work;
  if (size_ > 1) {
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }
  work(0);
  barrier();
}

void thread_team::barrier() noexcept {
  if (size_ == 1)
    return;
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
    return;
  }
  await_change(phase_, phase);
}

void thread_team::serve(unsigned member) {
  pin(member);
  for (std::uint32_t round = 0;; ++round) {
    await_change(round_, round);
    if (is_closing_)
      return;
    (*work_)(member);
    barrier();
  }
}

// Advice: where the system refuses (a smaller cpuset), the thread runs where it may.
void thread_team::pin(unsigned member) const noexcept {
  if (cpus_.empty() || cpus_[member] < 0 || cpus_[member] >= CPU_SETSIZE)
    return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpus_[member]), &set);
  static_cast<void>(::pthread_setaffinity_np(::pthread_self(), sizeof set, &set));
}

} // namespace baton::cpu
