// Attributes, subscripts, slices and iteration.
#include "runtime/text/template/interpreter.hpp"
#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/values/unicode.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace baton::text::jinja {

namespace {

// Methods that modify their object. Refused as in Hugging Face's sandbox, because values are
// shared.
constexpr std::array<std::string_view, 13> changing_methods = {
    "append",  "clear", "extend", "insert",     "pop",         "popitem",    "remove",
    "reverse", "sort",  "update", "setdefault", "__setitem__", "__delitem__"};

maybe loop_attribute(interpreter& run, const value& object, std::string_view name) {
  const loop_object& loop = object.as_loop();
  const auto index = static_cast<std::int64_t>(loop.index);
  const auto length = static_cast<std::int64_t>(loop.items.size());
  if (name == "index") {
    return value::integer(index + 1);
  }
  if (name == "index0") {
    return value::integer(index);
  }
  if (name == "revindex") {
    return value::integer(length - index);
  }
  if (name == "revindex0") {
    return value::integer(length - index - 1);
  }
  if (name == "first") {
    return value::boolean(index == 0);
  }
  if (name == "last") {
    return value::boolean(index == length - 1);
  }
  if (name == "length") {
    return value::integer(length);
  }
  if (name == "depth" || name == "depth0") {
    return value::integer(name == "depth" ? loop.depth : loop.depth - 1);
  }
  if (name == "previtem") {
    return index > 0 ? loop.items[loop.index - 1] : run.make_undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < length ? loop.items[loop.index + 1]
                              : run.make_undefined("there is no next item");
  }
  return run.make_undefined(fmt::format("'loop' has no attribute '{}'", name));
}

// The index in a sequence of `size` items; negative indices count from the end.
std::optional<std::size_t> position_of(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  index += index < 0 ? count : 0;
  return index >= 0 && index < count ? std::optional(static_cast<std::size_t>(index))
                                     : std::nullopt;
}

struct slice_plan {
  std::int64_t start;
  std::int64_t step;
  std::size_t count;
};

// Python's slice.indices.
slice_plan plan_slice(std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                      std::int64_t step, std::int64_t size) {
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? size : size - 1;
  const auto clamp = [&](std::optional<std::int64_t> bound, std::int64_t preset) {
    if (!bound) {
      return preset;
    }
    return std::clamp(*bound < 0 ? *bound + size : *bound, low, high);
  };
  const std::int64_t first = clamp(start, step > 0 ? low : high);
  const std::int64_t last = clamp(stop, step > 0 ? high : low);
  const std::int64_t distance = step > 0 ? last - first : first - last;
  if (distance <= 0) {
    return {first, step, 0};
  }
  // The smallest step has no positive counterpart; any step beyond the distance takes one item.
  const std::int64_t pace = step > 0 ? step : step < -distance ? distance : -step;
  return {first, step, static_cast<std::size_t>((distance - 1) / pace + 1)};
}

} // namespace

maybe interpreter::attribute_of(const value& object, std::string_view name) {
  if (object.is(value_kind::undefined)) {
    return fail("{}", object.about());
  }
  if (object.is(value_kind::loop_object)) {
    const builtin* method = find_method(object.type(), name);
    return method ? value::of(std::make_shared<const callable>(
                        callable{.name = method->name, .function = method, .self = object}))
                  : loop_attribute(*this, object, name);
  }
  if (object.is(value_kind::namespace_object)) {
    const namespace_object& names = object.as_namespace();
    if (names.is == namespace_object::role::cycler) {
      if (name == "current") {
        return names.items[names.index];
      }
      if (const builtin* method = find_cycler_method(name)) {
        return value::of(std::make_shared<const callable>(
            callable{.name = method->name, .function = method, .self = object}));
      }
    }
    const auto& attributes = object.as_namespace().attributes;
    if (!spend(1 + attributes.size() / 8)) {
      return std::nullopt;
    }
    for (const auto& [attribute, item] : attributes) {
      if (attribute == name) {
        return item;
      }
    }
    return make_undefined(fmt::format("the namespace has no attribute '{}'", name));
  }
  if (const builtin* method = find_method(object.type(), name)) {
    value bound = value::of(std::make_shared<const callable>(
        callable{.name = method->name, .function = method, .self = object}));
    if (bound.depth() > value::depth_max) {
      return fail("values nest deeper than {}", value::depth_max);
    }
    return bound;
  }
  if (object.is(value_kind::map)) {
    if (const value* item = object.find(name)) {
      return *item;
    }
  }
  if (object.is(value_kind::list) && object.is_group() && (name == "grouper" || name == "list")) {
    return object.as_list()[name == "grouper" ? 0 : 1];
  }
  const bool is_container = object.is(value_kind::map) || object.is(value_kind::list);
  if (is_container &&
      std::find(changing_methods.begin(), changing_methods.end(), name) != changing_methods.end()) {
    return make_undefined(
        fmt::format("'{}' of a {} is refused: values cannot be changed, make a new one", name,
                    name_of(object.type())));
  }
  return make_undefined(fmt::format("a {} has no attribute '{}'", name_of(object.type()), name));
}

