// Items with what they are compared by: what sort, min, max, unique and groupby have in common.
#pragma once

#include "runtime/text/template/interpreter.hpp"

#include <optional>
#include <vector>

namespace baton::text::jinja {

// The item or a part of it, in small letters unless cases differ. `preset` stands for a part that
// is undefined.
maybe key_of(interpreter& run, const value& item, const value* attribute, bool is_case_sensitive,
             const value* preset = nullptr);

struct keyed {
  value key;
  value item;
};

// Of what `self` has. Nothing after a failure.
std::optional<std::vector<keyed>> keys_of(interpreter& run, const value& self,
                                          const value* attribute, bool is_case_sensitive,
                                          const value* preset = nullptr);

// Stable, as Python's. False if two keys have no order.
bool sort_keyed(interpreter& run, std::vector<keyed>& all, bool is_reverse);

} // namespace baton::text::jinja
