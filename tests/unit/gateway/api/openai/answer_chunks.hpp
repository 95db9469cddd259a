// Chunks of an answer, and the events of a stream, for tests of OpenAI's answers.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "schema/messages.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace baton::testing {

using namespace baton::gateway;

inline chunk answer_chunk(std::uint32_t index, std::string text, finish how = finish::none) {
  chunk c;
  c.ticket = ticket_id{9};
  c.index = index;
  c.count = 1;
  c.text = std::move(text);
  c.finish = how;
  c.prompt_tokens = 5;
  c.cached_tokens = 4;
  c.output_tokens = index;
  return c;
}

inline reply_shape openai_shape(openai_api api, std::uint32_t choices = 1) {
  reply_shape s;
  s.api = api;
  s.model = "m";
  s.choices = choices;
  return s;
}

struct openai_event {
  std::string id;
  std::string data;
};

inline std::vector<openai_event> openai_events(const std::string& text) {
  std::vector<openai_event> out;
  std::istringstream lines(text);
  openai_event now;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      out.push_back(std::exchange(now, {}));
    } else if (line.starts_with("id: ")) {
      now.id = line.substr(4);
    } else if (line.starts_with("data: ")) {
      now.data = line.substr(6);
    } else {
      FAIL("not an SSE line: " << line);
    }
  }
  return out;
}

// Two tokens of a prompt in two chunks, the first of them twice.
inline std::vector<chunk> prompt_chunks() {
  auto c = answer_chunk(0, "");
  c.count = 0;
  c.prompt_details = {{{"sa", 3, 0}, {}}};
  auto more = c;
  more.prompt_details.push_back({{"y: ", 4, -1.5F}, {{"y", 5, -0.5F}}});
  auto rest = more;
  rest.prompt_from = 1;
  rest.prompt_details.erase(rest.prompt_details.begin());
  return {c, more, rest};
}

} // namespace baton::testing
