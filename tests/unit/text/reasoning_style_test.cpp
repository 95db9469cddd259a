// How an answer begins: by the marks that the template itself writes at the end of the prompt.
#include "runtime/text/pre_tokenizers/segment.hpp"
#include "runtime/text/stream/reasoning_style.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace baton;
using namespace baton::text;

namespace {

constexpr bool by_template = true, by_user = false;

reasoning_start start_after(std::vector<text_segment> rendered) {
  return reasoning_start_of(reasoning_format::think, rendered);
}

} // namespace

TEST_CASE("a family's marks are recognised in its template") {
  CHECK(reasoning_format_of("{{ m.content.split('</think>')[-1] }}") == reasoning_format::think);
  CHECK(reasoning_format_of("<seed:think>{{ m }}</seed:think>") == reasoning_format::seed);
  CHECK(reasoning_format_of("Write your response after 'Here is my response:' for") ==
        reasoning_format::granite);
  CHECK(reasoning_format_of("{% for m in messages %}{{ m.content }}{% endfor %}") ==
        reasoning_format::none);
  CHECK(reasoning_format_of("") == reasoning_format::none);
  CHECK(reasoning_format_of("[THINK]{{ t }}[/THINK]") == reasoning_format::mistral);
  CHECK(reasoning_format_of("{{ '<|channel>thought\\n' + t + '<channel|>' }}") ==
        reasoning_format::gemma4);
  CHECK(reasoning_format_of("<|start|>assistant<|channel|>analysis<|message|>") ==
        reasoning_format::harmony);
}

TEST_CASE("the end of the prompt says whether the model thinks, and has begun to") {
  using enum reasoning_format;
  struct row {
    std::vector<text_segment> rendered;
    reasoning_format format;
    bool is_inside;
  };
  const row rows[] = {
      {{{"<|im_start|>user\n", by_template},
        {"Hi", by_user},
        {"<|im_end|>\n<|im_start|>assistant\n", by_template}},
       think,
       false},
      {{{"Hi", by_user}, {"<|im_start|>assistant\n<think>\n", by_template}}, think, true},
      {{{"Hi", by_user}, {"<|im_start|>assistant\n<think>\n\n</think>\n\n", by_template}},
       none,
       false},
      // DeepSeek V3.1 suppresses it with the closing mark alone.
      {{{"Hi", by_user}, {"<|Assistant|></think>", by_template}}, none, false},
      // An earlier turn of the tool loop is closed, and the last one open.
      {{{"a", by_user}, {"</think>\n\n<|im_end|><think>\n", by_template}}, think, true},
      // A user may write the marks, also as the last of all.
      {{{"<|im_start|>assistant\n", by_template}, {"<think>", by_user}}, think, false},
      {{{"</think><think>", by_user}, {"<|im_start|>assistant\n", by_template}}, think, false},
  };
  for (const auto& r : rows) {
    CAPTURE(r.rendered.back().text);
    const auto found = start_after(r.rendered);
    CHECK(found.format == r.format);
    CHECK(found.is_inside == r.is_inside);
  }
  CHECK(reasoning_start_of(none, rows[1].rendered).format == none);
  CHECK(start_after({}).format == none);
  // With channels, the marks of earlier messages say nothing.
  const auto channels = [](std::string end) {
    const std::vector<text_segment> rendered{{"Hi", by_user}, {std::move(end), by_template}};
    return reasoning_start_of(harmony, rendered);
  };
  CHECK(channels("<|end|><|start|>assistant").format == harmony);
  CHECK_FALSE(channels("<|end|><|start|>assistant").is_inside);
  CHECK(channels("<|end|><|start|>assistant<|channel|>analysis<|message|>").is_inside);
  CHECK(channels("<|end|><|start|>assistant<|channel|>final<|message|>").format == none);
}
