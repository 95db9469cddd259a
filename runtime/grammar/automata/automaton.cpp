#include "runtime/grammar/automata/automaton.hpp"

#include <algorithm>

namespace baton::grammar {
namespace {

constexpr std::uint64_t joined(std::uint32_t a, std::uint32_t b) noexcept {
  return std::uint64_t{a} << 32 | b;
}

// Above this size, a set finds a way faster than a linear search.
constexpr std::size_t walked_max = 16;

constexpr std::size_t index_entry_bytes = 48; // of a hash table's node and bucket

} // namespace

automaton::automaton(std::shared_ptr<const graph> of) : graph_(std::move(of)) {
  states_.push_back({}); // dead
  reach({graph_->start(), bottom});
  start_ = close();
}

automaton::state automaton::find_step(state from, std::size_t byte_class) {
  if (states_[from].row == no_row) {
    states_[from].row = static_cast<std::uint32_t>(steps_.size());
    steps_.resize(steps_.size() + graph_->classes(), from == dead ? dead : unknown);
    bytes_ += graph_->classes() * sizeof(state);
  }
  const std::uint8_t byte = graph_->byte_of(byte_class);
  const entry of = states_[from];
  for (std::uint32_t i = of.first; i < of.first + of.count; ++i)
    for (const auto& e : graph_->bytes_of(ways_[i].node))
      if (e.first <= byte && byte <= e.last)
        reach({e.to, ways_[i].calls});
  const state to = close();
  steps_[of.row + byte_class] = to;
  return to;
}

void automaton::reach(way w) {
  if (reached_.size() < walked_max) {
    if (std::find(reached_.begin(), reached_.end(), w) != reached_.end())
      return;
  } else {
    if (reached_.size() == walked_max)
      for (const way& other : reached_)
        seen_.insert(joined(other.node, other.calls));
    if (!seen_.insert(joined(w.node, w.calls)).second)
      return;
  }
  reached_.push_back(w);
}

// Handles a rule's end: returns to the caller.
void automaton::leave_call(frame calls) {
  if (calls == bottom)
    accepts_ = true;
  else
    reach({calls_[calls].back, calls_[calls].outer});
}

automaton::state automaton::close() {
  for (std::size_t i = 0; i < reached_.size() && reached_.size() <= ways_max; ++i) {
    const way w = reached_[i];
    if (graph_->is_end(w.node))
      leave_call(w.calls);
    for (const auto to : graph_->empties_of(w.node))
      reach({to, w.calls});
    for (const auto& c : graph_->calls_of(w.node)) {
      if (graph_->is_only_end(c.back))
        reach({c.rule, w.calls});
      else if (calls_[w.calls].depth < calls_deep_max)
        reach({c.rule, enter(c.back, w.calls)});
    }
    if (!graph_->bytes_of(w.node).empty())
      kept_.push_back(w);
  }
  const bool is_too_much = reached_.size() > ways_max;
  work_ += reached_.size();
  if (is_too_much) {
    kept_.clear();
    accepts_ = false;
  }
  reached_.clear();
  seen_.clear();
  const state found = intern();
  kept_.clear();
  accepts_ = false;
  return found;
}

automaton::state automaton::intern() {
  if (kept_.empty() && !accepts_)
    return dead;
  std::sort(kept_.begin(), kept_.end());
  std::uint64_t hash = accepts_ ? 1 : 2;
  for (const way& w : kept_)
    hash = (hash ^ joined(w.node, w.calls)) * 0x9E3779B97F4A7C15ull + (hash >> 29);
  const auto [begin, end] = state_index_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const entry& e = states_[it->second];
    if (e.accepts == accepts_ && e.count == kept_.size() &&
        std::equal(kept_.begin(), kept_.end(), ways_.begin() + e.first))
      return it->second;
  }
  const auto found = static_cast<state>(states_.size());
  states_.push_back({static_cast<std::uint32_t>(ways_.size()),
                     static_cast<std::uint32_t>(kept_.size()), no_row, accepts_});
  ways_.insert(ways_.end(), kept_.begin(), kept_.end());
  state_index_.emplace(hash, found);
  bytes_ += sizeof(entry) + kept_.size() * sizeof(way) + index_entry_bytes;
  return found;
}

automaton::frame automaton::enter(node_index back, frame outer) {
  const auto [at, is_new] =
      call_index_.try_emplace(joined(back, outer), static_cast<frame>(calls_.size()));
  if (is_new) {
    calls_.push_back({back, outer, calls_[outer].depth + 1});
    bytes_ += sizeof(call) + index_entry_bytes;
  }
  return at->second;
}

} // namespace baton::grammar
