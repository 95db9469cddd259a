// Sequences indexed by what can be done with them next, so that a step visits only those that it
// takes. Pure; owned by the scheduler, which reports every change of a sequence.
#pragma once

#include "runtime/schedule/sequences/sequence.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace baton::schedule {

// Decoding sequences with nothing in flight, ordered by the return of their last batch: the
// longest-waiting first. Sequences of a lost batch stay together in the next one. Linked through
// the sequences: no allocation per sequence, O(log batches) to insert and remove.
class ready_list {
public:
  void push(sequence& s);
  void erase(sequence& s);
  bool empty() const noexcept { return batches_.empty(); }
  std::size_t size() const noexcept { return size_; }
  // The first `count`, or all.
  void copy_to(std::vector<sequence*>& to, std::size_t count) const;

private:
  struct ends {
    sequence* first = nullptr;
    sequence* last = nullptr;
  };
  std::map<std::uint64_t, ends> batches_; // by last_batch
  std::size_t size_ = 0;
};

class sequence_lists {
public:
  // In order of service; at equal priority those that have run come first.
  using waiting_order = std::tuple<std::int32_t, bool, sequence_id>;
  using by_service_order = std::map<service_order, sequence*>;

  // Puts it into the lists that match its state. Call it after every change, and before has_started
  // of a waiting sequence changes.
  void update(sequence& s);
  // Records that `batch`, with rows of this sequence, came back.
  void came_back(sequence& s, batch_id batch);

  const std::map<waiting_order, sequence*>& waiting() const noexcept { return waiting_; }
  const by_service_order& running() const noexcept { return running_; }
  // The most tokens that the running sequences can reach together.
  std::uint64_t running_potential() const noexcept { return running_potential_; }
  // Running sequences with more than one row left, and those that must be alone in a batch.
  const by_service_order& prefilling() const noexcept { return prefilling_; }
  const by_service_order& isolated() const noexcept { return isolated_; }
  const ready_list& ready() const noexcept { return ready_; }
  // In flight but no longer running: their blocks will be released.
  std::size_t leaving() const noexcept { return leaving_; }
  // Ended and not in flight: they can be deleted.
  std::vector<service_order> take_finished() { return std::exchange(finished_, {}); }

  // Checks that the lists contain exactly the sequences that belong there; else the process ends.
  void check_integrity(const std::map<service_order, sequence>& all) const;

private:
  std::map<waiting_order, sequence*> waiting_;
  by_service_order running_;
  std::uint64_t running_potential_ = 0;
  by_service_order prefilling_;
  by_service_order isolated_;
  ready_list ready_;
  std::size_t leaving_ = 0;
  std::vector<service_order> finished_;
};

} // namespace baton::schedule
