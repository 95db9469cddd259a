#include "runtime/grammar/automata/graph_maker.hpp"

#include "schema/ensure.hpp"

#include <algorithm>

namespace baton::grammar {
namespace {

constexpr std::size_t edges_max = 4 * grammar_limits::nodes_max; // character classes have many

// Indices of the edges, grouped by the node `key`: [begins[n], begins[n + 1]).
struct grouping {
  std::vector<std::uint32_t> begins, indices;
  std::span<const std::uint32_t> of(node_index n) const {
    return {indices.data() + begins[n], begins[n + 1] - begins[n]};
  }
};

template <class Edges, class Key>
grouping group(const Edges& edges, std::size_t nodes, Key key) {
  grouping g{std::vector<std::uint32_t>(nodes + 1), std::vector<std::uint32_t>(edges.size())};
  for (const auto& e : edges)
    ++g.begins[key(e) + 1];
  for (std::size_t n = 0; n < nodes; ++n)
    g.begins[n + 1] += g.begins[n];
  auto next = g.begins;
  for (std::size_t i = 0; i < edges.size(); ++i)
    g.indices[next[key(edges[i])]++] = static_cast<std::uint32_t>(i);
  return g;
}

// Strongly connected components (Tarjan 1972), without recursion. `next` returns the i-th successor
// of a node, or nullopt.
template <class Next>
std::vector<std::uint32_t> components(std::size_t nodes, Next next) {
  constexpr std::uint32_t unseen = UINT32_MAX;
  struct visit {
    node_index node;
    std::size_t successor = 0;
  };
  std::vector<std::uint32_t> order(nodes, unseen), low(nodes), component(nodes, unseen);
  std::vector<node_index> open;
  std::vector<visit> path;
  std::uint32_t seen = 0, found = 0;
  for (node_index root = 0; root < nodes; ++root) {
    if (order[root] != unseen)
      continue;
    path.push_back({root});
    while (!path.empty()) {
      auto& [node, successor] = path.back();
      if (successor == 0) {
        order[node] = low[node] = seen++;
        open.push_back(node);
      }
      if (const auto to = next(node, successor++)) {
        if (order[*to] == unseen)
          path.push_back({*to});
        else if (component[*to] == unseen)
          low[node] = std::min(low[node], order[*to]);
        continue;
      }
      if (low[node] == order[node]) {
        node_index member;
        do {
          member = open.back();
          open.pop_back();
          component[member] = found;
        } while (member != node);
        ++found;
      }
      const auto done = node;
      path.pop_back();
      if (!path.empty())
        low[path.back().node] = std::min(low[path.back().node], low[done]);
    }
  }
  return component;
}

} // namespace

node_index graph_maker::add_node() {
  rule_of_.push_back(rule_);
  is_end_.push_back(0);
  return static_cast<node_index>(is_end_.size() - 1);
}

void graph_maker::connect(expression what, node_index from, node_index to) {
  if (is_end_.size() > grammar_limits::nodes_max || bytes_.size() > edges_max)
    return; // reported by make
  const auto& e = from_.entries_[what.index];
  switch (e.what) {
  case kind::nothing:
    return;
  case kind::empty:
    return add_empty(from, to);
  case kind::text:
    return connect_text(e.bytes, from, to);
  case kind::range:
    return bytes_.push_back({from, {to, e.first, e.last}});
  case kind::call:
    return calls_.push_back({from, {parts_[e.rule].start, to}});
  case kind::repeat:
    return connect_repeat(e, from, to);
  case kind::either:
    for (const auto alternative : e.parts)
      connect(alternative, from, to);
    return;
  case kind::sequence:
    for (std::size_t i = 0; i < e.parts.size(); ++i) {
      const auto next = i + 1 == e.parts.size() ? to : add_node();
      connect(e.parts[i], from, next);
      from = next;
    }
    return;
  }
}

void graph_maker::connect_text(const std::string& bytes, node_index from, node_index to) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto next = i + 1 == bytes.size() ? to : add_node();
    const auto byte = static_cast<std::uint8_t>(bytes[i]);
    bytes_.push_back({from, {next, byte, byte}});
    from = next;
  }
}

void graph_maker::connect_once(expression what, node_index from, node_index to) {
  const auto& e = from_.entries_[what.index];
  const bool is_small = e.what == kind::range || e.what == kind::call || e.what == kind::empty ||
                        e.what == kind::nothing || (e.what == kind::text && e.bytes.size() == 1);
  if (is_small)
    return connect(what, from, to);
  const auto [at, is_new] =
      repeated_.try_emplace(what.index, static_cast<std::uint32_t>(parts_.size()));
  if (is_new) {
    const auto start = add_node();
    parts_.push_back({start, add_node(), what, rule_});
  }
  calls_.push_back({from, {parts_[at->second].start, to}});
}

void graph_maker::connect_repeat(const grammar_builder::entry& e, node_index from, node_index to) {
  const auto what = e.parts.front();
  if (e.most == UINT32_MAX && e.least <= 1) {
    const auto before = add_node(), after = add_node();
    add_empty(from, before);
    connect(what, before, after);
    add_empty(after, before);
    add_empty(after, to);
    if (e.least == 0)
      add_empty(from, to);
    return;
  }
  if (e.most == 1) { // optional
    add_empty(from, to);
    return connect(what, from, to);
  }
  const auto fixed = e.most == UINT32_MAX ? e.least : e.most;
  for (std::uint32_t i = 0; i < fixed && is_end_.size() <= grammar_limits::nodes_max; ++i) {
    const bool is_last = i + 1 == fixed && e.most != UINT32_MAX;
    if (i >= e.least)
      add_empty(from, to);
    const auto next = is_last ? to : add_node();
    connect_once(what, from, next);
    from = next;
  }
  if (e.most != UINT32_MAX)
    return;
  const auto after = add_node();
  add_empty(from, to);
  connect_once(what, from, after);
  add_empty(after, from);
}

