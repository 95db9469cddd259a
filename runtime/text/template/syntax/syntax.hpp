// The syntax tree of a template: written once by the parser, then only read.
#pragma once

#include "runtime/text/template/values/builtins.hpp"
#include "runtime/text/template/values/value.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace baton::text::jinja {

struct expression;
struct statement;
using expression_ptr = std::unique_ptr<expression>;
using block = std::vector<statement>;

struct literal_form {
  value constant;
};
struct name_form {
  std::string name;
};
struct sequence_form {
  std::vector<expression_ptr> items;
  bool is_tuple;
};
struct map_form {
  std::vector<std::pair<expression_ptr, expression_ptr>> entries;
};
enum class unary_operator : std::uint8_t { minus, plus, logical_not };
struct unary_form {
  unary_operator op;
  expression_ptr operand;
};
enum class binary_operator : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power
};
struct binary_form {
  binary_operator op;
  expression_ptr left;
  expression_ptr right;
};
struct logical_form {
  bool is_or;
  expression_ptr left;
  expression_ptr right;
};
struct concat_form {
  std::vector<expression_ptr> parts;
};
enum class comparison : std::uint8_t {
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};
// a < b < c
struct compare_form {
  expression_ptr first;
  std::vector<std::pair<comparison, expression_ptr>> rest;
};
struct conditional_form {
  expression_ptr test;
  expression_ptr then;
  expression_ptr otherwise; // null: undefined
};
struct attribute_form {
  expression_ptr object;
  std::string name;
};
struct subscript_form {
  expression_ptr object;
  expression_ptr index;
};
// Any of the three bounds may be null.
struct slice_form {
  expression_ptr object;
  expression_ptr start;
  expression_ptr stop;
  expression_ptr step;
};
struct argument_form {
  enum class kind : std::uint8_t { positional, named, unpacked_list, unpacked_map };
  kind type;
  std::string name;
  expression_ptr item;
};
struct call_form {
  expression_ptr callee;
  std::vector<argument_form> arguments;
};
struct filter_call {
  const builtin* filter;
  std::vector<argument_form> arguments;
  int line;
};
struct filter_form {
  expression_ptr operand;
  filter_call call;
};
struct test_form {
  expression_ptr operand;
  const builtin* test;
  std::vector<argument_form> arguments;
  bool is_negated;
};

struct expression {
  int line;
  std::uint32_t depth; // expressions on the longest path below, itself included
  std::variant<literal_form, name_form, sequence_form, map_form, unary_form, binary_form,
               logical_form, concat_form, compare_form, conditional_form, attribute_form,
               subscript_form, slice_form, call_form, filter_form, test_form>
      form;
};

// name | object.attribute | (target, target)
struct assign_target {
  std::string name;
  std::string attribute;            // set only for object.attribute
  std::vector<assign_target> items; // not empty: a tuple
};

struct macro_definition {
  struct parameter {
    std::string name;
    expression_ptr preset; // null: none
  };
  std::string name;
  std::vector<parameter> parameters;
  block body;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct text_statement {
  marked_text text;
};
struct output_statement {
  expression_ptr item;
};
struct if_statement {
  std::vector<std::pair<expression_ptr, block>> branches;
  block otherwise;
};
struct for_statement {
  assign_target target;
  expression_ptr iterable;
  expression_ptr condition; // null: none
  block body;
  block otherwise;
  bool is_recursive = false;
};
struct set_statement {
  assign_target target;
  expression_ptr item;
};
struct set_block_statement {
  assign_target target;
  std::vector<filter_call> filters;
  block body;
};
struct macro_statement {
  macro_definition macro;
};
// Renders in place, and as self.name().
struct block_statement {
  macro_definition macro;   // without parameters
  bool is_scoped = false;   // sees the surrounding variables, not only the template's
  bool is_required = false; // an extending template would have to fill it
};
struct call_statement {
  macro_definition caller;
  expression_ptr call; // its form is a call_form
};
struct filter_statement {
  std::vector<filter_call> filters;
  block body;
};
struct with_statement {
  std::vector<std::pair<assign_target, expression_ptr>> bindings;
  block body;
};
struct break_statement {};
struct continue_statement {};

struct statement {
  int line;
  std::variant<text_statement, output_statement, if_statement, for_statement, set_statement,
               set_block_statement, macro_statement, block_statement, call_statement,
               filter_statement, with_statement, break_statement, continue_statement>
      form;
};

struct syntax_tree {
  block body;
  std::set<std::string, std::less<>> names; // of all variables that are read
  // By name; they point into `body`.
  std::vector<const macro_definition*> blocks;
};

} // namespace baton::text::jinja
