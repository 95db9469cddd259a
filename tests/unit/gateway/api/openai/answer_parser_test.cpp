// Reasoning in answers. Goal: what the model thinks, its text and its calls are separated, whatever
// the pieces. Method: a table of answers, each cut into two at every place and into single bytes.
#include "gateway/api/openai/calls/answer_parser.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace baton;
using namespace baton::gateway;

namespace {

struct answer_row {
  std::string_view text;
  bool is_inside; // the prompt has the mark that opens
  std::string_view reasoning, rest;
};

const answer_row answer_rows[] = {
    {"<think>\nOne.\n\nTwo.\n</think>\n\nFour.", false, "One.\n\nTwo.", "Four."},
    {"\n <think>a</think>b", false, "a", "b"},
    {"One.\n</think>\n\nFour.", true, "One.", "Four."},
    {"Four.", false, "", "Four."},
    {"  Four. <think>", false, "", "  Four. <think>"},
    {"<thin", false, "", "<thin"},
    {"<thinking>", false, "", "<thinking>"},
    {"<think></think>x", false, "", "x"},
    {"a </thin b</think>c</think>d", true, "a </thin b", "c</think>d"},
    {"cut off </thi", true, "cut off </thi", ""},
    {"", true, "", ""},
    {"</think>", true, "", ""},
    {"a</think>  \n ", true, "a", ""},
};

// Messages of gpt-oss.
const answer_row channel_rows[] = {
    {"<|channel|>analysis<|message|>One.\n<|end|><|start|>assistant<|channel|>final<|message|>"
     "Four.",
     false, "One.\n", "Four."},
    {"<|channel|>final<|message|>Four.", false, "", "Four."},
    {"One.<|end|><|start|>assistant<|channel|>final<|message|>Four.<|return|>", true, "One.",
     "Four.<|return|>"},
    {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|"
     ">"
     "<|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>"
     "final<|message|>c",
     false, "a\nb", "I look.\nc"},
    // Without <|end|>.
    {"<|channel|>analysis<|message|>a<|channel|>final<|message|>b", false, "a", "b"},
    {"<|channel|>analysis<|message|>a < b <|en", false, "a < b <|en", ""},
    {"<|channel|>analysis<|message|>", false, "", ""},
    {"<|channel|>fin", false, "", ""},
    {"a<|end|><|start|>assistant<|chan", true, "a", ""},
    // No header.
    {"Four.", false, "", "Four."},
    {"<|chan is no mark", false, "", "<|chan is no mark"},
    {"<|channel|>other<|message|>x", false, "", "<|channel|>other<|message|>x"},
    {"<|channel|>commentary to=python<|message|>1+1<|end|>", false, "",
     "<|channel|>commentary to=python<|message|>1+1"},
};

chunk thinking_chunk(bool is_inside, reasoning_format format = reasoning_format::think) {
  chunk c;
  c.reasoning = format;
  c.begins_in_reasoning = is_inside;
  return c;
}

call_delta read_in_pieces(const answer_row& row, std::size_t first, std::size_t each,
                          reasoning_format format = reasoning_format::think,
                          const std::shared_ptr<const call_reading>& calls = nullptr) {
  answer_parser parser(calls, /*reads_reasoning=*/true);
  const auto c = thinking_chunk(row.is_inside, format);
  call_delta all, more;
  parser.add(c, row.text.substr(0, first), all);
  for (auto at = first; at < row.text.size(); at += each) {
    more = {};
    parser.add(c, row.text.substr(at, each), more);
    append(all, more);
  }
  more = {};
  parser.finish(more);
  append(all, more);
  return all;
}

} // namespace

TEST_CASE("reasoning is separated from the answer, whatever the pieces") {
  for (const auto& row : answer_rows) {
    CAPTURE(std::string(row.text));
    for (std::size_t cut = 0; cut <= row.text.size(); ++cut) {
      CAPTURE(cut);
      const auto read = read_in_pieces(row, cut, row.text.size() + 1);
      CHECK(read.reasoning == row.reasoning);
      CHECK(read.text == row.rest);
    }
    const auto bytes = read_in_pieces(row, 0, 1);
    CHECK(bytes.reasoning == row.reasoning);
    CHECK(bytes.text == row.rest);
  }
}

TEST_CASE("messages of channels are separated, whatever the pieces") {
  for (const auto& row : channel_rows) {
    CAPTURE(std::string(row.text));
    for (std::size_t cut = 0; cut <= row.text.size(); ++cut) {
      CAPTURE(cut);
      const auto read = read_in_pieces(row, cut, row.text.size() + 1, reasoning_format::harmony);
      CHECK(read.reasoning == row.reasoning);
      CHECK(read.text == row.rest);
    }
    const auto bytes = read_in_pieces(row, 0, 1, reasoning_format::harmony);
    CHECK(bytes.reasoning == row.reasoning);
    CHECK(bytes.text == row.rest);
  }
}

