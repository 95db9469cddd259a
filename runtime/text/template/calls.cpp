// Calls: built-in functions with named parameters, and macros.
#include "runtime/text/template/depth_guard.hpp"
#include "runtime/text/template/interpreter.hpp"

#include <algorithm>

namespace baton::text::jinja {

namespace {

// The index of `name` in "a,b,c".
std::optional<std::size_t> parameter_index(std::string_view parameters, std::string_view name) {
  for (std::size_t i = 0; !parameters.empty(); ++i) {
    const std::size_t comma = std::min(parameters.find(','), parameters.size());
    if (parameters.substr(0, comma) == name) {
      return i;
    }
    parameters.remove_prefix(std::min(comma + 1, parameters.size()));
  }
  return std::nullopt;
}

std::size_t parameter_count(std::string_view parameters) {
  return parameters.empty()
             ? 0
             : 1 + static_cast<std::size_t>(std::count(parameters.begin(), parameters.end(), ','));
}

} // namespace

maybe interpreter::call(const value& callee, arguments all) {
  if (callee.is(value_kind::undefined)) {
    return fail("{}", callee.about());
  }
  if (callee.is(value_kind::loop_object)) {
    return call_loop(callee.as_loop(), all);
  }
  if (callee.is(value_kind::namespace_object) &&
      callee.as_namespace().is == namespace_object::role::joiner) {
    return call_joiner(callee.as_namespace(), all);
  }
  if (!callee.is(value_kind::callable)) {
    return fail("a {} cannot be called", name_of(callee.type()));
  }
  const callable& c = callee.as_callable();
  return c.function ? run_builtin(*c.function, c.self, all) : call_macro(c, std::move(all));
}

maybe interpreter::run_builtin(const builtin& function, const value& self, const arguments& all) {
  const depth_guard level(*this);
  if (!level || !spend(1)) {
    return std::nullopt;
  }
  bound_arguments bound;
  bound.all = &all;
  if (function.parameters == "*") {
    if (all.positional.size() < function.required) {
      return fail("'{}' needs {} arguments", function.name, function.required);
    }
    return function.run(*this, self, bound);
  }
  const std::size_t count = parameter_count(function.parameters);
  if (all.positional.size() > count) {
    return fail("'{}' takes at most {} arguments, not {}", function.name, count,
                all.positional.size());
  }
  for (std::size_t i = 0; i < all.positional.size(); ++i) {
    bound.slots[i] = &all.positional[i];
  }
  for (const auto& [marked_name, item] : all.named) {
    const std::string& name = marked_name.text();
    const auto i = parameter_index(function.parameters, name);
    if (!i) {
      return fail("'{}' has no parameter '{}'", function.name, name);
    }
    if (bound.slots[*i]) {
      return fail("'{}' got '{}' twice", function.name, name);
    }
    bound.slots[*i] = &item;
  }
  for (std::size_t i = 0; i < function.required; ++i) {
    if (!bound.slots[i]) {
      return fail("'{}' needs {} arguments", function.name, function.required);
    }
  }
  return function.run(*this, self, bound);
}

// The first call returns nothing, later calls the separator.
maybe interpreter::call_joiner(namespace_object& joiner, const arguments& all) {
  if (!all.positional.empty() || !all.named.empty()) {
    return fail("a joiner takes no arguments");
  }
  return joiner.index++ == 0 ? value::trusted("") : joiner.items.front();
}

// A macro's output. It sees the variables of its definition, not of its call.
maybe interpreter::call_macro(const callable& c, arguments all) {
  scope& inner = enter(*c.closure);
  maybe text;
  if (bind_parameters(*c.macro, all, inner)) {
    text = capture(c.macro->body, inner).second;
  }
  leave(inner);
  return text;
}

bool interpreter::bind_parameters(const macro_definition& macro, arguments& all, scope& in) {
  const std::size_t given = std::min(all.positional.size(), macro.parameters.size());
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& parameter = macro.parameters[i];
    const auto named = std::find_if(all.named.begin(), all.named.end(), [&](const auto& n) {
      return n.first.text() == parameter.name;
    });
    maybe item;
    if (i < given) {
      if (named != all.named.end()) {
        return refuse("macro '{}' got '{}' twice", macro.name, parameter.name);
      }
      item = all.positional[i];
    } else if (named != all.named.end()) {
      item = std::move(named->second);
      all.named.erase(named);
    } else if (parameter.preset) {
      item = evaluate(*parameter.preset, in);
    } else {
      item = make_undefined(fmt::format("parameter '{}' was not provided", parameter.name));
    }
    if (!item || !set(in, parameter.name, std::move(*item))) {
      return false;
    }
  }
  all.positional.erase(all.positional.begin(),
                       all.positional.begin() + static_cast<std::ptrdiff_t>(given));
  return bind_rest(macro, all, in);
}

// `caller`, `varargs` and `kwargs` exist only in macros that use them.
bool interpreter::bind_rest(const macro_definition& macro, arguments& all, scope& in) {
  const auto caller = std::find_if(all.named.begin(), all.named.end(),
                                   [](const auto& n) { return n.first.text() == "caller"; });
  if (macro.uses_caller) {
    value item =
        caller != all.named.end() ? std::move(caller->second) : make_undefined("no caller defined");
    if (caller != all.named.end()) {
      all.named.erase(caller);
    }
    if (!set(in, "caller", std::move(item))) {
      return false;
    }
  }
  if (macro.uses_varargs) {
    maybe rest = make_list(std::move(all.positional), /*is_tuple=*/true);
    if (!rest || !set(in, "varargs", std::move(*rest))) {
      return false;
    }
  } else if (!all.positional.empty()) {
    return refuse("macro '{}' takes not more than {} arguments", macro.name,
                  macro.parameters.size());
  }
  if (macro.uses_kwargs) {
    std::vector<map_entry> entries;
    for (auto& [name, item] : all.named) {
      entries.push_back({value::marked(std::move(name)), std::move(item)});
    }
    maybe rest = make_map(std::move(entries));
    return rest && set(in, "kwargs", std::move(*rest));
  }
  return all.named.empty() ||
         refuse("macro '{}' has no parameter '{}'", macro.name, all.named.front().first.text());
}

} // namespace baton::text::jinja
