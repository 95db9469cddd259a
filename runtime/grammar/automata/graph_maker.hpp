// Converts expressions to nodes and edges (Thompson 1968) and removes dead ends. Used only by
// grammar_builder::build.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"
#include "runtime/grammar/automata/graph.hpp"

#include <memory>
#include <unordered_map>
#include <vector>

namespace baton::grammar {

class graph_maker {
public:
  explicit graph_maker(const grammar_builder& from) : from_(from) {}
  result<std::shared_ptr<const graph>> make(std::uint32_t root);

private:
  using kind = grammar_builder::kind;
  template <class Edge>
  struct placed {
    node_index from;
    Edge edge;
  };
  // A rule, or a repeated expression that is called instead of copied.
  struct part {
    node_index start, end;
    expression is;
    std::uint32_t rule; // for its name
  };

  node_index add_node();
  void add_empty(node_index from, node_index to) { empties_.push_back({from, to}); }
  void connect(expression what, node_index from, node_index to);
  void connect_text(const std::string& bytes, node_index from, node_index to);
  void connect_repeat(const grammar_builder::entry& e, node_index from, node_index to);
  // Connects an expression that is called instead of copied.
  void connect_once(expression what, node_index from, node_index to);

  // Nodes that can reach their rule's end; without bytes: by the empty text.
  std::vector<bool> reaching_end(bool with_bytes) const;
  void prune(const std::vector<bool>& is_alive);
  // A left-recursive rule, if there is one.
  std::optional<std::uint32_t> left_recursion(const std::vector<bool>& is_nullable) const;
  void make_classes(graph& out) const;

  const grammar_builder& from_;
  std::vector<part> parts_;                                   // the rules first
  std::unordered_map<std::uint32_t, std::uint32_t> repeated_; // expression -> its part
  std::uint32_t rule_ = 0;                                    // the rule being connected
  std::vector<std::uint32_t> rule_of_;                        // [nodes]
  std::vector<std::uint8_t> is_end_;                          // [nodes]
  std::vector<placed<graph::byte_edge>> bytes_;
  std::vector<placed<node_index>> empties_;
  std::vector<placed<graph::call_edge>> calls_;
};

} // namespace baton::grammar