std::vector<bool> graph_maker::reaching_end(bool with_bytes) const {
  const auto nodes = is_end_.size();
  const auto into = group(bytes_, nodes, [](const auto& e) { return e.edge.to; });
  const auto empty_into = group(empties_, nodes, [](const auto& e) { return e.edge; });
  const auto back_to = group(calls_, nodes, [](const auto& e) { return e.edge.back; });
  const auto callers = group(calls_, nodes, [](const auto& e) { return e.edge.rule; });
  std::vector<bool> does(nodes);
  std::vector<node_index> found;
  const auto note = [&](node_index n) {
    if (!does[n]) {
      does[n] = true;
      found.push_back(n);
    }
  };
  for (node_index n = 0; n < nodes; ++n)
    if (is_end_[n])
      note(n);
  while (!found.empty()) {
    const auto n = found.back();
    found.pop_back();
    for (const auto i : empty_into.of(n))
      note(empties_[i].from);
    if (with_bytes)
      for (const auto i : into.of(n))
        note(bytes_[i].from);
    for (const auto i : back_to.of(n))
      if (does[calls_[i].edge.rule])
        note(calls_[i].from);
    for (const auto i : callers.of(n))
      if (does[calls_[i].edge.back])
        note(calls_[i].from);
  }
  return does;
}

// A text that cannot be completed must never be started.
void graph_maker::prune(const std::vector<bool>& is_alive) {
  std::erase_if(bytes_, [&](const auto& e) { return !is_alive[e.edge.to]; });
  std::erase_if(empties_, [&](const auto& e) { return !is_alive[e.edge]; });
  std::erase_if(calls_,
                [&](const auto& e) { return !is_alive[e.edge.rule] || !is_alive[e.edge.back]; });
}

std::optional<std::uint32_t>
graph_maker::left_recursion(const std::vector<bool>& is_nullable) const {
  const auto nodes = is_end_.size();
  const auto empties = group(empties_, nodes, [](const auto& e) { return e.from; });
  const auto calls = group(calls_, nodes, [](const auto& e) { return e.from; });
  const auto next = [&](node_index n, std::size_t i) -> std::optional<node_index> {
    const auto direct = empties.of(n);
    if (i < direct.size())
      return empties_[direct[i]].edge;
    i -= direct.size();
    const auto called = calls.of(n);
    if (i >= 2 * called.size())
      return std::nullopt;
    const auto& call = calls_[called[i / 2]].edge;
    return i % 2 == 1 && is_nullable[call.rule] ? call.back : call.rule;
  };
  const auto component = components(nodes, next);
  for (const auto& c : calls_)
    if (component[c.from] == component[c.edge.rule])
      return rule_of_[c.edge.rule];
  return std::nullopt;
}

void graph_maker::make_classes(graph& out) const {
  std::array<bool, 257> begins{};
  begins[0] = true;
  for (const auto& e : bytes_) {
    begins[e.edge.first] = true;
    begins[std::size_t{e.edge.last} + 1] = true;
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (begins[byte])
      out.byte_of_class_.push_back(static_cast<std::uint8_t>(byte));
    out.class_of_[byte] = static_cast<std::uint8_t>(out.byte_of_class_.size() - 1);
  }
}

result<std::shared_ptr<const graph>> graph_maker::make(std::uint32_t root) {
  for (const auto& r : from_.rules_) {
    if (!r.is)
      return fail(errc::invalid_value, "there is no rule '{}'", r.name);
    const auto start = add_node();
    parts_.push_back({start, add_node(), *r.is, rule_++});
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto [start, end, is, rule] = parts_[i];
    is_end_[end] = 1;
    rule_ = rule;
    connect(is, start, end);
  }
  if (is_end_.size() > grammar_limits::nodes_max || bytes_.size() > edges_max)
    return fail(errc::invalid_value, "it is too large: more than {} states or {} steps",
                grammar_limits::nodes_max, edges_max);
  const auto is_alive = reaching_end(/*with_bytes=*/true);
  if (!is_alive[parts_[root].start])
    return fail(errc::invalid_value, "no text matches it");
  prune(is_alive);
  if (const auto rule = left_recursion(reaching_end(/*with_bytes=*/false)))
    return fail(errc::invalid_value, "the rule '{}' begins with itself (left recursion)",
                from_.rules_[*rule].name);
  auto out = std::make_shared<graph>();
  const auto store = [nodes = is_end_.size()](const auto& edges, auto& to) {
    const auto by_process = group(edges, nodes, [](const auto& e) { return e.from; });
    to.begins = by_process.begins;
    for (const auto i : by_process.indices)
      to.all.push_back(edges[i].edge);
  };
  store(bytes_, out->bytes_);
  store(empties_, out->empties_);
  store(calls_, out->calls_);
  make_classes(*out);
  out->start_ = parts_[root].start;
  out->is_end_ = std::move(is_end_);
  return std::shared_ptr<const graph>(std::move(out));
}

} // namespace baton::grammar
