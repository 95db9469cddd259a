// Filters that divide a sequence: batch, slice, groupby.
#include "runtime/text/template/builtins/keyed_items.hpp"
#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/text_operations.hpp"

#include <algorithm>

namespace baton::text::jinja {

namespace {

using values = std::vector<value>;

std::optional<std::size_t> count_argument(interpreter& run, const value* v, std::string_view of) {
  const auto count = whole_argument(run, v, 0);
  if (count && (*count < 1 || static_cast<std::uint64_t>(*count) > run.limits().items_max)) {
    run.fail("{} needs a count from 1 to {}", of, run.limits().items_max);
    return std::nullopt;
  }
  return count ? std::optional(static_cast<std::size_t>(*count)) : std::nullopt;
}

bool add_part(interpreter& run, values& parts, const values& of, std::size_t begin, std::size_t end,
              const value* fill, std::size_t filled_to) {
  values part(of.begin() + static_cast<std::ptrdiff_t>(begin),
              of.begin() + static_cast<std::ptrdiff_t>(end));
  if (fill && !fill->is(value_kind::none) && part.size() < filled_to) {
    part.resize(filled_to, *fill);
  }
  maybe one = run.make_list(std::move(part));
  if (one) {
    parts.push_back(std::move(*one));
  }
  return one.has_value();
}

// Rows of `count` items; the last one is padded if a fill value is given.
maybe filter_batch(interpreter& run, const value& self, const bound_arguments& args) {
  const auto items = run.items_of(self);
  const auto width = items ? count_argument(run, args[0], "batch") : std::nullopt;
  values rows;
  for (std::size_t at = 0; width && at < items->size(); at += *width) {
    if (!add_part(run, rows, *items, at, std::min(items->size(), at + *width), args[1], *width)) {
      return std::nullopt;
    }
  }
  return width ? run.make_list(std::move(rows)) : std::nullopt;
}

// Divides into `slices` columns. The first ones are longer by one item; the others are padded.
maybe filter_slice(interpreter& run, const value& self, const bound_arguments& args) {
  const auto items = run.items_of(self);
  const auto count = items ? count_argument(run, args[0], "slice") : std::nullopt;
  if (!count) {
    return std::nullopt;
  }
  const std::size_t least = items->size() / *count;
  const std::size_t longer = items->size() % *count;
  values columns;
  std::size_t at = 0;
  for (std::size_t i = 0; i < *count; ++i) {
    const std::size_t end = at + least + (i < longer ? 1 : 0);
    const value* fill = i < longer ? nullptr : args[1];
    if (!add_part(run, columns, *items, at, end, fill, end - at + 1)) {
      return std::nullopt;
    }
    at = end;
  }
  return run.make_list(std::move(columns));
}

// A group is named by the original key of its first item.
maybe group_of(interpreter& run, values items, const bound_arguments& args) {
  maybe grouper = key_of(run, items.front(), args[0], /*is_case_sensitive=*/true, args[1]);
  maybe list = grouper ? run.make_list(std::move(items)) : std::nullopt;
  if (!list || !run.spend(1)) {
    return std::nullopt;
  }
  value group = value::group(std::move(*grouper), std::move(*list));
  if (group.depth() > value::depth_max) {
    return run.fail("values nest deeper than {}", value::depth_max);
  }
  return group;
}

maybe filter_groupby(interpreter& run, const value& self, const bound_arguments& args) {
  auto all = keys_of(run, self, args[0], flag_argument(args[2], false), args[1]);
  if (!all || !sort_keyed(run, *all, /*is_reverse=*/false)) {
    return std::nullopt;
  }
  values groups;
  for (std::size_t i = 0; i < all->size();) {
    const value& key = (*all)[i].key;
    values items;
    std::optional<bool> same = true;
    std::size_t end = i;
    while (same && *same) {
      items.push_back((*all)[end].item);
      same = ++end < all->size() ? equals(run, key, (*all)[end].key) : false;
    }
    maybe group = same ? group_of(run, std::move(items), args) : std::nullopt;
    if (!group) {
      return std::nullopt;
    }
    groups.push_back(std::move(*group));
    i = end;
  }
  return run.make_list(std::move(groups));
}

constexpr builtin group_filters_table[] = {
    {"batch", "linecount,fill_with", 1, filter_batch},
    {"groupby", "attribute,default,case_sensitive", 1, filter_groupby},
    {"slice", "slices,fill_with", 1, filter_slice},
};

} // namespace

std::span<const builtin> group_filters() noexcept {
  return group_filters_table;
}

} // namespace baton::text::jinja
