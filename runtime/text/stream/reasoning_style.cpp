#include "runtime/text/stream/reasoning_style.hpp"

#include "runtime/text/pre_tokenizers/segment.hpp"
#include "schema/ensure.hpp"

#include <algorithm>
#include <array>

namespace baton::text {
namespace {

// Indexed by reasoning_format, from 1. Qwen 3, DeepSeek R1, QwQ, GLM 4.5, SmolLM3, MiniMax and
// Hunyuan write `think`; Seed-OSS its own mark; Granite 3.2 and 3.3 sentences; Magistral and
// Ministral 3 `[THINK]`; gpt-oss `harmony`. Templates have the mark that ends reasoning: they
// remove that of earlier turns, or write both marks. Granite's is an instruction to the model.
constexpr std::array reasoning_rows{
    reasoning_row{.format = reasoning_format::think,
                  .template_mark = "</think>",
                  .open = "<think>",
                  .close = "</think>",
                  .controls = {"<think>", "</think>"}},
    reasoning_row{.format = reasoning_format::seed,
                  .template_mark = "</seed:think>",
                  .open = "<seed:think>",
                  .close = "</seed:think>",
                  .controls = {"<seed:think>", "</seed:think>"}},
    reasoning_row{.format = reasoning_format::granite,
                  .template_mark = "Here is my response",
                  .open = "Here is my thought process:",
                  .close = "Here is my response:"},
    reasoning_row{.format = reasoning_format::mistral,
                  .template_mark = "[/THINK]",
                  .open = "[THINK]",
                  .close = "[/THINK]",
                  .controls = {"[THINK]", "[/THINK]"}},
    reasoning_row{.format = reasoning_format::gemma4,
                  .template_mark = "<|channel>thought",
                  .open = "<|channel>thought",
                  .close = "<channel|>",
                  .controls = {"<|channel>", "<channel|>"}},
    reasoning_row{.format = reasoning_format::harmony,
                  .template_mark = "<|channel|>analysis",
                  .open = "<|channel|>analysis<|message|>",
                  .close = "<|end|>",
                  .next = "<|start|>assistant",
                  .answer = "<|channel|>final<|message|>",
                  .has_channels = true,
                  .controls = {"<|start|>", "<|channel|>", "<|message|>", "<|end|>"}},
};
static_assert(reasoning_rows.size() == static_cast<std::size_t>(reasoning_format_last));

} // namespace

const reasoning_row& row_of(reasoning_format format) noexcept {
  const auto number = static_cast<std::size_t>(format) - 1;
  ENSURE(number < reasoning_rows.size() && reasoning_rows[number].format == format,
         "no reasoning format {}", number);
  return reasoning_rows[number];
}

reasoning_format reasoning_format_of(std::string_view chat_template) noexcept {
  const auto row =
      std::find_if(reasoning_rows.begin(), reasoning_rows.end(), [&](const reasoning_row& r) {
        return chat_template.find(r.template_mark) != std::string_view::npos;
      });
  return row == reasoning_rows.end() ? reasoning_format::none : row->format;
}

reasoning_start reasoning_start_of(reasoning_format format,
                                   std::span<const text_segment> rendered) noexcept {
  if (format == reasoning_format::none || rendered.empty())
    return {};
  const auto& row = row_of(format);
  // The end of the prompt, which the template writes behind the last message.
  const auto& last = rendered.back();
  if (!last.special_allowed)
    return {format, false};
  if (row.has_channels) {
    // If the template opens another message than the reasoning, the answer is plain text.
    const auto is_inside = last.text.ends_with(row.open);
    const auto is_text = !is_inside && last.text.ends_with(row.answer);
    return is_text ? reasoning_start{} : reasoning_start{format, is_inside};
  }
  const auto open = last.text.rfind(row.open), close = last.text.rfind(row.close);
  if (open != std::string::npos && (close == std::string::npos || close < open))
    return {format, true};
  return close == std::string::npos ? reasoning_start{format, false} : reasoning_start{};
}

} // namespace baton::text
