// Filters on sequences and maps.
#include "runtime/text/template/builtins/keyed_items.hpp"
#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/print.hpp"
#include "runtime/text/template/text_operations.hpp"
#include "runtime/text/template/values/unicode.hpp"

#include <algorithm>

namespace baton::text::jinja {

namespace {

using values = std::vector<value>;

// sort(attribute="a,b.c"): each item gets a list of keys, as in jinja2.
bool add_attributes(interpreter& run, std::vector<keyed>& all, const value& attribute,
                    bool is_case_sensitive) {
  const maybe names = to_text(run, attribute);
  const value comma = value::trusted(",");
  const auto parts =
      names ? split(run, names->as_text().text(), &comma.as_text(), -1, /*from_right=*/false)
            : std::nullopt;
  for (std::size_t i = 0; parts && i < all.size(); ++i) {
    values keys;
    for (const byte_range& part : *parts) {
      const value name = value::marked(names->as_text().slice(part.begin, part.end));
      maybe key = key_of(run, all[i].item, &name, is_case_sensitive);
      if (!key) {
        return false;
      }
      keys.push_back(std::move(*key));
    }
    maybe list = run.make_list(std::move(keys));
    if (!list) {
      return false;
    }
    all[i].key = std::move(*list);
  }
  return parts.has_value();
}

maybe filter_sort(interpreter& run, const value& self, const bound_arguments& args) {
  const bool is_case_sensitive = flag_argument(args[1], false);
  const bool has_attribute = args[2] && !args[2]->is(value_kind::none);
  auto all = keys_of(run, self, nullptr, is_case_sensitive || has_attribute);
  if (all && has_attribute && !add_attributes(run, *all, *args[2], is_case_sensitive)) {
    return std::nullopt;
  }
  if (!all || !sort_keyed(run, *all, flag_argument(args[0], false))) {
    return std::nullopt;
  }
  values items;
  for (keyed& k : *all) {
    items.push_back(std::move(k.item));
  }
  return run.make_list(std::move(items));
}

maybe filter_dictsort(interpreter& run, const value& self, const bound_arguments& args) {
  const auto by = text_argument(run, args[1]);
  if (!by) {
    return std::nullopt;
  }
  const std::string name = *by ? (*by)->text() : "key";
  if (!self.is(value_kind::map) || (name != "key" && name != "value")) {
    return run.fail("dictsort needs a dict, and 'key' or 'value' to sort by");
  }
  std::vector<keyed> all;
  for (const map_entry& e : self.as_map()) {
    maybe key = key_of(run, name == "key" ? e.key : e.item, nullptr, flag_argument(args[0], false));
    maybe pair = key ? run.make_list({e.key, e.item}, /*is_tuple=*/true) : std::nullopt;
    if (!pair) {
      return std::nullopt;
    }
    all.push_back({std::move(*key), std::move(*pair)});
  }
  if (!sort_keyed(run, all, flag_argument(args[2], false))) {
    return std::nullopt;
  }
  values items;
  for (keyed& k : all) {
    items.push_back(std::move(k.item));
  }
  return run.make_list(std::move(items));
}

template <bool IsMax>
maybe filter_extreme(interpreter& run, const value& self, const bound_arguments& args) {
  auto all = keys_of(run, self, args[1], flag_argument(args[0], false));
  if (!all) {
    return std::nullopt;
  }
  if (all->empty()) {
    return run.make_undefined("an empty sequence has no extreme");
  }
  const keyed* best = &all->front();
  for (std::size_t i = 1; i < all->size(); ++i) {
    const keyed& candidate = (*all)[i];
    const auto order = order_of(run, candidate.key, best->key);
    if (!order) {
      return std::nullopt;
    }
    best = (IsMax ? *order > 0 : *order < 0) ? &candidate : best;
  }
  return best->item;
}

maybe filter_unique(interpreter& run, const value& self, const bound_arguments& args) {
  auto all = keys_of(run, self, args[1], flag_argument(args[0], false));
  if (!all) {
    return std::nullopt;
  }
  values items;
  for (std::size_t i = 0; i < all->size(); ++i) {
    bool is_new = true;
    for (std::size_t j = 0; is_new && j < i; ++j) {
      const auto same = equals(run, (*all)[i].key, (*all)[j].key);
      if (!same) {
        return std::nullopt;
      }
      is_new = !*same;
    }
    if (is_new) {
      items.push_back((*all)[i].item);
    }
  }
  return run.make_list(std::move(items));
}

maybe filter_sum(interpreter& run, const value& self, const bound_arguments& args) {
  const auto all = keys_of(run, self, args[0], /*is_case_sensitive=*/true);
  maybe sum = args[1] ? *args[1] : value::integer(0);
  for (std::size_t i = 0; all && sum && i < all->size(); ++i) {
    sum = calculate(run, binary_operator::add, *sum, (*all)[i].key);
  }
  return all ? sum : std::nullopt;
}

maybe filter_join(interpreter& run, const value& self, const bound_arguments& args) {
  const auto all = keys_of(run, self, args[1], /*is_case_sensitive=*/true);
  const maybe between = args[0] ? to_text(run, *args[0]) : value::trusted("");
  if (!all || !between) {
    return std::nullopt;
  }
  marked_text out;
  for (std::size_t i = 0; i < all->size(); ++i) {
    if ((i > 0 && !run.append(out, between->as_text())) || !append_text(run, out, (*all)[i].key)) {
      return std::nullopt;
    }
  }
  return run.make_text(std::move(out));
}

maybe filter_first(interpreter& run, const value& self, const bound_arguments&) {
  const auto items = run.items_of(self);
  if (!items) {
    return std::nullopt;
  }
  return items->empty() ? run.make_undefined("an empty sequence has no first item")
                        : items->front();
}

maybe filter_last(interpreter& run, const value& self, const bound_arguments&) {
  const auto items = run.items_of(self);
  if (!items) {
    return std::nullopt;
  }
  return items->empty() ? run.make_undefined("an empty sequence has no last item") : items->back();
}

maybe filter_length(interpreter& run, const value& self, const bound_arguments&) {
  std::size_t length = 0;
  if (self.is(value_kind::string)) {
    if (!run.spend_bytes(self.as_text().size())) {
      return std::nullopt;
    }
    length = count_code_points(self.as_text().text());
  } else if (self.is(value_kind::list)) {
    length = self.as_list().size();
  } else if (self.is(value_kind::map)) {
    length = self.as_map().size();
  } else if (!self.is(value_kind::undefined)) {
    return run.fail("a {} has no length", name_of(self.type()));
  }
  return value::integer(static_cast<std::int64_t>(length));
}

maybe filter_list(interpreter& run, const value& self, const bound_arguments&) {
  auto items = run.items_of(self);
  return items ? run.make_list(std::move(*items)) : std::nullopt;
}

maybe filter_items(interpreter& run, const value& self, const bound_arguments&) {
  if (self.is(value_kind::undefined)) {
    return run.make_list({});
  }
  if (!self.is(value_kind::map)) {
    return run.fail("items needs a dict, not {}", name_of(self.type()));
  }
  values items;
  for (const map_entry& e : self.as_map()) {
    maybe pair = run.make_list({e.key, e.item}, /*is_tuple=*/true);
    if (!pair) {
      return std::nullopt;
    }
    items.push_back(std::move(*pair));
  }
  return run.make_list(std::move(items));
}

maybe filter_reverse(interpreter& run, const value& self, const bound_arguments&) {
  if (self.is(value_kind::string)) {
    return reverse_text(run, self.as_text());
  }
  auto items = run.items_of(self);
  if (!items) {
    return std::nullopt;
  }
  std::reverse(items->begin(), items->end());
  return run.make_list(std::move(*items));
}

// Arguments from `skip` on, for the filter or test named in map or select.
arguments rest_of(const arguments& all, std::size_t skip) {
  arguments rest;
  rest.named = all.named;
  for (std::size_t i = skip; i < all.positional.size(); ++i) {
    rest.positional.push_back(all.positional[i]);
  }
  return rest;
}

const builtin* named_builtin(interpreter& run, const arguments& all, std::size_t at,
                             const builtin* (*find)(std::string_view) noexcept) {
  const value& name = all.positional[at];
  const builtin* found = name.is(value_kind::string) ? find(name.as_text().text()) : nullptr;
  if (!found) {
    const maybe text = to_text(run, name);
    run.fail("no filter or test named '{}'", text ? text->as_text().text() : "");
  }
  return found;
}

// map(attribute='x', default=y)
maybe map_attribute(interpreter& run, const values& items, const arguments& all) {
  const value* attribute = nullptr;
  const value* preset = nullptr;
  for (const auto& [name, item] : all.named) {
    if (name.text() != "attribute" && name.text() != "default") {
      return run.fail("'map' has no parameter '{}'", name.text());
    }
    (name.text() == "attribute" ? attribute : preset) = &item;
  }
  if (!attribute) {
    return run.fail("map needs a filter or an attribute");
  }
  values mapped;
  const maybe path = to_text(run, *attribute);
  for (const value& item : items) {
    maybe part = path ? run.path_of(item, path->as_text().text(), preset) : std::nullopt;
    if (!part) {
      return std::nullopt;
    }
    mapped.push_back(std::move(*part));
  }
  return run.make_list(std::move(mapped));
}

// The items for map and select: as in jinja2, a false value has none.
std::optional<values> items_if_true(interpreter& run, const value& self) {
  return is_true(self) ? run.items_of(self) : values();
}

maybe filter_map(interpreter& run, const value& self, const bound_arguments& args) {
  const auto items = items_if_true(run, self);
  if (!items || args.all->positional.empty()) {
    return items ? map_attribute(run, *items, *args.all) : std::nullopt;
  }
  const builtin* filter = named_builtin(run, *args.all, 0, find_filter);
  if (!filter) {
    return std::nullopt;
  }
  const arguments rest = rest_of(*args.all, 1);
  values mapped;
  for (const value& item : *items) {
    maybe one = run.run_builtin(*filter, item, rest);
    if (!one) {
      return std::nullopt;
    }
    mapped.push_back(std::move(*one));
  }
  return run.make_list(std::move(mapped));
}

// select, reject, selectattr and rejectattr. Without a test, the item's truth decides.
template <bool IsWanted, bool HasAttribute>
maybe filter_select(interpreter& run, const value& self, const bound_arguments& args) {
  const auto items = items_if_true(run, self);
  constexpr std::size_t test_at = HasAttribute ? 1 : 0;
  if (!items) {
    return std::nullopt;
  }
  const builtin* test = nullptr;
  if (args.all->positional.size() > test_at) {
    test = named_builtin(run, *args.all, test_at, find_test);
    if (!test) {
      return std::nullopt;
    }
  }
  const arguments rest = rest_of(*args.all, test_at + 1);
  values selected;
  for (const value& item : *items) {
    const value* attribute = HasAttribute ? &args.all->positional[0] : nullptr;
    maybe tested = key_of(run, item, attribute, /*is_case_sensitive=*/true);
    if (tested && test) {
      tested = run.run_builtin(*test, *tested, rest);
    }
    if (!tested) {
      return std::nullopt;
    }
    if (is_true(*tested) == IsWanted) {
      selected.push_back(item);
    }
  }
  return run.make_list(std::move(selected));
}

// Only the attribute; unlike a dot, it does not find a dict's items.
maybe filter_attr(interpreter& run, const value& self, const bound_arguments& args) {
  const maybe name = to_text(run, *args[0]);
  if (!name) {
    return std::nullopt;
  }
  const std::string& text = name->as_text().text();
  if (self.is(value_kind::map) && !find_method(self.type(), text)) {
    return run.make_undefined(fmt::format("a dict has no attribute '{}'", text));
  }
  return run.attribute_of(self, text);
}

constexpr builtin list_filters_table[] = {
    {"attr", "name", 1, filter_attr},
    {"count", "", 0, filter_length},
    {"dictsort", "case_sensitive,by,reverse", 0, filter_dictsort},
    {"first", "", 0, filter_first},
    {"items", "", 0, filter_items},
    {"join", "d,attribute", 0, filter_join},
    {"last", "", 0, filter_last},
    {"length", "", 0, filter_length},
    {"list", "", 0, filter_list},
    {"map", "*", 0, filter_map},
    {"max", "case_sensitive,attribute", 0, filter_extreme<true>},
    {"min", "case_sensitive,attribute", 0, filter_extreme<false>},
    {"reject", "*", 0, filter_select<false, false>},
    {"rejectattr", "*", 1, filter_select<false, true>},
    {"reverse", "", 0, filter_reverse},
    {"select", "*", 0, filter_select<true, false>},
    {"selectattr", "*", 1, filter_select<true, true>},
    {"sort", "reverse,case_sensitive,attribute", 0, filter_sort},
    {"sum", "attribute,start", 0, filter_sum},
    {"unique", "case_sensitive,attribute", 0, filter_unique},
};

} // namespace

std::span<const builtin> list_filters() noexcept {
  return list_filters_table;
}

} // namespace baton::text::jinja
