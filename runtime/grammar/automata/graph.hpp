// The common form of all constraints: rules over bytes as a graph, a pushdown automaton without its
// stack. Edges are bytes, empty, or calls of another rule. Built by grammar_builder, read by
// automaton; immutable.
#pragma once

#include "schema/limits.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace baton::grammar {

// Bounds on the source of a request and on the resulting grammar, with their reasons.
namespace grammar_limits {
inline constexpr std::size_t source_bytes_max = limits::constraint_bytes_max;
inline constexpr std::size_t depth_max = 64; // of nesting in a source
inline constexpr std::size_t rules_max = 16u << 10;
inline constexpr std::size_t expressions_max = 128u << 10;
inline constexpr std::size_t nodes_max = 128u << 10; // a string of n characters has n nodes
inline constexpr std::size_t repeat_max = 64u << 10; // of a counted repetition
} // namespace grammar_limits

using node_index = std::uint32_t;

class graph {
public:
  struct byte_edge {
    node_index to = 0;
    std::uint8_t first = 0, last = 0;
  };
  struct call_edge {
    node_index rule = 0; // its first node
    node_index back = 0; // where to continue after the rule's end
  };

  node_index start() const noexcept { return start_; }
  std::size_t size() const noexcept { return is_end_.size(); }
  std::span<const byte_edge> bytes_of(node_index n) const noexcept { return of(bytes_, n); }
  std::span<const node_index> empties_of(node_index n) const noexcept { return of(empties_, n); }
  std::span<const call_edge> calls_of(node_index n) const noexcept { return of(calls_, n); }
  // Whether a rule ends here.
  bool is_end(node_index n) const noexcept { return is_end_[n] != 0; }
  // Whether it is only a rule's end: a call that returns here need not be remembered.
  bool is_only_end(node_index n) const noexcept {
    return is_end(n) && bytes_of(n).empty() && empties_of(n).empty() && calls_of(n).empty();
  }

  // Bytes of one class take the same edges everywhere.
  std::uint8_t class_of(std::uint8_t byte) const noexcept { return class_of_[byte]; }
  std::size_t classes() const noexcept { return byte_of_class_.size(); }
  std::uint8_t byte_of(std::size_t byte_class) const noexcept { return byte_of_class_[byte_class]; }

private:
  friend class graph_maker;

  template <class Edge>
  struct edges {
    std::vector<Edge> all;             // by node
    std::vector<std::uint32_t> begins; // [nodes + 1]
  };
  template <class Edge>
  static std::span<const Edge> of(const edges<Edge>& e, node_index n) noexcept {
    return {e.all.data() + e.begins[n], e.begins[n + 1] - e.begins[n]};
  }

  node_index start_ = 0;
  edges<byte_edge> bytes_;
  edges<node_index> empties_;
  edges<call_edge> calls_;
  std::vector<std::uint8_t> is_end_; // [nodes]
  std::array<std::uint8_t, 256> class_of_{};
  std::vector<std::uint8_t> byte_of_class_;
};

} // namespace baton::grammar
