// Micro-batches between their forming and their results, and those that the end of an epoch cut
// off.
#pragma once

#include "runtime/schedule/sequences/sequence.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace baton::schedule {

struct part {             // one slice of a batch in flight
  sequence* of = nullptr; // kept while it is in flight
  std::size_t position = 0;
  std::size_t rows = 0; // including draft tokens
  bool samples = false;
  std::size_t drafts = 0; // the draft tokens at the end of the rows
  bool pools = false;
  bool scores = false; // pools log probabilities
  bool is_prefill = false;
  std::uint32_t state_to = 0; // the slot that it writes; 0: the model has no states
  std::size_t draws() const noexcept { return samples ? 1 + drafts : 0; }
};
struct flight { // a micro-batch
  std::vector<part> parts;
  std::vector<service_order> copied; // sequences whose blocks it copies to or from swap space
  bool lacks_copies = false;         // an earlier step that copies for them has failed
};
struct late_part { // of a batch that was in flight when the epoch closed
  service_order who;
  std::size_t position = 0;
  std::size_t rows = 0; // without draft tokens
  std::size_t draws = 0;
  bool pools = false;
  bool scores = false;
  bool is_prefill = false;
  std::uint32_t state_to = 0;
};
//   add ──> in flight ──take──> landed
//               │
//               └──close_epoch──> late ──take_late──> landed
//                                   └──open_epoch──> forgotten
class flights {
public:
  // Requires: a new number.
  flight& add(batch_id batch) { return flights_[batch]; }
  // `batch` carries one isolated sequence: nothing else is formed until it lands.
  void isolate() noexcept { has_isolated_ = true; }
  bool has_isolated() const noexcept { return has_isolated_; }
  // None if it is not in flight.
  std::optional<flight> take(batch_id batch);
  // None if it was not in flight when the epoch closed, or carried copies, which are lost.
  std::optional<std::vector<late_part>> take_late(batch_id batch);
  // The copies of a step for these sequences may not have been made.
  void lose_copies(const std::vector<service_order>& copied);
  void close_epoch();
  void open_epoch() { late_.clear(); }

  const std::map<batch_id, flight>& all() const noexcept { return flights_; }
  std::size_t size() const noexcept { return flights_.size(); }
  bool empty() const noexcept { return flights_.empty(); }

private:
  std::map<batch_id, flight> flights_;
  std::map<batch_id, std::vector<late_part>> late_;
  bool has_isolated_ = false;
};

} // namespace baton::schedule
