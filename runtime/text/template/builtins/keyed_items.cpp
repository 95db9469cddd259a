#include "runtime/text/template/builtins/keyed_items.hpp"

#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/print.hpp"
#include "runtime/text/template/text_operations.hpp"

#include <algorithm>

namespace baton::text::jinja {

maybe key_of(interpreter& run, const value& item, const value* attribute, bool is_case_sensitive,
             const value* preset) {
  maybe key = item;
  if (attribute && !attribute->is(value_kind::none)) {
    const maybe path = to_text(run, *attribute);
    key = path ? run.path_of(item, path->as_text().text(), preset) : std::nullopt;
  }
  if (key && !is_case_sensitive && key->is(value_kind::string)) {
    return to_lower(run, key->as_text());
  }
  return key;
}

std::optional<std::vector<keyed>> keys_of(interpreter& run, const value& self,
                                          const value* attribute, bool is_case_sensitive,
                                          const value* preset) {
  auto items = run.items_of(self);
  if (!items) {
    return std::nullopt;
  }
  std::vector<keyed> all;
  for (value& item : *items) {
    maybe key = key_of(run, item, attribute, is_case_sensitive, preset);
    if (!key) {
      return std::nullopt;
    }
    all.push_back({std::move(*key), std::move(item)});
  }
  return all;
}

bool sort_keyed(interpreter& run, std::vector<keyed>& all, bool is_reverse) {
  const auto is_before = [&](const keyed& a, const keyed& b) {
    // After a failure all comparisons return "equal", which ends the sorting.
    const auto order = run.has_failed() ? std::nullopt : order_of(run, a.key, b.key);
    return order && (is_reverse ? *order > 0 : *order < 0);
  };
  std::stable_sort(all.begin(), all.end(), is_before);
  return !run.has_failed();
}

} // namespace baton::text::jinja
