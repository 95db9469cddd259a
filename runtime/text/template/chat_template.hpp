// The chat template of a model: from messages to prompt text, in the part of Jinja that Hugging
// Face's templates use. The tokenizer room's callers parse one a model and render once a request.
// It has no clock and no files of its own, and a hostile template or message ends in an error.
#pragma once

#include "runtime/text/segment.hpp"
#include "runtime/text/template/value.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::text {

namespace jinja {
struct syntax_tree;
} // namespace jinja

// A step is a node evaluated, a list item made or 32 bytes of text read or written, so steps bound
// both time (a fraction of a second for the default) and memory (120 MB in the worst case known).
struct template_limits {
  std::size_t source_bytes_max = 256 * 1024; // the longest template in use has about 30 KB
  std::size_t nesting_max = 200;             // of the syntax tree; parse() only
  std::size_t steps_max = 4'000'000;
  std::size_t depth_max = 500; // evaluations inside one another, macro calls included: < 1 MB stack
  std::size_t text_bytes_max = 16 * 1024 * 1024; // of the prompt, and of any string on the way
  std::size_t items_max = 100'000;               // of range() and list * n: jinja2's sandbox bound
};

struct template_input {
  // A list of maps: role, content and whatever else the client sent. All strings in it are data.
  value messages = value::list({});
  bool add_generation_prompt = false;
  std::string bos_token; // trusted, as the template itself
  std::string eos_token;
  // Further tokens by the names that templates know them by ("pad_token"), trusted as well.
  std::vector<std::pair<std::string, std::string>> named_tokens;
  value tools = value::none();
  value documents = value::none();
  // The prompt ends behind the last message's content: its turn stays open.
  bool continues_final = false;
  // Further variables by name (chat_template_kwargs). The names above are refused.
  std::vector<std::pair<std::string, value>> extra;
  // What strftime_now prints, as civil time; without it the function is undefined and templates
  // take their fixed date.
  std::optional<std::chrono::sys_seconds> now;
  // Roles that a template may build into a special token ('<|' + role + '|>'): a message's role
  // that equals one of them is trusted, any other is data.
  std::vector<std::string> trusted_roles = {"system", "user",      "assistant",
                                            "tool",   "developer", "function"};
};

struct rendered {
  std::vector<text_segment> segments; // neighbours differ in special_allowed; none is empty

  std::string text() const;
};

// Immutable and cheap to copy; render() may run in several threads at once.
class chat_template {
public:
  // Errors: template_failed, with the line; a tag, filter or test that is not supported is named.
  static result<chat_template> parse(std::string_view source, const template_limits& limits = {});

  // Errors: template_failed with the line: a limit, a type error, or the template's own
  // raise_exception; invalid_value if `extra` has a reserved name, or the last message cannot be
  // gone on with (param "chat_template_kwargs", "continue_final_message").
  result<rendered> render(const template_input& input, const template_limits& limits = {}) const;

  // Whether a variable of this name stands anywhere in it.
  bool reads(std::string_view name) const;

private:
  explicit chat_template(std::shared_ptr<const jinja::syntax_tree> tree) : tree_(std::move(tree)) {}

  std::shared_ptr<const jinja::syntax_tree> tree_;
};

} // namespace baton::text
