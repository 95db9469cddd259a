// Items with their comparison keys, for sort, min, max, unique and groupby.
#pragma once

#include "runtime/text/template/interpreter.hpp"

#include <optional>
#include <vector>

namespace baton::text::jinja {

// The item or a part of it, in lower case unless case-sensitive. `preset` replaces an undefined
// part.
maybe key_of(interpreter& run, const value& item, const value* attribute, bool is_case_sensitive,
             const value* preset = nullptr);

struct keyed {
  value key;
  value item;
};

// Keys of the items of `self`. nullopt after a failure.
std::optional<std::vector<keyed>> keys_of(interpreter& run, const value& self,
                                          const value* attribute, bool is_case_sensitive,
                                          const value* preset = nullptr);

// Stable, like Python's sort. False if two keys have no order.
bool sort_keyed(interpreter& run, std::vector<keyed>& all, bool is_reverse);

} // namespace baton::text::jinja
