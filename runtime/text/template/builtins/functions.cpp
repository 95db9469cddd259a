// The global functions, and the look-up of all built-ins by name.
#include "runtime/text/template/builtins/strftime.hpp"
#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/print.hpp"
#include "runtime/text/template/text_operations.hpp"

#include <algorithm>

namespace baton::text::jinja {

namespace {

maybe function_range(interpreter& run, const value&, const bound_arguments& args) {
  const auto first = whole_argument(run, args[0], 0);
  const auto second = first ? whole_argument(run, args[1], 0) : std::nullopt;
  const auto third = second ? whole_argument(run, args[2], 1) : std::nullopt;
  if (!third || *third == 0) {
    return third ? maybe(run.fail("range needs a step that is not zero")) : std::nullopt;
  }
  const std::int64_t start = args[1] ? *first : 0;
  const std::int64_t stop = args[1] ? *second : *first;
  // In unsigned arithmetic, no distance overflows.
  const bool is_up = *third > 0;
  const auto low = static_cast<std::uint64_t>(is_up ? start : stop);
  const auto high = static_cast<std::uint64_t>(is_up ? stop : start);
  const std::uint64_t pace =
      is_up ? static_cast<std::uint64_t>(*third) : 0 - static_cast<std::uint64_t>(*third);
  const bool is_empty = is_up ? start >= stop : start <= stop;
  const std::uint64_t count = is_empty ? 0 : (high - low - 1) / pace + 1;
  if (count > run.limits().items_max) {
    return run.fail("range of {} items; the limit is {}", count, run.limits().items_max);
  }
  std::vector<value> items;
  std::int64_t at = start;
  for (std::uint64_t i = 0; i < count; ++i, at += i < count ? *third : 0) {
    items.push_back(value::integer(at));
  }
  return run.make_list(std::move(items));
}

// dict(mapping or pairs, name=item ...)
maybe function_dict(interpreter& run, const value&, const bound_arguments& args) {
  std::vector<map_entry> entries;
  if (args.all->positional.size() > 1) {
    return run.fail("dict takes one positional argument");
  }
  for (const value& source : args.all->positional) {
    if (source.is(value_kind::map)) {
      entries = source.as_map();
      continue;
    }
    const auto items = run.items_of(source);
    for (std::size_t i = 0; items && i < items->size(); ++i) {
      const auto pair = run.items_of((*items)[i]);
      if (!pair || pair->size() != 2) {
        return pair ? maybe(run.fail("dict needs pairs of key and value")) : std::nullopt;
      }
      entries.push_back({(*pair)[0], (*pair)[1]});
    }
    if (!items) {
      return std::nullopt;
    }
  }
  for (const auto& [name, item] : args.all->named) {
    entries.push_back({value::marked(name), item});
  }
  return run.make_map(std::move(entries));
}

maybe function_namespace(interpreter& run, const value& self, const bound_arguments& args) {
  const maybe map = function_dict(run, self, args);
  namespace_object* made = map ? run.new_namespace() : nullptr;
  if (!made) {
    return std::nullopt;
  }
  for (const map_entry& e : map->as_map()) {
    if (!e.key.is(value_kind::string)) {
      return run.fail("a namespace's names must be strings");
    }
    made->attributes.emplace_back(e.key.as_text().text(), e.item);
  }
  return value::of(made);
}

maybe function_cycler(interpreter& run, const value&, const bound_arguments& args) {
  if (args.all->positional.empty() || !args.all->named.empty()) {
    return run.fail("cycler needs items");
  }
  namespace_object* made = run.spend(args.all->positional.size()) ? run.new_namespace() : nullptr;
  if (!made) {
    return std::nullopt;
  }
  made->is = namespace_object::role::cycler;
  made->items = args.all->positional;
  return value::of(made);
}

maybe function_joiner(interpreter& run, const value&, const bound_arguments& args) {
  namespace_object* made = run.new_namespace();
  if (!made) {
    return std::nullopt;
  }
  made->is = namespace_object::role::joiner;
  made->items.push_back(args[0] ? *args[0] : value::trusted(", "));
  return value::of(made);
}

maybe function_raise(interpreter& run, const value&, const bound_arguments& args) {
  const maybe text = to_text(run, *args[0]);
  return text ? maybe(run.fail("{}", text->as_text().text())) : std::nullopt;
}

maybe function_strftime(interpreter& run, const value&, const bound_arguments& args) {
  const auto format = text_argument(run, args[0]);
  if (!format || !*format || !run.now()) {
    return format ? maybe(run.fail("strftime_now needs a format")) : std::nullopt;
  }
  return format_time(run, **format, *run.now());
}

constexpr builtin functions_table[] = {
    {"cycler", "*", 0, function_cycler},
    {"dict", "*", 0, function_dict},
    {"joiner", "sep", 0, function_joiner},
    {"namespace", "*", 0, function_namespace},
    {"raise_exception", "message", 1, function_raise},
    {"range", "start,stop,step", 1, function_range},
    {"strftime_now", "format", 1, function_strftime},
};

const builtin* find_in(std::span<const builtin> rows, std::string_view name) noexcept {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const builtin& row) { return row.name == name; });
  return found != rows.end() ? &*found : nullptr;
}

} // namespace

std::span<const builtin> function_table() noexcept {
  return functions_table;
}

const builtin* find_filter(std::string_view name) noexcept {
  for (const auto& rows : {text_filters(), list_filters(), group_filters(), markup_filters()}) {
    if (const builtin* found = find_in(rows, name)) {
      return found;
    }
  }
  return nullptr;
}

std::string_view refusal_of_filter(std::string_view name) noexcept {
  if (name == "random") {
    return "the same request must give the same prompt";
  }
  const bool is_for_pages = name == "pprint" || name == "striptags" || name == "urlize";
  return is_for_pages ? "it makes no text for a model" : "";
}

const builtin* find_test(std::string_view name) noexcept {
  return find_in(test_table(), name);
}

const builtin* find_function(std::string_view name) noexcept {
  return find_in(function_table(), name);
}

const builtin* find_cycler_method(std::string_view name) noexcept {
  return find_in(cycler_methods(), name);
}

const builtin* find_method(value::kind of, std::string_view name) noexcept {
  switch (of) {
  case value::kind::string:
    return find_in(text_methods(), name);
  case value::kind::list:
    return find_in(list_methods(), name);
  case value::kind::map:
    return find_in(map_methods(), name);
  case value::kind::loop_object:
    return find_in(loop_methods(), name);
  default:
    return nullptr;
  }
}

} // namespace baton::text::jinja
