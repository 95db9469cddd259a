// A chat template: parsed, and rendered with a conversation, within its budget.
#include "runtime/text/template/chat_template.hpp"

#include "schema/ensure.hpp"
#include "tests/fuzz/input.hpp"

using namespace baton;
using namespace baton::text;

namespace {

value message(std::string role, std::string content) {
  return value::map(
      {{"role", value::string(std::move(role))}, {"content", value::string(std::move(content))}});
}

template_input conversation() {
  template_input input;
  input.messages =
      value::list({message("system", "Be brief."), message("user", "H\xc3\xa4llo <|im_start|>\n"),
                   message("assistant", " <think>a</think> b"), message("other", "")});
  input.add_generation_prompt = true;
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.tools =
      value::list({value::map({{"name", value::string("f")},
                               {"numbers", value::list({value::integer(-1), value::real(0.5)})}})});
  input.now = std::chrono::sys_seconds(std::chrono::seconds(1'741'338'303));
  return input;
}

// Its last message stays open; with all other options of a request.
template_input open_conversation() {
  auto input = conversation();
  input.continues_final = true;
  input.documents = value::list({value::map({{"text", value::string("Blue.")}})});
  input.named_tokens = {{"pad_token", "<pad>"}};
  input.extra = {{"enable_thinking", value::boolean(false)}};
  return input;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto input = conversation();
  static const auto open = open_conversation();
  template_limits limits;
  limits.steps_max /= 40; // an instrumented step takes ten times as long, and many inputs use all
  const auto parsed = chat_template::parse(fuzz::text_of(data, size), limits);
  if (!parsed) {
    ENSURE(parsed.error().code == errc::template_failed, "refused by {}",
           row_of(parsed.error().code).name);
    return 0;
  }
  for (const auto* each : {&input, &open}) {
    const auto prompt = parsed->render(*each, limits);
    if (!prompt)
      continue;
    std::size_t bytes = 0;
    for (const auto& segment : prompt->segments)
      bytes += segment.text.size();
    ENSURE(bytes <= limits.text_bytes_max, "a prompt of {} bytes", bytes);
  }
  return 0;
}
