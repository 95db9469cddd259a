// The values of the template language. The gateway builds the input tree with the factories; the
// interpreter makes the rest. Values are immutable and share their nodes: copies are cheap, cycles
// cannot exist, and one tree may be rendered by several threads at once.
#pragma once

#include "runtime/text/template/values/marked_text.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace baton::text {

namespace jinja {
struct callable;         // a macro, a function or a bound method
struct namespace_object; // namespace(...): the only mutable object of a template
struct loop_object;      // `loop` inside a for
} // namespace jinja

struct map_entry;

class value {
public:
  // In the order of the variant below.
  enum class kind : std::uint8_t {
    undefined,
    none,
    boolean,
    integer,
    real,
    string,
    list,
    map,
    callable,
    namespace_object,
    loop_object
  };
  // A deeper tree is not built: its children are dropped, and depth() stays above this bound, so
  // render() refuses it. Bounds the recursion of printing, comparing and destroying.
  static constexpr std::uint32_t depth_max = 128;

  value() = default; // undefined
  static value undefined(std::string about);
  static value none() { return value(none_tag{}); }
  static value boolean(bool b) { return value(b); }
  static value integer(std::int64_t i) { return value(i); }
  static value real(double d) { return value(d); }
  // User text: no special token is ever matched in it.
  static value string(std::string text) { return marked(marked_text::untrusted(std::move(text))); }
  // Text of the model's own files (template literals, bos_token).
  static value trusted(std::string text) { return marked(marked_text::trusted(std::move(text))); }
  static value marked(marked_text text);
  static value list(std::vector<value> items);
  static value tuple(std::vector<value> items);
  // A tuple of both, which also have the names `grouper` and `list`.
  static value group(value grouper, value list);
  // Keeps insertion order; among equal keys, the last value takes the first one's position.
  static value map(std::vector<map_entry> entries);
  static value map(std::vector<std::pair<std::string, value>> entries);
  static value of(std::shared_ptr<const jinja::callable> c) { return value(std::move(c)); }
  static value of(jinja::namespace_object* n) { return value(n); }
  static value of(jinja::loop_object* l) { return value(l); }

  kind type() const noexcept { return static_cast<kind>(data_.index()); }
  bool is(kind k) const noexcept { return type() == k; }
  // Each as_ function requires the kind in its name.
  bool as_boolean() const { return std::get<bool>(data_); }
  std::int64_t as_integer() const { return std::get<std::int64_t>(data_); }
  double as_real() const { return std::get<double>(data_); }
  const marked_text& as_text() const { return *std::get<text_node>(data_); }
  const std::vector<value>& as_list() const;
  bool is_tuple() const; // of a list
  bool is_group() const; // of a list
  const std::vector<map_entry>& as_map() const;
  const jinja::callable& as_callable() const { return *std::get<callable_node>(data_); }
  jinja::namespace_object& as_namespace() const;
  jinja::loop_object& as_loop() const;
  // Why an undefined value is undefined: "'foo' is undefined".
  std::string about() const;
  // Requires a map; null if there is no such key. Numbers compare by value, as in Python.
  const value* find(const value& key) const;
  const value* find(std::string_view key) const;
  // Containers on the longest path below; 0 for a scalar.
  std::uint32_t depth() const noexcept;
  // Whether both are the same node (Python's `is`); scalars compare by kind and value.
  bool is_same(const value& other) const noexcept;

private:
  struct undefined_tag {
    std::shared_ptr<const std::string> about;
  };
  struct none_tag {};
  struct list_node;
  struct map_node;
  using text_node = std::shared_ptr<const marked_text>;
  using callable_node = std::shared_ptr<const jinja::callable>;

  template <class T>
  explicit value(T data) : data_(std::move(data)) {}
  static value sequence(std::vector<value> items, bool is_tuple, bool is_group = false);

  std::variant<undefined_tag, none_tag, bool, std::int64_t, double, text_node,
               std::shared_ptr<const list_node>, std::shared_ptr<const map_node>, callable_node,
               jinja::namespace_object*, jinja::loop_object*>
      data_;
};

struct map_entry {
  value key;
  value item;
};

struct value::list_node {
  std::vector<value> items;
  bool is_tuple;
  bool is_group;
  std::uint32_t depth;
};

// `order` holds indices sorted by key, so a map of user data cannot make look-ups slow.
struct value::map_node {
  std::vector<map_entry> entries;
  std::vector<std::pair<std::string, std::uint32_t>> order;
  std::uint32_t depth;
};

// "string", "int", "dict": Python's names, for messages.
std::string_view name_of(value::kind k) noexcept;

} // namespace baton::text