maybe interpreter::item_of(const value& object, const value& key) {
  if (object.is(value_kind::undefined)) {
    return fail("{}", object.about());
  }
  if (object.is(value_kind::map)) {
    const std::size_t bytes = key.is(value_kind::string) ? key.as_text().size() : 0;
    if (!spend_bytes(bytes)) {
      return std::nullopt;
    }
    if (const value* item = object.find(key)) {
      return *item;
    }
  }
  const auto index = as_whole(key);
  if (index && object.is(value_kind::list)) {
    const auto position = position_of(*index, object.as_list().size());
    return position ? object.as_list()[*position]
                    : make_undefined(fmt::format("a list of {} items has no item {}",
                                                 object.as_list().size(), *index));
  }
  if (index && object.is(value_kind::string)) {
    const marked_text& text = object.as_text();
    if (!spend_bytes(text.size())) {
      return std::nullopt;
    }
    const auto position = position_of(*index, count_code_points(text.text()));
    if (!position) {
      return make_undefined(fmt::format("the string has no character {}", *index));
    }
    const std::size_t at = offset_of(text.text(), *position);
    return make_text(text.slice(at, at + code_point_at(text.text(), at).bytes));
  }
  if (key.is(value_kind::string)) {
    return attribute_of(object, key.as_text().text());
  }
  return make_undefined(fmt::format("a {} has no such item", name_of(object.type())));
}

maybe interpreter::path_of(const value& object, std::string_view path, const value* preset) {
  maybe current = object;
  while (current) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const std::string_view part = path.substr(0, dot);
    std::int64_t index = 0;
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && code == std::errc{} && end == part.data() + part.size();
    current =
        item_of(*current, is_index ? value::integer(index) : value::trusted(std::string(part)));
    if (current && preset && current->is(value_kind::undefined)) {
      current = *preset;
    }
    if (dot == path.size()) {
      break;
    }
    path.remove_prefix(dot + 1);
  }
  return current;
}

std::optional<std::vector<value>> interpreter::items_of(const value& container) {
  std::vector<value> items;
  switch (container.type()) {
  case value_kind::undefined:
    return items;
  case value_kind::list:
    if (!spend(1 + container.as_list().size())) {
      return std::nullopt;
    }
    return container.as_list();
  case value_kind::map:
    if (!spend(1 + container.as_map().size())) {
      return std::nullopt;
    }
    for (const map_entry& e : container.as_map()) {
      items.push_back(e.key);
    }
    return items;
  case value_kind::string: {
    const marked_text& text = container.as_text();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = code_point_at(text.text(), at).bytes;
      maybe c = make_text(text.slice(at, at + bytes));
      if (!c) {
        return std::nullopt;
      }
      items.push_back(std::move(*c));
      at += bytes;
    }
    return items;
  }
  default:
    return fail("a {} cannot be iterated", name_of(container.type()));
  }
}

maybe interpreter::slice_of(const value& object, const value& start, const value& stop,
                            const value& step) {
  if (object.is(value_kind::undefined)) {
    return fail("{}", object.about());
  }
  if (!object.is(value_kind::list) && !object.is(value_kind::string)) {
    return fail("a {} has no slices", name_of(object.type()));
  }
  for (const value* bound : {&start, &stop, &step}) {
    if (!bound->is(value_kind::none) && !as_whole(*bound)) {
      return fail("a slice's bound cannot be a {}", name_of(bound->type()));
    }
  }
  const std::int64_t pace = as_whole(step).value_or(1);
  if (pace == 0) {
    return fail("a slice's step cannot be zero");
  }
  if (object.is(value_kind::list)) {
    const auto& items = object.as_list();
    const slice_plan plan =
        plan_slice(as_whole(start), as_whole(stop), pace, static_cast<std::int64_t>(items.size()));
    std::vector<value> taken;
    std::int64_t at = plan.start;
    for (std::size_t i = 0; i < plan.count; ++i, at += i < plan.count ? pace : 0) {
      taken.push_back(items[static_cast<std::size_t>(at)]);
    }
    return make_list(std::move(taken), object.is_tuple());
  }
  const marked_text& text = object.as_text();
  if (!spend_bytes(text.size())) {
    return std::nullopt;
  }
  const slice_plan plan = plan_slice(as_whole(start), as_whole(stop), pace,
                                     static_cast<std::int64_t>(count_code_points(text.text())));
  if (plan.count == 0 || pace == 1) {
    const std::size_t begin = offset_of(text.text(), static_cast<std::size_t>(plan.start));
    const std::size_t length = offset_of(std::string_view(text.text()).substr(begin), plan.count);
    return make_text(text.slice(begin, begin + length));
  }
  const auto characters = items_of(object);
  marked_text taken;
  std::int64_t at = plan.start;
  for (std::size_t i = 0; characters && i < plan.count; ++i, at += i < plan.count ? pace : 0) {
    if (!append(taken, (*characters)[static_cast<std::size_t>(at)].as_text())) {
      return std::nullopt;
    }
  }
  return characters ? make_text(std::move(taken)) : std::nullopt;
}

} // namespace baton::text::jinja
