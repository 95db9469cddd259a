// Evaluates expressions.
#include "runtime/text/template/depth_guard.hpp"
#include "runtime/text/template/interpreter.hpp"
#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/print.hpp"

namespace baton::text::jinja {

maybe interpreter::evaluate(const expression& e, scope& in) {
  const depth_guard level(*this);
  if (!level || !spend(1)) {
    return std::nullopt;
  }
  line_ = e.line;
  return std::visit([&](const auto& form) { return evaluate_form(form, in); }, e.form);
}

maybe interpreter::evaluate_form(const literal_form& form, scope&) {
  return form.constant;
}

maybe interpreter::evaluate_form(const name_form& form, scope& in) {
  return find_variable(in, form.name);
}

maybe interpreter::evaluate_form(const sequence_form& form, scope& in) {
  std::vector<value> items;
  items.reserve(form.items.size());
  for (const auto& item : form.items) {
    maybe v = evaluate(*item, in);
    if (!v) {
      return std::nullopt;
    }
    items.push_back(std::move(*v));
  }
  return make_list(std::move(items), form.is_tuple);
}

maybe interpreter::evaluate_form(const map_form& form, scope& in) {
  std::vector<map_entry> entries;
  for (const auto& [key_form, item_form] : form.entries) {
    maybe key = evaluate(*key_form, in);
    maybe item = key ? evaluate(*item_form, in) : std::nullopt;
    if (!item) {
      return std::nullopt;
    }
    entries.push_back({std::move(*key), std::move(*item)});
  }
  return make_map(std::move(entries));
}

maybe interpreter::evaluate_form(const unary_form& form, scope& in) {
  const maybe operand = evaluate(*form.operand, in);
  if (!operand) {
    return std::nullopt;
  }
  if (form.op == unary_operator::logical_not) {
    return value::boolean(!is_true(*operand));
  }
  return signed_value(*this, *operand, form.op == unary_operator::minus);
}

maybe interpreter::evaluate_form(const binary_form& form, scope& in) {
  const maybe left = evaluate(*form.left, in);
  const maybe right = left ? evaluate(*form.right, in) : std::nullopt;
  return right ? calculate(*this, form.op, *left, *right) : std::nullopt;
}

maybe interpreter::evaluate_form(const logical_form& form, scope& in) {
  maybe left = evaluate(*form.left, in);
  if (!left || is_true(*left) == form.is_or) {
    return left;
  }
  return evaluate(*form.right, in);
}

maybe interpreter::evaluate_form(const concat_form& form, scope& in) {
  marked_text text;
  for (const auto& part : form.parts) {
    const maybe item = evaluate(*part, in);
    if (!item || !append_text(*this, text, *item)) {
      return std::nullopt;
    }
  }
  return make_text(std::move(text));
}

maybe interpreter::evaluate_form(const compare_form& form, scope& in) {
  maybe left = evaluate(*form.first, in);
  bool answer = true;
  for (std::size_t i = 0; left && answer && i < form.rest.size(); ++i) {
    maybe right = evaluate(*form.rest[i].second, in);
    const auto one = right ? compare(*this, form.rest[i].first, *left, *right) : std::nullopt;
    if (!one) {
      return std::nullopt;
    }
    answer = *one;
    left = std::move(right);
  }
  return left ? maybe(value::boolean(answer)) : std::nullopt;
}

maybe interpreter::evaluate_form(const conditional_form& form, scope& in) {
  const maybe test = evaluate(*form.test, in);
  if (!test) {
    return std::nullopt;
  }
  if (is_true(*test)) {
    return evaluate(*form.then, in);
  }
  return form.otherwise ? evaluate(*form.otherwise, in)
                        : maybe(make_undefined("the inline if has no else and its test is false"));
}

maybe interpreter::evaluate_form(const attribute_form& form, scope& in) {
  const maybe object = evaluate(*form.object, in);
  return object ? attribute_of(*object, form.name) : std::nullopt;
}

maybe interpreter::evaluate_form(const subscript_form& form, scope& in) {
  const maybe object = evaluate(*form.object, in);
  const maybe index = object ? evaluate(*form.index, in) : std::nullopt;
  return index ? item_of(*object, *index) : std::nullopt;
}

maybe interpreter::evaluate_form(const slice_form& form, scope& in) {
  const auto bound = [&](const expression_ptr& e) { return e ? evaluate(*e, in) : value::none(); };
  const maybe object = evaluate(*form.object, in);
  const maybe start = object ? bound(form.start) : std::nullopt;
  const maybe stop = start ? bound(form.stop) : std::nullopt;
  const maybe step = stop ? bound(form.step) : std::nullopt;
  return step ? slice_of(*object, *start, *stop, *step) : std::nullopt;
}

maybe interpreter::evaluate_form(const call_form& form, scope& in) {
  const maybe callee = evaluate(*form.callee, in);
  arguments all;
  if (!callee || !evaluate_arguments(form.arguments, in, all)) {
    return std::nullopt;
  }
  return call(*callee, std::move(all));
}

maybe interpreter::evaluate_form(const filter_form& form, scope& in) {
  const maybe operand = evaluate(*form.operand, in);
  arguments all;
  if (!operand || !evaluate_arguments(form.call.arguments, in, all)) {
    return std::nullopt;
  }
  return run_builtin(*form.call.filter, *operand, all);
}

maybe interpreter::evaluate_form(const test_form& form, scope& in) {
  const maybe operand = evaluate(*form.operand, in);
  arguments all;
  if (!operand || !evaluate_arguments(form.arguments, in, all)) {
    return std::nullopt;
  }
  const maybe answer = run_builtin(*form.test, *operand, all);
  return answer ? maybe(value::boolean(is_true(*answer) != form.is_negated)) : std::nullopt;
}

bool interpreter::evaluate_arguments(const std::vector<argument_form>& forms, scope& in,
                                     arguments& all) {
  for (const argument_form& form : forms) {
    maybe item = evaluate(*form.item, in);
    if (!item) {
      return false;
    }
    if (form.type == argument_form::kind::positional) {
      all.positional.push_back(std::move(*item));
    } else if (form.type == argument_form::kind::named) {
      all.named.emplace_back(marked_text::trusted(form.name), std::move(*item));
    } else if (form.type == argument_form::kind::unpacked_list) {
      auto items = items_of(*item);
      if (!items) {
        return false;
      }
      all.positional.insert(all.positional.end(), items->begin(), items->end());
    } else {
      if (!item->is(value_kind::map)) {
        return refuse("the argument after ** must be a mapping, not {}", name_of(item->type()));
      }
      for (const map_entry& e : item->as_map()) {
        if (!e.key.is(value_kind::string) || !spend_bytes(e.key.as_text().size())) {
          return has_failed() ? false : refuse("keywords must be strings");
        }
        all.named.emplace_back(e.key.as_text(), e.item);
      }
    }
  }
  return true;
}

} // namespace baton::text::jinja
