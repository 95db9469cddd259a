// Variables: a chain of scopes, searched from the innermost outward. A scope returns to the free
// list when its block ends, unless a macro was defined in it.
#include "runtime/text/template/interpreter.hpp"

#include <algorithm>

namespace baton::text::jinja {

scope& interpreter::enter(scope& parent) {
  scope* s = nullptr;
  if (free_scopes_.empty()) {
    s = &scopes_.emplace_back();
  } else {
    s = free_scopes_.back();
    free_scopes_.pop_back();
  }
  s->parent = &parent;
  return *s;
}

void interpreter::leave(scope& s) {
  if (!s.is_captured) {
    s.variables.clear();
    free_scopes_.push_back(&s);
  }
}

bool interpreter::set(scope& in, std::string_view name, value item) {
  if (!spend(1 + in.variables.size() / 8)) {
    return false;
  }
  const auto found = std::find_if(in.variables.begin(), in.variables.end(),
                                  [&](const auto& v) { return v.first == name; });
  if (found != in.variables.end()) {
    found->second = std::move(item);
  } else {
    in.variables.emplace_back(name, std::move(item));
  }
  return true;
}

maybe interpreter::find_variable(scope& in, std::string_view name) {
  for (const scope* s = &in; s; s = s->parent) {
    if (!spend(1 + s->variables.size() / 8)) {
      return std::nullopt;
    }
    for (const auto& [variable, item] : s->variables) {
      if (variable == name) {
        return item;
      }
    }
  }
  const builtin* function = find_function(name);
  if (function && (now_ || name != "strftime_now")) {
    return value::of(std::make_shared<const callable>(
        callable{.name = function->name, .function = function, .self = {}}));
  }
  return make_undefined(fmt::format("'{}' is undefined", name));
}

} // namespace baton::text::jinja
