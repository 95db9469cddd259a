// A fixed team of threads for the parallel parts of a step. Each thread takes a static share, so
// neither the result nor the memory it touches depends on timing. The caller of run() is member 0.
//
// A waiting member spins for about 50 µs, then sleeps in the kernel. Within a step the next part
// starts well before that; between steps an idle engine uses no CPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace baton::cpu {

class thread_team {
public:
  // cpus[i]: the CPU of member i; empty: no pinning. Member 0 is pinned when it first calls run.
  // Requires: size >= 1, cpus empty or of that size.
  thread_team(unsigned size, std::vector<int> cpus);
  ~thread_team();
  thread_team(const thread_team&) = delete;
  thread_team& operator=(const thread_team&) = delete;

  unsigned size() const noexcept { return size_; }

  // Runs work(member) on every member and returns when all are done. One caller at a time.
  void run(const std::function<void(unsigned)>& work);
  // Called by every member within work: returns when all members have arrived.
  void barrier() noexcept;

private:
  void change(std::atomic<std::uint32_t>& value, std::uint32_t to) noexcept;
  void await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) noexcept;
  void serve(unsigned member);
  void pin(unsigned member) const noexcept;

  const unsigned size_;
  const std::vector<int> cpus_;
  const std::function<void(unsigned)>* work_ = nullptr;
  std::thread::id pinned_caller_;
  // Separate pairs of cache lines, because one side polls them and the other writes them.
  alignas(128) std::atomic<std::uint32_t> round_{0}; // run() calls so far; the last also ends
  alignas(128) std::atomic<std::uint32_t> arrived_{0};
  alignas(128) std::atomic<std::uint32_t> phase_{0};    // barriers passed
  alignas(128) std::atomic<std::uint32_t> sleepers_{0}; // members asleep or about to sleep
  bool is_closing_ = false;
  std::vector<std::thread> threads_;
};

} // namespace baton::cpu
