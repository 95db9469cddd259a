// One rendering: its variables, output, budget and failure. chat_template creates one per render(),
// and the built-in functions use it. Everything that can grow or recurse checks its budget first.
//
// The first failure is kept; every function above it returns nullopt (or false).
#pragma once

#include "runtime/text/template/chat_template.hpp"
#include "runtime/text/template/syntax/syntax.hpp"
#include "runtime/text/template/values/builtins.hpp"
#include "runtime/text/template/values/callable.hpp"

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::text::jinja {

using value_kind = value::kind;

class interpreter {
public:
  interpreter(const template_limits& limits, std::optional<std::chrono::sys_seconds> now)
      : limits_(limits), now_(now) {}

  // Once per interpreter. Requires: `variables` outlives the call.
  result<marked_text> render(const syntax_tree& tree,
                             const std::vector<std::pair<std::string, value>>& variables);

  // Budget and failure (budget.cpp).
  [[nodiscard]] bool spend(std::size_t steps);
  // For text that is read or written.
  [[nodiscard]] bool spend_bytes(std::size_t bytes) { return spend(1 + bytes / 32); }
  template <class... Args>
  std::nullopt_t fail(fmt::format_string<Args...> text, Args&&... args) {
    record_failure(fmt::format(text, std::forward<Args>(args)...));
    return std::nullopt;
  }
  template <class... Args>
  [[nodiscard]] bool refuse(fmt::format_string<Args...> text, Args&&... args) {
    record_failure(fmt::format(text, std::forward<Args>(args)...));
    return false;
  }
  bool has_failed() const { return failure_.has_value(); }
  const template_limits& limits() const { return limits_; }
  const std::optional<std::chrono::sys_seconds>& now() const { return now_; }

  // Creates values within the limits (budget.cpp).
  maybe make_text(marked_text text);
  maybe make_list(std::vector<value> items, bool is_tuple = false);
  maybe make_map(std::vector<map_entry> entries);
  value make_undefined(std::string about);
  namespace_object* new_namespace(); // null on failure
  // Appends to a text under construction.
  [[nodiscard]] bool append(marked_text& out, const marked_text& piece) {
    return append(out, piece, 0, piece.size());
  }
  [[nodiscard]] bool append(marked_text& out, const marked_text& piece, std::size_t begin,
                            std::size_t end);
  [[nodiscard]] bool append_trusted(marked_text& out, std::string_view piece);
  [[nodiscard]] bool append_repeated(marked_text& out, const marked_text& piece,
                                     std::int64_t times);
  // False if the length exceeds the limit.
  [[nodiscard]] bool check_text_size(std::size_t bytes);

  // Parts of values (access.cpp).
  maybe attribute_of(const value& object, std::string_view name);
  maybe item_of(const value& object, const value& key);
  // Follows a path such as `a.b.0`, the notation of map(attribute=) and sort(attribute=). If
  // `preset` is given, it replaces an undefined part.
  maybe path_of(const value& object, std::string_view path, const value* preset = nullptr);
  // The values that `for` visits: items, keys or characters.
  std::optional<std::vector<value>> items_of(const value& container);
  maybe slice_of(const value& object, const value& start, const value& stop, const value& step);

  // Calls (calls.cpp).
  maybe call(const value& callee, arguments all);
  maybe run_builtin(const builtin& function, const value& self, const arguments& all);

private:
  enum class flow { next, break_loop, continue_loop, failed };

  void record_failure(std::string message);

  // Statements (statements.cpp).
  flow run_block(const block& body, scope& in);
  flow run_form(const text_statement& form, scope& in);
  flow run_form(const output_statement& form, scope& in);
  flow run_form(const if_statement& form, scope& in);
  flow run_form(const for_statement& form, scope& in);
  flow run_form(const set_statement& form, scope& in);
  flow run_form(const set_block_statement& form, scope& in);
  flow run_form(const macro_statement& form, scope& in);
  flow run_form(const block_statement& form, scope& in);
  flow run_form(const call_statement& form, scope& in);
  flow run_form(const filter_statement& form, scope& in);
  flow run_form(const with_statement& form, scope& in);
  flow run_form(const break_statement& form, scope& in);
  flow run_form(const continue_statement& form, scope& in);
  flow run_loop(const for_statement& form, const value& iterable, scope& in, std::int64_t depth);
  maybe call_loop(const loop_object& loop, const arguments& all);
  std::optional<std::vector<value>> selected_items(const for_statement& form, const value& iterable,
                                                   scope& in);
  bool put_blocks(const syntax_tree& tree, scope& top);
  // Keeps a scope that is referenced beyond its block.
  bool keep(scope& in);
  bool assign(const assign_target& target, const value& item, scope& in);
  // The block's output, and how it ended.
  std::pair<flow, maybe> capture(const block& body, scope& in);
  maybe filtered(const std::vector<filter_call>& filters, value item, scope& in);
  maybe make_macro(const macro_definition& macro, scope& in);

  // Variables (scopes.cpp).
  scope& enter(scope& parent);
  void leave(scope& s);
  bool set(scope& in, std::string_view name, value item);
  maybe find_variable(scope& in, std::string_view name);

  // Expressions (expressions.cpp).
  maybe evaluate(const expression& e, scope& in);
  maybe evaluate_form(const literal_form& form, scope& in);
  maybe evaluate_form(const name_form& form, scope& in);
  maybe evaluate_form(const sequence_form& form, scope& in);
  maybe evaluate_form(const map_form& form, scope& in);
  maybe evaluate_form(const unary_form& form, scope& in);
  maybe evaluate_form(const binary_form& form, scope& in);
  maybe evaluate_form(const logical_form& form, scope& in);
  maybe evaluate_form(const concat_form& form, scope& in);
  maybe evaluate_form(const compare_form& form, scope& in);
  maybe evaluate_form(const conditional_form& form, scope& in);
  maybe evaluate_form(const attribute_form& form, scope& in);
  maybe evaluate_form(const subscript_form& form, scope& in);
  maybe evaluate_form(const slice_form& form, scope& in);
  maybe evaluate_form(const call_form& form, scope& in);
  maybe evaluate_form(const filter_form& form, scope& in);
  maybe evaluate_form(const test_form& form, scope& in);
  bool evaluate_arguments(const std::vector<argument_form>& forms, scope& in, arguments& all);

  // calls.cpp
  maybe call_macro(const callable& c, arguments all);
  maybe call_joiner(namespace_object& joiner, const arguments& all);
  bool bind_parameters(const macro_definition& macro, arguments& all, scope& in);
  bool bind_rest(const macro_definition& macro, arguments& all, scope& in);

  template_limits limits_;
  std::optional<std::chrono::sys_seconds> now_;
  std::optional<error> failure_;
  std::size_t steps_ = 0;
  std::size_t depth_ = 0;
  int line_ = 1; // of the current evaluation, for messages
  marked_text output_;
  marked_text* out_ = &output_; // where statements write
  // Owned for the whole rendering, so that values may point to them.
  std::deque<scope> scopes_;
  std::vector<scope*> free_scopes_;
  std::deque<namespace_object> namespaces_;
  std::deque<loop_object> loops_;

  friend struct depth_guard;
};

} // namespace baton::text::jinja
