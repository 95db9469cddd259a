// Construction and look-up of template values.
#include "runtime/text/template/values/value.hpp"

#include "runtime/text/template/values/callable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace baton::text {

namespace {

// Keys that are equal in Python (1, 1.0 and True) get the same spelling. Only scalars are keys.
std::string spelling_of(const value& key) {
  switch (key.type()) {
  case value::kind::string:
    return "s" + key.as_text().text();
  case value::kind::boolean:
    return key.as_boolean() ? "n1" : "n0";
  case value::kind::integer:
    return fmt::format("n{}", key.as_integer());
  case value::kind::real: {
    const double d = key.as_real();
    const bool is_whole = std::trunc(d) == d && std::abs(d) < 9e18;
    return is_whole ? fmt::format("n{}", static_cast<std::int64_t>(d)) : fmt::format("n{}", d);
  }
  default:
    return fmt::format("k{}", static_cast<int>(key.type()));
  }
}

} // namespace

value value::undefined(std::string about) {
  return value(undefined_tag{std::make_shared<const std::string>(std::move(about))});
}

value value::marked(marked_text text) {
  return value(std::make_shared<const marked_text>(std::move(text)));
}

value value::list(std::vector<value> items) {
  return sequence(std::move(items), false);
}
value value::tuple(std::vector<value> items) {
  return sequence(std::move(items), true);
}
value value::group(value grouper, value list) {
  return sequence({std::move(grouper), std::move(list)}, true, /*is_group=*/true);
}

value value::sequence(std::vector<value> items, bool is_tuple, bool is_group) {
  std::uint32_t depth = 0;
  for (const value& item : items) {
    depth = std::max(depth, item.depth());
  }
  if (++depth > depth_max) {
    items.clear();
  }
  return value(
      std::make_shared<const list_node>(list_node{std::move(items), is_tuple, is_group, depth}));
}

value value::map(std::vector<map_entry> entries) {
  std::vector<std::pair<std::string, std::uint32_t>> order;
  order.reserve(entries.size());
  std::uint32_t depth = 0;
  for (const map_entry& e : entries) {
    order.emplace_back(spelling_of(e.key), static_cast<std::uint32_t>(order.size()));
    depth = std::max({depth, e.key.depth(), e.item.depth()});
  }
  std::sort(order.begin(), order.end());
  const auto is_same_key = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::adjacent_find(order.begin(), order.end(), is_same_key) != order.end()) {
    // Among equal keys, the first entry gets the last value; the others are removed.
    std::vector<bool> is_double(entries.size(), false);
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      std::size_t last = i;
      while (last + 1 < order.size() && is_same_key(order[i], order[last + 1])) {
        is_double[order[++last].second] = true;
      }
      entries[order[i].second].item = entries[order[last].second].item;
      i = last;
    }
    std::vector<map_entry> unique;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (!is_double[i]) {
        unique.push_back(std::move(entries[i]));
      }
    }
    return map(std::move(unique));
  }
  if (++depth > depth_max) {
    entries.clear();
    order.clear();
  }
  return value(
      std::make_shared<const map_node>(map_node{std::move(entries), std::move(order), depth}));
}

value value::map(std::vector<std::pair<std::string, value>> entries) {
  std::vector<map_entry> all;
  all.reserve(entries.size());
  for (auto& [key, item] : entries) {
    all.push_back({string(std::move(key)), std::move(item)});
  }
  return map(std::move(all));
}

const std::vector<value>& value::as_list() const {
  return std::get<std::shared_ptr<const list_node>>(data_)->items;
}

bool value::is_tuple() const {
  return std::get<std::shared_ptr<const list_node>>(data_)->is_tuple;
}

bool value::is_group() const {
  return std::get<std::shared_ptr<const list_node>>(data_)->is_group;
}

const std::vector<map_entry>& value::as_map() const {
  return std::get<std::shared_ptr<const map_node>>(data_)->entries;
}

jinja::namespace_object& value::as_namespace() const {
  return *std::get<jinja::namespace_object*>(data_);
}

jinja::loop_object& value::as_loop() const {
  return *std::get<jinja::loop_object*>(data_);
}

std::string value::about() const {
  const auto* tag = std::get_if<undefined_tag>(&data_);
  return tag && tag->about ? *tag->about : "the value is undefined";
}

const value* value::find(const value& key) const {
  const map_node& node = *std::get<std::shared_ptr<const map_node>>(data_);
  const std::string spelling = spelling_of(key);
  const auto found =
      std::partition_point(node.order.begin(), node.order.end(),
                           [&](const auto& entry) { return entry.first < spelling; });
  if (found == node.order.end() || found->first != spelling) {
    return nullptr;
  }
  return &node.entries[found->second].item;
}

const value* value::find(std::string_view key) const {
  return find(trusted(std::string(key)));
}

std::uint32_t value::depth() const noexcept {
  if (const auto* list = std::get_if<std::shared_ptr<const list_node>>(&data_)) {
    return (*list)->depth;
  }
  if (const auto* map = std::get_if<std::shared_ptr<const map_node>>(&data_)) {
    return (*map)->depth;
  }
  if (const auto* callable = std::get_if<callable_node>(&data_)) {
    return (*callable)->self.depth() + 1;
  }
  return 0;
}

bool value::is_same(const value& other) const noexcept {
  if (type() != other.type()) {
    return false;
  }
  return std::visit(
      [&](const auto& mine) {
        using held = std::decay_t<decltype(mine)>;
        if constexpr (std::is_same_v<held, undefined_tag> || std::is_same_v<held, none_tag>) {
          return true;
        } else {
          return mine == std::get<held>(other.data_);
        }
      },
      data_);
}

std::string_view name_of(value::kind k) noexcept {
  static constexpr std::array<std::string_view, 11> names = {
      "Undefined", "NoneType", "bool",     "int",       "float",      "str",
      "list",      "dict",     "function", "Namespace", "LoopContext"};
  return names[static_cast<std::size_t>(k)];
}

} // namespace baton::text
