// Statements: one function per tag. Tags that need several templates, or extensions that Hugging
// Face's environment lacks, are refused by name.
#include "runtime/text/template/syntax/parser.hpp"

#include "runtime/text/template/syntax/expression_parser.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <type_traits>

namespace baton::text::jinja {

bool token_reader::fail_expected(std::string_view what) {
  switch (peek().type) {
  case token::kind::end:
    return fail_here("expected {}, found the end of the template", what);
  case token::kind::block_end:
    return fail_here("expected {}, found '%}}'", what);
  case token::kind::output_end:
    return fail_here("expected {}, found '}}}}'", what);
  default:
    return fail_here("expected {}, found '{}'", what, peek().text);
  }
}

namespace {

using closers = std::initializer_list<std::string_view>;

class statement_parser {
public:
  explicit statement_parser(token_reader& in) : in_(in), expressions_(in) {}

  // Parses statements up to `{% word` with a word of `ends` (the word is not consumed), or to the
  // end of the source if `ends` is empty.
  bool parse_block(block& body, closers ends);
  std::set<std::string, std::less<>> take_names() { return std::move(expressions_.names); }

private:
  bool parse_tag(block& body, closers ends);
  bool parse_if(block& body);
  bool parse_for(block& body);
  bool parse_set(block& body);
  bool parse_macro(block& body);
  bool parse_call(block& body);
  bool parse_filter(block& body);
  bool parse_with(block& body);
  bool parse_generation(block& body);
  bool parse_named_block(block& body);
  bool parse_autoescape(block& body);
  bool parse_jump(block& body, bool is_break);
  bool parse_macro_body(macro_definition& macro, std::string_view end);
  bool parse_parameters(macro_definition& macro);
  bool end_tag() { return in_.expect(token::kind::block_end, "'%}'"); }
  // `{% word %}` closes the current block.
  bool close(std::string_view word) { return in_.expect_name(word) && end_tag(); }
  template <class Form>
  bool add(block& body, int line, Form form) {
    body.push_back(statement{line, std::move(form)});
    return true;
  }

