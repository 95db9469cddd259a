// Runs statements. A block stops at a break, a continue or a failure.
#include "runtime/text/template/depth_guard.hpp"
#include "runtime/text/template/interpreter.hpp"
#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/print.hpp"

#include <utility>

namespace baton::text::jinja {

namespace {

// Loops and the scopes around a macro stay until the rendering ends: about 200 bytes each.
constexpr std::size_t steps_per_loop = 8;
constexpr std::size_t steps_per_macro = 8;

} // namespace

result<marked_text>
interpreter::render(const syntax_tree& tree,
                    const std::vector<std::pair<std::string, value>>& variables) {
  scope& top = scopes_.emplace_back();
  for (const auto& [name, item] : variables) {
    if (item.depth() > value::depth_max) {
      return baton::fail(errc::template_failed, "'{}' nests deeper than {}", name,
                         value::depth_max);
    }
    if (!set(top, name, item)) {
      return *failure_;
    }
  }
  if (!put_blocks(tree, top) || run_block(tree.body, top) == flow::failed) {
    return *failure_;
  }
  return std::move(output_);
}

// Defines `self`, if the template reads it.
bool interpreter::put_blocks(const syntax_tree& tree, scope& top) {
  if (!tree.names.contains("self")) {
    return true;
  }
  namespace_object* self = new_namespace();
  if (!self) {
    return false;
  }
  self->is = namespace_object::role::blocks;
  for (const macro_definition* body : tree.blocks) {
    maybe made = make_macro(*body, top);
    if (!made) {
      return false;
    }
    self->attributes.emplace_back(body->name, std::move(*made));
  }
  return set(top, "self", value::of(self));
}

interpreter::flow interpreter::run_block(const block& body, scope& in) {
  const depth_guard level(*this);
  if (!level) {
    return flow::failed;
  }
  for (const statement& s : body) {
    line_ = s.line;
    if (!spend(1)) {
      return flow::failed;
    }
    const flow f = std::visit([&](const auto& form) { return run_form(form, in); }, s.form);
    if (f != flow::next) {
      return f;
    }
  }
  return flow::next;
}

interpreter::flow interpreter::run_form(const text_statement& form, scope&) {
  return append(*out_, form.text) ? flow::next : flow::failed;
}

interpreter::flow interpreter::run_form(const output_statement& form, scope& in) {
  const maybe item = evaluate(*form.item, in);
  return item && append_text(*this, *out_, *item) ? flow::next : flow::failed;
}

interpreter::flow interpreter::run_form(const if_statement& form, scope& in) {
  for (const auto& [test, body] : form.branches) {
    const maybe answer = evaluate(*test, in);
    if (!answer) {
      return flow::failed;
    }
    if (is_true(*answer)) {
      return run_block(body, in);
    }
  }
  return run_block(form.otherwise, in);
}

// The items that pass the loop's condition, which sees the loop's variables but not `loop`.
std::optional<std::vector<value>> interpreter::selected_items(const for_statement& form,
                                                              const value& iterable, scope& in) {
  auto items = items_of(iterable);
  if (!items || !form.condition) {
    return items;
  }
  std::vector<value> selected;
  for (value& item : *items) {
    scope& inner = enter(in);
    const maybe answer =
        assign(form.target, item, inner) ? evaluate(*form.condition, inner) : std::nullopt;
    leave(inner);
    if (!answer) {
      return std::nullopt;
    }
    if (is_true(*answer)) {
      selected.push_back(std::move(item));
    }
  }
  return selected;
}

interpreter::flow interpreter::run_form(const for_statement& form, scope& in) {
  const maybe iterable = evaluate(*form.iterable, in);
  if (!iterable || (form.is_recursive && !keep(in))) {
    return flow::failed;
  }
  return run_loop(form, *iterable, in, 1);
}

// loop(items): the output of the loop for these items.
maybe interpreter::call_loop(const loop_object& loop, const arguments& all) {
  if (!loop.recursion) {
    return fail("a loop must be 'recursive' to be called");
  }
  if (all.positional.size() != 1 || !all.named.empty()) {
    return fail("a recursive loop needs the items to iterate over");
  }
  marked_text text;
  marked_text* const around = std::exchange(out_, &text);
  const flow f = run_loop(*loop.recursion, all.positional.front(), *loop.around, loop.depth + 1);
  out_ = around;
  return f == flow::failed ? std::nullopt : make_text(std::move(text));
}

interpreter::flow interpreter::run_loop(const for_statement& form, const value& iterable, scope& in,
                                        std::int64_t depth) {
  auto items = selected_items(form, iterable, in);
  if (!items || !spend(items->size() + steps_per_loop)) {
    return flow::failed;
  }
  if (items->empty()) {
    scope& inner = enter(in);
    const flow f = run_block(form.otherwise, inner);
    leave(inner);
    return f;
  }
  loop_object& loop = loops_.emplace_back();
  loop.items = std::move(*items);
  loop.depth = depth;
  if (form.is_recursive) {
    loop.recursion = &form;
    loop.around = &in;
  }
  for (; loop.index < loop.items.size(); ++loop.index) {
    scope& inner = enter(in);
    flow f = flow::failed;
    if (set(inner, "loop", value::of(&loop)) &&
        assign(form.target, loop.items[loop.index], inner)) {
      f = run_block(form.body, inner);
    }
    leave(inner);
    if (f == flow::failed) {
      return f;
    }
    if (f == flow::break_loop) {
      break;
    }
  }
  return flow::next;
}

bool interpreter::assign(const assign_target& target, const value& item, scope& in) {
  if (!target.items.empty()) {
    const auto items = items_of(item);
    if (!items) {
      return false;
    }
    if (items->size() != target.items.size()) {
      return refuse("cannot unpack {} values into {} names", items->size(), target.items.size());
    }
    for (std::size_t i = 0; i < items->size(); ++i) {
      if (!assign(target.items[i], (*items)[i], in)) {
        return false;
      }
    }
    return true;
  }
  if (target.attribute.empty()) {
    return set(in, target.name, item);
  }
  const maybe object = find_variable(in, target.name);
  if (!object) {
    return false;
  }
  if (!object->is(value_kind::namespace_object) ||
      object->as_namespace().is != namespace_object::role::names) {
    return refuse("cannot assign attribute '{}' of a {}: only a namespace's can be assigned",
                  target.attribute, name_of(object->type()));
  }
  auto& attributes = object->as_namespace().attributes;
  if (!spend(1 + attributes.size() / 8)) {
    return false;
  }
  for (auto& [name, old] : attributes) {
    if (name == target.attribute) {
      old = item;
      return true;
    }
  }
  attributes.emplace_back(target.attribute, item);
  return true;
}

interpreter::flow interpreter::run_form(const set_statement& form, scope& in) {
  const maybe item = evaluate(*form.item, in);
  return item && assign(form.target, *item, in) ? flow::next : flow::failed;
}

std::pair<interpreter::flow, maybe> interpreter::capture(const block& body, scope& in) {
  marked_text text;
  marked_text* const around = std::exchange(out_, &text);
  const flow f = run_block(body, in);
  out_ = around;
  return {f, f == flow::failed ? std::nullopt : make_text(std::move(text))};
}

maybe interpreter::filtered(const std::vector<filter_call>& filters, value item, scope& in) {
  maybe current = std::move(item);
  for (const filter_call& f : filters) {
    line_ = f.line;
    arguments all;
    if (!evaluate_arguments(f.arguments, in, all)) {
      return std::nullopt;
    }
    current = run_builtin(*f.filter, *current, all);
    if (!current) {
      return std::nullopt;
    }
  }
  return current;
}

interpreter::flow interpreter::run_form(const set_block_statement& form, scope& in) {
  scope& inner = enter(in);
  auto [f, text] = capture(form.body, inner);
  const maybe item = text ? filtered(form.filters, std::move(*text), inner) : std::nullopt;
  leave(inner);
  return item && assign(form.target, *item, in) ? f : flow::failed;
}

bool interpreter::keep(scope& in) {
  if (!spend(steps_per_macro)) {
    return false;
  }
  for (scope* s = &in; s && !s->is_captured; s = s->parent) {
    s->is_captured = true;
  }
  return true;
}

maybe interpreter::make_macro(const macro_definition& macro, scope& in) {
  if (!keep(in)) {
    return std::nullopt;
  }
  return value::of(std::make_shared<const callable>(
      callable{.name = macro.name, .self = {}, .macro = &macro, .closure = &in}));
}

interpreter::flow interpreter::run_form(const macro_statement& form, scope& in) {
  maybe macro = make_macro(form.macro, in);
  return macro && set(in, form.macro.name, std::move(*macro)) ? flow::next : flow::failed;
}

// Variables set inside stay inside. The template's own variables are in the first scope.
interpreter::flow interpreter::run_form(const block_statement& form, scope& in) {
  if (form.is_required) {
    fail("the block '{}' is required, but no template fills it", form.macro.name);
    return flow::failed;
  }
  scope& inner = enter(form.is_scoped ? in : scopes_.front());
  const flow f = run_block(form.macro.body, inner);
  leave(inner);
  return f;
}

interpreter::flow interpreter::run_form(const call_statement& form, scope& in) {
  const auto& call_parts = std::get<call_form>(form.call->form);
  const maybe callee = evaluate(*call_parts.callee, in);
  arguments all;
  if (!callee || !evaluate_arguments(call_parts.arguments, in, all)) {
    return flow::failed;
  }
  maybe caller = make_macro(form.caller, in);
  if (!caller) {
    return flow::failed;
  }
  all.named.emplace_back(marked_text::trusted("caller"), std::move(*caller));
  const maybe text = call(*callee, std::move(all));
  return text && append_text(*this, *out_, *text) ? flow::next : flow::failed;
}

interpreter::flow interpreter::run_form(const filter_statement& form, scope& in) {
  scope& inner = enter(in);
  auto [f, text] = capture(form.body, inner);
  const maybe item = text ? filtered(form.filters, std::move(*text), inner) : std::nullopt;
  leave(inner);
  return item && append_text(*this, *out_, *item) ? f : flow::failed;
}

interpreter::flow interpreter::run_form(const with_statement& form, scope& in) {
  scope& inner = enter(in);
  flow f = flow::next;
  for (const auto& [target, expr] : form.bindings) {
    const maybe item = evaluate(*expr, in);
    if (!item || !assign(target, *item, inner)) {
      f = flow::failed;
      break;
    }
  }
  f = f == flow::next ? run_block(form.body, inner) : f;
  leave(inner);
  return f;
}

interpreter::flow interpreter::run_form(const break_statement&, scope&) {
  return flow::break_loop;
}

interpreter::flow interpreter::run_form(const continue_statement&, scope&) {
  return flow::continue_loop;
}

} // namespace baton::text::jinja
