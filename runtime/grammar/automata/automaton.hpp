// Executes a grammar, byte by byte. A state is the set of all ways to parse the text so far, each a
// node and a stack of return addresses. Stacks share common parts, and known states and steps are
// cached. So a state's number is valid only in one automaton, but its meaning depends only on the
// grammar and the text. Not thread-safe.
#pragma once

#include "runtime/grammar/automata/graph.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace baton::grammar {

class automaton {
public:
  using state = std::uint32_t;
  static constexpr state dead = 0; // no continuation exists

  // Bounds on ambiguity and nesting. A text beyond them counts as not matching.
  static constexpr std::size_t ways_max = 8192; // an object of 1,000 optional members
  static constexpr std::size_t calls_deep_max = 512;

  explicit automaton(std::shared_ptr<const graph> of);

  state start() const noexcept { return start_; }
  // Whether the text may end here.
  bool accepts(state s) const noexcept { return states_[s].accepts; }
  state step(state from, std::uint8_t byte) { return step_class(from, graph_->class_of(byte)); }
  state step_class(state from, std::size_t byte_class) {
    const auto row = states_[from].row;
    if (row != no_row)
      if (const state known = steps_[row + byte_class]; known != unknown)
        return known;
    return find_step(from, byte_class);
  }
  const graph& grammar() const noexcept { return *graph_; }

  // Approximate allocated memory; grows with each new state.
  std::size_t bytes() const noexcept { return bytes_; }
  // Ways visited so far: the cost of finding new states.
  std::uint64_t work() const noexcept { return work_; }

private:
  using frame = std::uint32_t; // of calls: the innermost first
  static constexpr frame bottom = 0;
  static constexpr std::uint32_t no_row = UINT32_MAX;
  static constexpr state unknown = UINT32_MAX;

  struct call {
    node_index back = 0;
    frame outer = bottom;
    std::uint32_t depth = 0;
  };
  struct way {
    node_index node = 0;
    frame calls = bottom;
    friend auto operator<=>(const way&, const way&) = default;
  };
  struct entry {
    std::uint32_t first = 0, count = 0; // of ways_
    std::uint32_t row = no_row;         // of steps_
    bool accepts = false;
  };

  state find_step(state from, std::size_t byte_class);
  // Follows calls, returns and empty edges from all of `reached_`, and returns the state's number.
  state close();
  void reach(way w);
  void leave_call(frame calls);
  state intern();
  frame enter(node_index back, frame outer);

  std::shared_ptr<const graph> graph_;
  std::vector<call> calls_{{}};
  std::unordered_map<std::uint64_t, frame> call_index_; // by back and outer
  std::vector<way> ways_;
  std::vector<entry> states_;
  std::unordered_multimap<std::uint64_t, state> state_index_; // by the hash of its ways
  std::vector<state> steps_;                                  // [rows, classes]
  state start_ = dead;
  std::size_t bytes_ = 0;
  std::uint64_t work_ = 0;

  // The state under construction.
  std::vector<way> reached_, kept_;
  std::unordered_set<std::uint64_t> seen_;
  bool accepts_ = false;
};

} // namespace baton::grammar
