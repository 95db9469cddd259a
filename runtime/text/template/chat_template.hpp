// A model's chat template: renders messages to prompt text, with the subset of Jinja that Hugging
// Face's templates use. Parsed once per model and rendered once per request. It has no clock and no
// file access, and hostile templates or messages end in an error.
#pragma once

#include "runtime/text/pre_tokenizers/segment.hpp"
#include "runtime/text/template/values/value.hpp"
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

// A step is one evaluated node, one list item or 32 bytes of text. So steps bound time (a fraction
// of a second by default) and memory (120 MB in the worst known case).
struct template_limits {
  std::size_t source_bytes_max = 256 * 1024; // the longest template in use has about 30 KB
  std::size_t nesting_max = 200;             // of the syntax tree; parse() only
  std::size_t steps_max = 4'000'000;
  std::size_t depth_max = 500; // nested evaluations with macro calls: < 1 MB stack
  std::size_t text_bytes_max = 16 * 1024 * 1024; // of the prompt, and of any intermediate string
  std::size_t items_max = 100'000;               // of range() and list * n; as in jinja2's sandbox
};

struct template_input {
  // A list of maps: role, content and any other client fields. All its strings are data.
  value messages = value::list({});
  bool add_generation_prompt = false;
  std::string bos_token; // trusted, like the template itself
  std::string eos_token;
  // Further tokens by the names that templates use ("pad_token"), trusted as well.
  std::vector<std::pair<std::string, std::string>> named_tokens;
  value tools = value::none();
  value documents = value::none();
  // The prompt ends after the last message's content: its turn stays open.
  bool continues_final = false;
  // Further variables by name (chat_template_kwargs). The names above are refused.
  std::vector<std::pair<std::string, value>> extra;
  // The civil time that strftime_now prints. Without it the function is undefined, and templates
  // use their fixed date.
  std::optional<std::chrono::sys_seconds> now;
  // Roles that a template may build into a special token ('<|' + role + '|>'). A message's role is
  // trusted if it equals one of them; any other is data.
  std::vector<std::string> trusted_roles = {"system", "user",      "assistant",
                                            "tool",   "developer", "function"};
};

struct rendered {
  std::vector<text_segment> segments; // adjacent segments differ in special_allowed; none is empty

  std::string text() const;
};

// Immutable and cheap to copy; render() may run in several threads at once.
class chat_template {
public:
  // Errors: template_failed, with the line and the name of an unsupported tag, filter or test.
  static result<chat_template> parse(std::string_view source, const template_limits& limits = {});

  // Errors: template_failed with the line (a limit, a type error, or the template's own
  // raise_exception); invalid_value. Its param is "chat_template_kwargs" if `extra` has a reserved
  // name, "continue_final_message" if the last message cannot be continued.
  result<rendered> render(const template_input& input, const template_limits& limits = {}) const;

  // Whether the template reads a variable of this name.
  bool reads(std::string_view name) const;

private:
  explicit chat_template(std::shared_ptr<const jinja::syntax_tree> tree) : tree_(std::move(tree)) {}

  std::shared_ptr<const jinja::syntax_tree> tree_;
};

} // namespace baton::text
