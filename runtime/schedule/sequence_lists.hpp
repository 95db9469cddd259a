// The sequences by what can be done with them next, so that a step looks at those that it takes and
// not at all there are. Pure; owned by the scheduler, which says whenever a sequence has changed.
#pragma once

#include "runtime/schedule/sequence.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace baton::schedule {

// Those that decode and have nothing in flight, in the order in which their last batches came back:
// whoever has waited longest is first, also when what was in flight was lost: then those who were
// together in a batch are so again. Links through the sequences: no memory of its own
// for each, and O(log of the batches) to come and go.
class ready_list {
public:
  void push(sequence& s);
  void erase(sequence& s);
  bool empty() const noexcept { return batches_.empty(); }
  std::size_t size() const noexcept { return size_; }
  // The first `count`, or all there are.
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
  // In the order of service; of equal priority those that have run before.
  using waiting_turn = std::tuple<std::int32_t, bool, sequence_id>;
  using by_turn = std::map<turn, sequence*>;

  // Puts it where it belongs, as it is now. To be called after every change, and before has_started
  // of one that waits changes.
  void file(sequence& s, bool is_parked);
  // So has this batch of it.
  void came_back(sequence& s, batch_id batch);

  const std::map<waiting_turn, sequence*>& waiting() const noexcept { return waiting_; }
  const by_turn& running() const noexcept { return running_; }
  // The tokens to which those that run may come.
  std::uint64_t running_potential() const noexcept { return running_potential_; }
  // Of those that run: more than one row is left of them; to be alone in a batch.
  const by_turn& prefilling() const noexcept { return prefilling_; }
  const by_turn& isolated() const noexcept { return isolated_; }
  const ready_list& ready() const noexcept { return ready_; }
  // In flight, but they do not run any more: their blocks come back.
  std::size_t leaving() const noexcept { return leaving_; }
  // Ended and not in flight: nobody needs them any more.
  std::vector<turn> take_gone() { return std::exchange(gone_, {}); }

  // Every one of `all` is where it belongs, and nobody else anywhere; else the process ends.
  void check_integrity(const std::map<turn, sequence>& all,
                       const std::function<bool(const sequence&)>& is_parked) const;

private:
  std::map<waiting_turn, sequence*> waiting_;
  by_turn running_;
  std::uint64_t running_potential_ = 0;
  by_turn prefilling_;
  by_turn isolated_;
  ready_list ready_;
  std::size_t leaving_ = 0;
  std::vector<turn> gone_;
};

} // namespace baton::schedule
