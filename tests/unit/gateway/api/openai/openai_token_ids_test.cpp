// The ids of tokens in OpenAI's answers, as in vLLM.
#include "gateway/api/openai/reply/openai_response.hpp"
#include "tests/unit/gateway/api/openai/answer_chunks.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;
using namespace baton::testing;
using nlohmann::json;

namespace {

// The prompt of prompt_chunks(), and an answer of three tokens: the second has no text yet.
std::vector<chunk> chunks_with_ids() {
  auto all = prompt_chunks();
  for (auto& c : all) {
    for (auto& d : c.prompt_details) {
      d.chosen.token = d.chosen.text == "sa" ? 3 : 4;
    }
  }
  all.push_back(answer_chunk(1, "x"));
  all.back().ids = {7};
  all.push_back(answer_chunk(2, ""));
  all.back().ids = {8};
  all.push_back(answer_chunk(3, "yz", finish::length));
  all.back().ids = {9};
  return all;
}

} // namespace

TEST_CASE("a whole answer has the ids of its tokens and of the prompt's, as in vLLM") {
  for (const auto api : {openai_api::chat, openai_api::completions}) {
    auto shape = openai_shape(api);
    openai_unary without(shape);
    shape.has_token_ids = true;
    openai_unary whole(shape);
    for (const auto& c : chunks_with_ids()) {
      whole.add(c);
      without.add(c);
    }
    const auto j = json::parse(whole.body(testing::answerer));
    const auto& one = j["choices"][0];
    CHECK(one["token_ids"] == json({7, 8, 9}));
    const auto& holder = api == openai_api::chat ? j : one;
    CHECK(holder["prompt_token_ids"] == json({3, 4}));
    CHECK(one["logprobs"].is_null());
    CHECK(without.body(testing::answerer).find("token_ids") == std::string::npos);
  }
}

TEST_CASE("the ids of logprobs that were asked for do not show the prompt's") {
  auto shape = openai_shape(openai_api::completions);
  shape.has_token_ids = shape.has_logprobs = true;
  openai_unary whole(shape);
  for (auto c : chunks_with_ids()) {
    for (const auto id : c.ids) {
      c.details.push_back({{"t", id, -1.0F}, {}});
    }
    whole.add(std::move(c));
  }
  const auto one = json::parse(whole.body(testing::answerer))["choices"][0];
  CHECK(one["logprobs"]["tokens"].size() == 3);
  CHECK(one["prompt_token_ids"] == json({3, 4}));
}

TEST_CASE("the events of a stream have all ids, and the first has the prompt's") {
  for (const auto api : {openai_api::chat, openai_api::completions}) {
    for (const bool is_parsed : {false, true}) {
      if (is_parsed && api == openai_api::completions) {
        continue;
      }
      auto shape = openai_shape(api);
      shape.has_token_ids = shape.includes_usage = true;
      shape.reads_reasoning = is_parsed;
      openai_stream w(shape, testing::answerer);
      std::string out;
      for (const auto& c : chunks_with_ids()) {
        w.add(c, out);
      }
      std::vector<int> ids;
      std::size_t position = 0, prompts = 0;
      for (const auto& e : openai_events(out)) {
        if (e.data == "[DONE]") {
          break;
        }
        const auto j = json::parse(e.data);
        if (j["choices"].empty()) { // the usage
          continue;
        }
        const auto& one = j["choices"][0];
        if (one.contains("token_ids")) {
          const auto more = one["token_ids"].get<std::vector<int>>();
          ids.insert(ids.end(), more.begin(), more.end());
        }
        const auto& holder = api == openai_api::chat ? j : one;
        if (holder.contains("prompt_token_ids")) {
          CHECK(position == 0);
          CHECK(holder["prompt_token_ids"] == json({3, 4}));
          ++prompts;
        }
        ++position;
      }
      CHECK(ids == std::vector<int>({7, 8, 9}));
      CHECK(prompts == 1);
    }
  }
}

TEST_CASE("a resumed stream has the ids of the rest") {
  auto shape = openai_shape(openai_api::completions);
  shape.has_token_ids = true;
  openai_stream w(shape, testing::answerer, stream_position{{9}, 1, {{2, false}}});
  std::string out;
  w.add(chunks_with_ids().back(), out);
  const auto one = json::parse(openai_events(out).at(0).data)["choices"][0];
  CHECK(one["token_ids"] == json({9}));
  CHECK_FALSE(one.contains("prompt_token_ids"));
}
