#include "runtime/text/stream/call_style.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <array>

namespace baton::text {
namespace {

// Indexed by call_format. The marks of a later row distinguish it from those before, whose marks
// its templates may have, too.
constexpr std::array rows{
    // Hermes 2 and 3, Qwen 2.5 and 3, SmolLM 2 (1.7B) and 3, Granite 4.
    call_row{.format = call_format::hermes,
             .name = "hermes",
             .template_marks = {"<tool_call>"},
             .mark = "<tool_call>",
             .end_mark = "</tool_call>",
             .call_open = "<tool_call>\n",
             .call_close = "\n</tool_call>",
             .between = "\n",
             .controls = {"<tool_call>", "</tool_call>"}},
    // Llama 3.1 to 3.3.
    call_row{.format = call_format::llama3,
             .name = "llama3",
             .template_marks = {"\"parameters\": dictionary"},
             .between = "; ",
             .arguments = "parameters",
             .lead = "<|python_tag|>",
             .has_parallel = false},
    // Mistral 0.3, Nemo and models fine-tuned from them.
    call_row{.format = call_format::mistral,
             .name = "mistral",
             .template_marks = {"[TOOL_CALLS]"},
             .list_open = "[",
             .between = ", ",
             .list_close = "]",
             .lead = "[TOOL_CALLS]",
             .has_short_ids = true},
    // Qwen3-Coder, Qwen 3.5. These models sometimes leave <tool_call> out.
    call_row{.format = call_format::qwen_xml,
             .name = "qwen_xml",
             .template_marks = {"<function=", "<parameter="},
             .syntax = call_syntax::tagged,
             .mark = "<tool_call>",
             .other_mark = "<function=",
             .call_open = "<tool_call>\n<function=",
             .call_close = "</function>",
             .between = "\n</tool_call>\n",
             .list_close = "\n</tool_call>",
             .name_close = ">\n",
             .key_open = "<parameter=",
             .key_close = ">\n",
             .value_close = "\n</parameter>\n",
             .controls = {"<tool_call>", "</tool_call>"}},
    // gpt-oss. The end of the call ends the answer.
    call_row{.format = call_format::harmony,
             .name = "harmony",
             .template_marks = {"<|channel|>", "commentary"},
             .syntax = call_syntax::named_json,
             .mark = "<|channel|>commentary to=functions.",
             .call_open = "<|channel|>commentary to=functions.",
             .call_close = "<|call|>",
             .aside = " <|constrain|>json",
             .name_close = "<|message|>",
             .text_open = "<|channel|>final<|message|>",
             .controls = {"<|channel|>", "<|constrain|>", "<|message|>", "<|call|>"},
             .has_parallel = false,
             .ends_by_control = true},
    // GLM 4.5 to 4.7; the last without line ends.
    call_row{.format = call_format::glm,
             .name = "glm",
             .template_marks = {"<arg_key>", "<arg_value>"},
             .syntax = call_syntax::tagged,
             .mark = "<tool_call>",
             .call_open = "<tool_call>",
             .call_close = "</tool_call>",
             .between = "\n",
             .name_close = "\n",
             .key_open = "<arg_key>",
             .key_close = "</arg_key>\n<arg_value>",
             .value_close = "</arg_value>\n",
             .controls = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                          "</arg_value>"}},
    // Mistral Small 3.2, Magistral, Devstral, Ministral 3. Some write [CALL_ID] behind the name.
    call_row{.format = call_format::mistral_named,
             .name = "mistral_named",
             .template_marks = {"[TOOL_CALLS]", "[ARGS]"},
             .syntax = call_syntax::named_json,
             .mark = "[TOOL_CALLS]",
             .call_open = "[TOOL_CALLS]",
             .name_close = "[ARGS]",
             .controls = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
             .has_short_ids = true},
    // Llama 4, Llama 3.2 and others with a list of Python's calls.
    call_row{.format = call_format::pythonic,
             .name = "pythonic",
             .template_marks = {"[func_name1("},
             .syntax = call_syntax::python,
             .list_open = "[",
             .call_close = "]",
             .between = ", ",
             .lead = "<|python_start|>"},
    call_row{.format = call_format::lfm2,
             .name = "lfm2",
             .template_marks = {"<|tool_call_start|>"},
             .syntax = call_syntax::python,
             .mark = "<|tool_call_start|>",
             .list_open = "<|tool_call_start|>[",
             .call_close = "]<|tool_call_end|>",
             .between = ", ",
             .controls = {"<|tool_call_start|>", "<|tool_call_end|>"}},
    call_row{.format = call_format::kimi,
             .name = "kimi",
             .template_marks = {"<|tool_calls_section_begin|>"},
             .syntax = call_syntax::named_json,
             .mark = "<|tool_calls_section_begin|>",
             .other_mark = "<|tool_call_begin|>",
             .list_open = "<|tool_calls_section_begin|>",
             .call_open = "<|tool_call_begin|>functions.",
             .call_close = "<|tool_call_end|>",
             .list_close = "<|tool_calls_section_end|>",
             .aside = ":#",
             .name_close = "<|tool_call_argument_begin|>",
             .controls = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                          "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                          "<|tool_calls_section_end|>"},
             .has_named_ids = true},
    // DeepSeek V3.1.
    call_row{.format = call_format::deepseek31,
             .name = "deepseek31",
             .template_marks = {"<｜tool▁calls▁begin｜>"},
             .syntax = call_syntax::named_json,
             .mark = "<｜tool▁calls▁begin｜>",
             .other_mark = "<｜tool▁call▁begin｜>",
             .list_open = "<｜tool▁calls▁begin｜>",
             .call_open = "<｜tool▁call▁begin｜>",
             .call_close = "<｜tool▁call▁end｜>",
             .list_close = "<｜tool▁calls▁end｜>",
             .name_close = "<｜tool▁sep｜>",
             .controls = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                          "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"}},
    // DeepSeek V3 and R1.
    call_row{.format = call_format::deepseek,
             .name = "deepseek",
             .template_marks = {"<｜tool▁calls▁begin｜>", "```json"},
             .syntax = call_syntax::named_json,
             .mark = "<｜tool▁calls▁begin｜>",
             .other_mark = "<｜tool▁call▁begin｜>",
             .list_open = "<｜tool▁calls▁begin｜>",
             .call_open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
             .call_close = "\n```<｜tool▁call▁end｜>",
             .between = "\n",
             .list_close = "<｜tool▁calls▁end｜>",
             .name_close = "\n```json\n",
             .controls = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                          "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"}},
    // Granite 3.
    call_row{.format = call_format::granite,
             .name = "granite",
             .template_marks = {"<|tool_call|>"},
             .mark = "<|tool_call|>",
             .list_open = "<|tool_call|>[",
             .between = ", ",
             .list_close = "]",
             .controls = {"<|tool_call|>"}},
    call_row{.format = call_format::gemma4,
             .name = "gemma4",
             .template_marks = {"<|tool_call>"},
             .syntax = call_syntax::gemma,
             .mark = "<|tool_call>",
             .call_open = "<|tool_call>call:",
             .call_close = "<tool_call|>",
             .quote = "<|\"|>",
             .controls = {"<|tool_call>", "<tool_call|>", "<|\"|>"}},
    call_row{.format = call_format::function_gemma,
             .name = "function_gemma",
             .template_marks = {"<start_function_call>"},
             .syntax = call_syntax::gemma,
             .mark = "<start_function_call>",
             .call_open = "<start_function_call>call:",
             .call_close = "<end_function_call>",
             .quote = "<escape>",
             .controls = {"<start_function_call>", "<end_function_call>", "<escape>"}},
};
static_assert(rows.size() == static_cast<std::size_t>(call_format_last) + 1);

} // namespace

const call_row& row_of(call_format format) noexcept {
  const auto number = static_cast<std::size_t>(format);
  ENSURE(number < rows.size() && rows[number].format == format, "no call format {}", number);
  return rows[number];
}

call_style call_style_of(std::string_view chat_template) noexcept {
  const auto has = [&](std::string_view text) {
    return chat_template.find(text) != std::string_view::npos;
  };
  // Some templates render calls of earlier turns, but do not show the model its tools.
  if (!has("tools"))
    return {};
  const auto row = std::find_if(rows.rbegin(), rows.rend(), [&](const call_row& r) {
    return std::all_of(r.template_marks.begin(), r.template_marks.end(), has);
  });
  if (row == rows.rend())
    return {};
  return {.format = row->format,
          .is_native = true,
          .has_text_arguments = has("['arguments'] +") || has(".arguments +")};
}

} // namespace baton::text