  token_reader& in_;
  expression_parser expressions_;
  std::size_t loops_ = 0; // around the current statement, in the same macro
  std::set<std::string, std::less<>> blocks_;
};

bool statement_parser::parse_block(block& body, closers ends) {
  const nesting level(in_);
  if (!level) {
    return false;
  }
  while (true) {
    const int line = in_.line();
    switch (in_.peek().type) {
    case token::kind::end:
      return ends.size() == 0 || in_.fail_expected(fmt::format("'{}'", *(ends.end() - 1)));
    case token::kind::data:
      add(body, line, text_statement{marked_text::trusted(in_.next().text)});
      break;
    case token::kind::output_begin: {
      in_.next();
      expression_ptr item = expressions_.parse_tuple();
      if (!item || !in_.expect(token::kind::output_end, "'}}'")) {
        return false;
      }
      add(body, line, output_statement{std::move(item)});
      break;
    }
    default: {
      in_.next(); // only block_begin is left
      const auto is_end = [&](std::string_view word) { return in_.is_name(word); };
      if (std::any_of(ends.begin(), ends.end(), is_end)) {
        return true;
      }
      if (!parse_tag(body, ends)) {
        return false;
      }
    }
    }
  }
}

bool statement_parser::parse_tag(block& body, closers ends) {
  if (!in_.is(token::kind::name)) {
    return in_.fail_expected("a tag's name");
  }
  const std::string word = in_.peek().text;
  using parse_function = bool (statement_parser::*)(block&);
  static constexpr std::pair<std::string_view, parse_function> tags[] = {
      {"if", &statement_parser::parse_if},
      {"for", &statement_parser::parse_for},
      {"set", &statement_parser::parse_set},
      {"macro", &statement_parser::parse_macro},
      {"call", &statement_parser::parse_call},
      {"filter", &statement_parser::parse_filter},
      {"with", &statement_parser::parse_with},
      {"generation", &statement_parser::parse_generation},
      {"block", &statement_parser::parse_named_block},
      {"autoescape", &statement_parser::parse_autoescape},
  };
  for (const auto& [name, parse] : tags) {
    if (word == name) {
      in_.next();
      return (this->*parse)(body);
    }
  }
  if (word == "break" || word == "continue") {
    in_.next();
    return parse_jump(body, word == "break");
  }
  if (word.starts_with("end") || word == "else" || word == "elif") {
    return ends.size() == 0 ? in_.fail_here("'{}' closes nothing", word)
                            : in_.fail_here("expected '{}', found '{}'", *(ends.end() - 1), word);
  }
  constexpr std::array<std::string_view, 4> multi_template_tags = {"extends", "from", "import",
                                                                   "include"};
  const bool needs_others = std::find(multi_template_tags.begin(), multi_template_tags.end(),
                                      word) != multi_template_tags.end();
  return in_.fail_here("the tag '{}' is not supported{}", word,
                       needs_others ? ": a model has one template" : "");
}

bool statement_parser::parse_if(block& body) {
  const int line = in_.line();
  if_statement form;
  do {
    expression_ptr test = expressions_.parse_tuple(/*with_conditional=*/false);
    if (!test || !end_tag()) {
      return false;
    }
    form.branches.emplace_back(std::move(test), block{});
    if (!parse_block(form.branches.back().second, {"elif", "else", "endif"})) {
      return false;
    }
  } while (in_.skip_name("elif"));
  if (in_.skip_name("else") && (!end_tag() || !parse_block(form.otherwise, {"endif"}))) {
    return false;
  }
  return close("endif") && add(body, line, std::move(form));
}

bool statement_parser::parse_for(block& body) {
  const int line = in_.line();
  for_statement form;
  auto target = expressions_.parse_target(/*with_attribute=*/false);
  if (!target || !in_.expect_name("in")) {
    return false;
  }
  form.target = std::move(*target);
  if (!(form.iterable = expressions_.parse_tuple(/*with_conditional=*/false))) {
    return false;
  }
  if (in_.skip_name("if") && !(form.condition = expressions_.parse())) {
    return false;
  }
  form.is_recursive = in_.skip_name("recursive");
  ++loops_;
  const bool is_good = end_tag() && parse_block(form.body, {"else", "endfor"});
  --loops_;
  if (!is_good) {
    return false;
  }
  if (in_.skip_name("else") && (!end_tag() || !parse_block(form.otherwise, {"endfor"}))) {
    return false;
  }
  return close("endfor") && add(body, line, std::move(form));
}

bool statement_parser::parse_set(block& body) {
  const int line = in_.line();
  auto target = expressions_.parse_target(/*with_attribute=*/true);
  if (!target) {
    return false;
  }
  if (in_.skip_symbol("=")) {
    expression_ptr item = expressions_.parse_tuple();
    return item && end_tag() && add(body, line, set_statement{std::move(*target), std::move(item)});
  }
  set_block_statement form{std::move(*target), {}, {}};
  return expressions_.parse_filters(form.filters, /*first_is_named=*/false) && end_tag() &&
         parse_block(form.body, {"endset"}) && close("endset") && add(body, line, std::move(form));
}

bool statement_parser::parse_parameters(macro_definition& macro) {
  if (!in_.expect_symbol("(")) {
    return false;
  }
  while (!in_.skip_symbol(")")) {
    if (!macro.parameters.empty() && !in_.expect_symbol(",")) {
      return false;
    }
    macro_definition::parameter p{in_.peek().text, nullptr};
    if (!in_.expect(token::kind::name, "a parameter's name")) {
      return false;
    }
    if (in_.skip_symbol("=")) {
      if (!(p.preset = expressions_.parse())) {
        return false;
      }
    } else if (!macro.parameters.empty() && macro.parameters.back().preset) {
      return in_.fail_here("a parameter without default follows one with");
    }
    macro.parameters.push_back(std::move(p));
  }
  return true;
}

bool statement_parser::parse_macro_body(macro_definition& macro, std::string_view end) {
  macro_definition* const around = std::exchange(expressions_.macro, &macro);
  const std::size_t loops = std::exchange(loops_, 0);
  const bool is_good = end_tag() && parse_block(macro.body, {end}) && close(end);
  loops_ = loops;
  expressions_.macro = around;
  return is_good;
}

bool statement_parser::parse_macro(block& body) {
  const int line = in_.line();
  macro_statement form;
  form.macro.name = in_.peek().text;
  return in_.expect(token::kind::name, "the macro's name") && parse_parameters(form.macro) &&
         parse_macro_body(form.macro, "endmacro") && add(body, line, std::move(form));
}

bool statement_parser::parse_call(block& body) {
  const int line = in_.line();
  call_statement form;
  form.caller.name = "caller";
  if (in_.is_symbol("(") && !parse_parameters(form.caller)) {
    return false;
  }
  if (!(form.call = expressions_.parse())) {
    return false;
  }
  if (!std::holds_alternative<call_form>(form.call->form)) {
    return in_.fail_here("'call' needs a call");
  }
  return parse_macro_body(form.caller, "endcall") && add(body, line, std::move(form));
}

bool statement_parser::parse_filter(block& body) {
  const int line = in_.line();
  filter_statement form;
  return expressions_.parse_filters(form.filters, /*first_is_named=*/true) && end_tag() &&
         parse_block(form.body, {"endfilter"}) && close("endfilter") &&
         add(body, line, std::move(form));
}

bool statement_parser::parse_with(block& body) {
  const int line = in_.line();
  with_statement form;
  while (!in_.is(token::kind::block_end)) {
    if (!form.bindings.empty() && !in_.expect_symbol(",")) {
      return false;
    }
    auto target = expressions_.parse_target(/*with_attribute=*/false);
    if (!target || !in_.expect_symbol("=")) {
      return false;
    }
    expression_ptr item = expressions_.parse();
    if (!item) {
      return false;
    }
    form.bindings.emplace_back(std::move(*target), std::move(item));
  }
  return end_tag() && parse_block(form.body, {"endwith"}) && close("endwith") &&
         add(body, line, std::move(form));
}

// Marks the assistant's tokens for training. Here it is only a scope, as in Hugging Face.
bool statement_parser::parse_generation(block& body) {
  const int line = in_.line();
  with_statement form;
  return end_tag() && parse_block(form.body, {"endgeneration"}) && close("endgeneration") &&
         add(body, line, std::move(form));
}

// {% block name [scoped] [required] %}: no template extends it, so its own body is used.
bool statement_parser::parse_named_block(block& body) {
  const int line = in_.line();
  block_statement form;
  form.macro.name = in_.peek().text;
  if (!in_.expect(token::kind::name, "the block's name")) {
    return false;
  }
  if (!blocks_.insert(form.macro.name).second) {
    return in_.fail_here("two blocks have the name '{}'", form.macro.name);
  }
  form.is_scoped = in_.skip_name("scoped");
  form.is_required = in_.skip_name("required");
  macro_definition* const around = std::exchange(expressions_.macro, nullptr);
  const std::size_t loops = std::exchange(loops_, 0);
  const bool is_good = end_tag() && parse_block(form.macro.body, {"endblock"});
  loops_ = loops;
  expressions_.macro = around;
  if (!is_good || !in_.expect_name("endblock")) {
    return false;
  }
  in_.skip_name(form.macro.name);
  return end_tag() && add(body, line, std::move(form));
}

// Autoescape is always off.
bool statement_parser::parse_autoescape(block& body) {
  const int line = in_.line();
  if (!in_.skip_name("false") && !in_.skip_name("False")) {
    return in_.fail_here("'autoescape' is supported only as 'false'");
  }
  with_statement form;
  return end_tag() && parse_block(form.body, {"endautoescape"}) && close("endautoescape") &&
         add(body, line, std::move(form));
}

bool statement_parser::parse_jump(block& body, bool is_break) {
  const int line = in_.line();
  if (loops_ == 0) {
    return in_.fail_here("'{}' outside of a loop", is_break ? "break" : "continue");
  }
  return end_tag() &&
         (is_break ? add(body, line, break_statement{}) : add(body, line, continue_statement{}));
}

} // namespace

namespace {

// Collects blocks at any depth. Requires: the tree does not move.
void find_blocks(const block& in, std::vector<const macro_definition*>& found) {
  for (const statement& s : in) {
    std::visit(
        [&](const auto& form) {
          using form_type = std::decay_t<decltype(form)>;
          if constexpr (std::is_same_v<form_type, block_statement>) {
            found.push_back(&form.macro);
            find_blocks(form.macro.body, found);
          } else if constexpr (std::is_same_v<form_type, if_statement>) {
            for (const auto& branch : form.branches) {
              find_blocks(branch.second, found);
            }
            find_blocks(form.otherwise, found);
          } else if constexpr (std::is_same_v<form_type, for_statement>) {
            find_blocks(form.body, found);
            find_blocks(form.otherwise, found);
          } else if constexpr (std::is_same_v<form_type, macro_statement>) {
            find_blocks(form.macro.body, found);
          } else if constexpr (std::is_same_v<form_type, call_statement>) {
            find_blocks(form.caller.body, found);
          } else if constexpr (requires { form.body; }) {
            find_blocks(form.body, found);
          }
        },
        s.form);
  }
}

} // namespace

result<syntax_tree> parse_template(std::string_view source, std::size_t nesting_max) {
  auto tokens = tokenize(source);
  if (!tokens) {
    return tokens.error();
  }
  token_reader in(std::move(*tokens), nesting_max);
  syntax_tree tree;
  statement_parser statements(in);
  if (!statements.parse_block(tree.body, {})) {
    return in.failure();
  }
  tree.names = statements.take_names();
  find_blocks(tree.body, tree.blocks);
  return tree;
}

} // namespace baton::text::jinja
