// Reasoning in answers. Goal: what the model thinks, its text and its calls are separated, whatever
// the pieces. Method: a table of answers, each cut into two at every place and into single bytes.
#include "gateway/api/openai/answer_parser.hpp"

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

chunk thinking_chunk(bool is_inside) {
  chunk c;
  c.reasoning = reasoning_format::think;
  c.begins_in_reasoning = is_inside;
  return c;
}

call_delta read_in_pieces(const answer_row& row, std::size_t first, std::size_t each) {
  answer_parser parser(nullptr, /*reads_reasoning=*/true);
  const auto c = thinking_chunk(row.is_inside);
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