TEST_CASE("calls among the messages of channels, with headers in any order") {
  const auto how = std::make_shared<const call_reading>(
      call_reading{.format = call_format::harmony, .names = {"f"}});
  for (const auto* header : {"<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
                             " to=functions.f<|channel|>commentary json<|message|>",
                             "<|channel|>analysis to=functions.f <|message|>"}) {
    for (const auto* end : {"<|call|>", "", "<|end|>"}) {
      const auto text =
          std::string("<|channel|>analysis<|message|>Look.<|end|><|start|>assistant") + header +
          "{\"a\": \"<|channel|>\"}" + end;
      CAPTURE(text);
      const answer_row row{text, false, "Look.", ""};
      for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        const auto read = read_in_pieces(row, cut, text.size() + 1, reasoning_format::harmony, how);
        CHECK(read.reasoning == "Look.");
        CHECK(read.text.empty());
        REQUIRE(read.calls.size() == 1);
        CHECK(read.calls[0].name == "f");
        CHECK(read.calls[0].arguments == "{\"a\": \"<|channel|>\"}");
      }
    }
  }
  // Text before a call; a call of a function that is not given is text.
  const answer_row both{
      "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>"
      "commentary to=functions.f<|message|>{}<|call|>",
      false, "", "I look."};
  const auto read = read_in_pieces(both, 0, 3, reasoning_format::harmony, how);
  CHECK(read.text == both.rest);
  CHECK(read.calls.size() == 1);
  const answer_row other{"<|channel|>commentary to=functions.g<|message|>{}<|call|>", false, "",
                         ""};
  CHECK(read_in_pieces(other, 0, 3, reasoning_format::harmony, how).text ==
        "<|channel|>commentary to=functions.g <|constrain|>json<|message|>{}<|call|>");
}

TEST_CASE("the marks of Mistral and Gemma") {
  const answer_row mistral{"[THINK]a [b]\n[/THINK]c", false, "a [b]", "c"};
  const answer_row gemma{"<|channel>thought\na\n<channel|>c", false, "a", "c"};
  const answer_row none{"<|channel>thought\n<channel|>c", false, "", "c"};
  for (const std::size_t each : {1, 3, 100}) {
    CHECK(read_in_pieces(mistral, 0, each, reasoning_format::mistral).reasoning == "a [b]");
    CHECK(read_in_pieces(mistral, 0, each, reasoning_format::mistral).text == "c");
    CHECK(read_in_pieces(gemma, 0, each, reasoning_format::gemma4).reasoning == "a");
    CHECK(read_in_pieces(gemma, 0, each, reasoning_format::gemma4).text == "c");
    CHECK(read_in_pieces(none, 0, each, reasoning_format::gemma4).reasoning.empty());
    CHECK(read_in_pieces(none, 0, each, reasoning_format::gemma4).text == "c");
  }
}

TEST_CASE("without reasoning in its chunks, or if it is not read, an answer is text") {
  const auto text = std::string_view("<think>a</think>b");
  for (const bool reads : {false, true}) {
    answer_parser parser(nullptr, reads);
    auto c = thinking_chunk(false);
    if (reads) {
      c.reasoning = reasoning_format::none;
    }
    call_delta all;
    parser.add(c, text, all);
    parser.finish(all);
    CHECK(all.text == text);
    CHECK(all.reasoning.empty());
    CHECK(parser.reasoning_tokens() == 0);
  }
}

TEST_CASE("calls are read behind the reasoning, and not inside") {
  const auto how = std::make_shared<const call_reading>(
      call_reading{.format = call_format::hermes, .names = {"f"}});
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  answer_parser parser(how, /*reads_reasoning=*/true);
  call_delta all;
  parser.add(thinking_chunk(true), call + "</think>" + call, all);
  parser.finish(all);
  CHECK(all.reasoning == call);
  REQUIRE(all.calls.size() == 1);
  CHECK(all.calls[0].name == "f");
  CHECK(all.text.empty());
  CHECK(parser.calls() == 1);
}

TEST_CASE("tokens of the reasoning are counted with its marks") {
  answer_parser parser(nullptr, /*reads_reasoning=*/true);
  auto c = thinking_chunk(true);
  call_delta all;
  for (const std::string_view piece : {"a", "b", "</think>", "c", "d"}) {
    ++c.output_tokens;
    parser.add(c, piece, all);
  }
  CHECK(parser.reasoning_tokens() == 3);
  // The mark in the middle of a chunk of 4 tokens, at half of its bytes.
  answer_parser together(nullptr, /*reads_reasoning=*/true);
  c.output_tokens = 4;
  together.add(c, "</think>12345678", all);
  CHECK(together.reasoning_tokens() == 2);
}
