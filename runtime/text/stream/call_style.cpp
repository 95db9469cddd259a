#include "runtime/text/stream/call_style.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <array>

namespace baton::text {
namespace {

// Indexed by call_format. Hermes 2 and 3, Qwen 2.5 and 3, SmolLM 2 (1.7B) and 3; Llama 3.1 to 3.3;
// Mistral 0.3, Nemo and models fine-tuned from them.
constexpr std::array rows{
    call_row{call_format::hermes, "hermes", "<tool_call>", "<tool_call>", "</tool_call>", "",
             "<tool_call>\n", "\n</tool_call>", "\n", "", "arguments", "", /*has_parallel=*/true,
             /*has_short_ids=*/false},
    call_row{call_format::llama3, "llama3", "\"parameters\": dictionary", "", "", "", "", "", "; ",
             "", "parameters", "<|python_tag|>", /*has_parallel=*/false, /*has_short_ids=*/false},
    call_row{call_format::mistral, "mistral", "[TOOL_CALLS]", "", "", "[", "", "", ", ", "]",
             "arguments", "[TOOL_CALLS]", /*has_parallel=*/true, /*has_short_ids=*/true},
};

} // namespace

const call_row& row_of(call_format format) noexcept {
  const auto number = static_cast<std::size_t>(format);
  ENSURE(number < rows.size() && rows[number].format == format, "no call format {}", number);
  return rows[number];
}

call_style call_style_of(std::string_view chat_template) noexcept {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const call_row& r) {
    return chat_template.find(r.template_mark) != std::string_view::npos;
  });
  return row == rows.end() ? call_style{} : call_style{row->format, /*is_native=*/true};
}

} // namespace baton::text
