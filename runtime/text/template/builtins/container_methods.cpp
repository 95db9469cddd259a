// The methods of lists, maps, loops and cyclers; only the state of the last two changes.
#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/text_operations.hpp"

namespace baton::text::jinja {

namespace {

maybe list_index(interpreter& run, const value& self, const bound_arguments& args) {
  const auto& items = self.as_list();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto same = equals(run, items[i], *args[0]);
    if (!same) {
      return std::nullopt;
    }
    if (*same) {
      return value::integer(static_cast<std::int64_t>(i));
    }
  }
  return run.fail("the item is not in the list");
}

maybe list_count(interpreter& run, const value& self, const bound_arguments& args) {
  std::int64_t count = 0;
  for (const value& item : self.as_list()) {
    const auto same = equals(run, item, *args[0]);
    if (!same) {
      return std::nullopt;
    }
    count += *same ? 1 : 0;
  }
  return value::integer(count);
}

// Values are immutable, so a copy is the same value.
maybe copy(interpreter&, const value& self, const bound_arguments&) {
  return self;
}

maybe map_get(interpreter&, const value& self, const bound_arguments& args) {
  const value* item = self.find(*args[0]);
  return item ? *item : args[1] ? *args[1] : value::none();
}

maybe map_items(interpreter& run, const value& self, const bound_arguments&) {
  std::vector<value> items;
  for (const map_entry& e : self.as_map()) {
    maybe pair = run.make_list({e.key, e.item}, /*is_tuple=*/true);
    if (!pair) {
      return std::nullopt;
    }
    items.push_back(std::move(*pair));
  }
  return run.make_list(std::move(items));
}

maybe map_keys(interpreter& run, const value& self, const bound_arguments&) {
  auto keys = run.items_of(self);
  return keys ? run.make_list(std::move(*keys)) : std::nullopt;
}

maybe map_values(interpreter& run, const value& self, const bound_arguments&) {
  std::vector<value> items;
  for (const map_entry& e : self.as_map()) {
    items.push_back(e.item);
  }
  return run.make_list(std::move(items));
}

maybe loop_cycle(interpreter& run, const value& self, const bound_arguments& args) {
  const auto& choices = args.all->positional;
  return choices.empty() ? maybe(run.fail("cycle needs something to choose from"))
                         : choices[self.as_loop().index % choices.size()];
}

// True if the arguments differ from those of the previous call.
maybe loop_changed(interpreter& run, const value& self, const bound_arguments& args) {
  loop_object& loop = self.as_loop();
  bool is_same = loop.has_changed_before && loop.last_changed.size() == args.all->positional.size();
  for (std::size_t i = 0; is_same && i < loop.last_changed.size(); ++i) {
    const auto same = equals(run, loop.last_changed[i], args.all->positional[i]);
    if (!same) {
      return std::nullopt;
    }
    is_same = *same;
  }
  loop.has_changed_before = true;
  loop.last_changed = args.all->positional;
  return value::boolean(!is_same);
}

// Returns the current item and advances to the next one.
maybe cycler_next(interpreter&, const value& self, const bound_arguments&) {
  namespace_object& cycler = self.as_namespace();
  const std::size_t at = cycler.index;
  cycler.index = (at + 1) % cycler.items.size();
  return cycler.items[at];
}

maybe cycler_reset(interpreter&, const value& self, const bound_arguments&) {
  self.as_namespace().index = 0;
  return value::none();
}

constexpr builtin list_table[] = {
    {"copy", "", 0, copy},
    {"count", "value", 1, list_count},
    {"index", "value", 1, list_index},
};

constexpr builtin map_table[] = {
    {"copy", "", 0, copy},     {"get", "key,default", 1, map_get}, {"items", "", 0, map_items},
    {"keys", "", 0, map_keys}, {"values", "", 0, map_values},
};

constexpr builtin loop_table[] = {
    {"changed", "*", 0, loop_changed},
    {"cycle", "*", 1, loop_cycle},
};

constexpr builtin cycler_table[] = {
    {"next", "", 0, cycler_next},
    {"reset", "", 0, cycler_reset},
};

} // namespace

std::span<const builtin> cycler_methods() noexcept {
  return cycler_table;
}
std::span<const builtin> list_methods() noexcept {
  return list_table;
}
std::span<const builtin> map_methods() noexcept {
  return map_table;
}
std::span<const builtin> loop_methods() noexcept {
  return loop_table;
}

} // namespace baton::text::jinja
