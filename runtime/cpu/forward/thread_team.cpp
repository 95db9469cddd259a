// Threads, pinning and the barrier of a team.
#include "runtime/cpu/forward/thread_team.hpp"

#include "schema/ensure.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

namespace baton::cpu {
namespace {

constexpr auto spin_time = std::chrono::microseconds(50);
// Pauses between clock reads; a pause takes 40 to 140 cycles.
constexpr int pauses_per_look = 32;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The longest sleep before a member checks by itself. A wake-up was lost once in std::atomic's wait
// of GCC 12: two members slept, one of them at a barrier that the other had passed. Such a loss
// must cost milliseconds, not the shard.
constexpr timespec sleep_time_max{0, 20'000'000};

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "a futex is 32 bits");

void sleep_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) noexcept {
  ::syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, old, &sleep_time_max, nullptr, 0);
}

void wake_all(const std::atomic<std::uint32_t>& value) noexcept {
  ::syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace

// Sequentially consistent, as in await_change: either we see the sleeper or it sees the value.
void thread_team::change(std::atomic<std::uint32_t>& value, std::uint32_t to) noexcept {
  value.store(to, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0)
    wake_all(value);
}

// Waits until `value` is no longer `old`.
void thread_team::await_change(const std::atomic<std::uint32_t>& value,
                               std::uint32_t old) noexcept {
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
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (value.load(std::memory_order_seq_cst) == old)
    sleep_while(value, old);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

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
  change(round_, round_.load(std::memory_order_relaxed) + 1);
  for (auto& thread : threads_)
    thread.join();
}

void thread_team::run(const std::function<void(unsigned)>& work) {
  if (!cpus_.empty() && pinned_caller_ != std::this_thread::get_id()) {
    pin(0);
    pinned_caller_ = std::this_thread::get_id();
  }
  work_ = &work;
  if (size_ > 1)
    change(round_, round_.load(std::memory_order_relaxed) + 1);
  work(0);
  barrier();
}

void thread_team::barrier() noexcept {
  if (size_ == 1)
    return;
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    change(phase_, phase + 1);
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

// Best effort: if the system refuses (a smaller cpuset), the thread runs on other CPUs.
void thread_team::pin(unsigned member) const noexcept {
  if (cpus_.empty() || cpus_[member] < 0 || cpus_[member] >= CPU_SETSIZE)
    return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpus_[member]), &set);
  static_cast<void>(::pthread_setaffinity_np(::pthread_self(), sizeof set, &set));
}

} // namespace baton::cpu
