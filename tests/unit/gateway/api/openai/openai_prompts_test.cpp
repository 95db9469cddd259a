// Several prompts in one completion: a request for each, and one answer in OpenAI's order.
#include "gateway/api/openai/reply/openai_response.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <set>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

result<openai_generate> parse_prompts(const std::string& fields) {
  return parse_generation(openai_api::completions, "{" + fields + "}", testing::default_limits);
}

chunk prompt_chunk(std::uint32_t choice, std::string text, std::uint32_t prompt_tokens) {
  chunk c;
  c.choice = choice;
  c.index = c.output_tokens = 1;
  c.text = std::move(text);
  c.finish = finish::stop;
  c.prompt_tokens = prompt_tokens;
  c.cached_tokens = 1;
  return c;
}

chunk scored(std::uint32_t choice, std::string text, float logprob) {
  auto c = prompt_chunk(choice, std::move(text), 4);
  c.details.push_back({{"t", 1, logprob}, {}, 1});
  return c;
}

} // namespace

TEST_CASE("each prompt is a request of its own with the same fields") {
  const auto texts =
      parse_prompts(R"("prompt":["a","b","c"],"n":2,"max_tokens":5,"seed":7,"echo":true)");
  REQUIRE(texts);
  CHECK(texts->shape.prompts == 3);
  CHECK(texts->shape.choices == 2);
  CHECK(texts->shape.echo == std::vector<std::string>{"a", "b", "c"});
  CHECK(std::get<std::string>(texts->request.input) == "a");
  REQUIRE(texts->further.size() == 2);
  CHECK(std::get<std::string>(texts->further[1].input) == "c");
  for (const auto& g : texts->further) {
    CHECK(g.terms.choices == 2);
    CHECK(g.terms.stop.max_tokens == 5);
    CHECK(g.terms.sampling.seed == 7);
  }
  const auto ids = parse_prompts(R"("prompt":[[1,2],[3]])");
  REQUIRE(ids);
  CHECK(std::get<ids_prompt>(ids->request.input) == ids_prompt{1, 2});
  REQUIRE(ids->further.size() == 1);
  CHECK(std::get<ids_prompt>(ids->further[0].input) == ids_prompt{3});
  for (const auto* alone : {R"("prompt":["a"])", R"("prompt":[[1]])", R"("prompt":[1,2])"}) {
    const auto one = parse_prompts(alone);
    REQUIRE(one);
    CHECK(one->shape.prompts == 1);
    CHECK(one->further.empty());
  }
}

TEST_CASE("without a seed the same prompt twice is drawn with two seeds") {
  const auto both = parse_prompts(R"("prompt":["a","a","a"])");
  REQUIRE(both);
  CHECK(std::set<std::uint64_t>{both->request.terms.sampling.seed,
                                both->further[0].terms.sampling.seed,
                                both->further[1].terms.sampling.seed}
            .size() == 3);
}

TEST_CASE("a list of mixed or too many prompts is refused by name") {
  for (const auto* p : {R"(["a",[1]])", R"([[1],"a"])", "[[1],5]", R"([1,"a"])", "[[]]", "[[1],[]]",
                        "[]", "{}", "5", R"([["a"]])", R"(["a",null])"}) {
    CAPTURE(p);
    const auto r = parse_prompts(std::string(R"("prompt":)") + p);
    REQUIRE_FALSE(r);
    CHECK(r.error().param == "prompt");
  }
  const auto many = [](std::size_t count, const std::string& fields) {
    return parse_prompts(fields + R"("prompt":)" +
                         json(std::vector<std::string>(count, "a")).dump());
  };
  CHECK(many(testing::default_limits.answers_max, ""));
  CHECK(many(testing::default_limits.answers_max / 2, R"("n":2,)"));
  for (const auto& r : {many(testing::default_limits.answers_max + 1, ""),
                        many(testing::default_limits.answers_max / 2, R"("n":3,)"),
                        many(testing::default_limits.answers_max / 2, R"("best_of":3,)")}) {
    REQUIRE_FALSE(r);
    CHECK(r.error().param == "prompt");
  }
  for (const auto* field : {"request_id", "resumable"}) {
    const auto value = field == std::string("resumable") ? "true" : "\"x\"";
    const auto r =
        parse_prompts(fmt::format(R"("prompt":["a","b"],"stream":true,"{}":{})", field, value));
    REQUIRE_FALSE(r);
    CHECK(r.error().param == field);
  }
}

TEST_CASE("answers come in the order of prompts, with the usage of all") {
  reply_shape shape;
  shape.api = openai_api::completions;
  shape.prompts = 2;
  shape.choices = 2;
  shape.echo = {"A:", "B:"};
  openai_unary whole(shape);
  whole.add(prompt_chunk(3, "b1", 7));
  whole.add(prompt_chunk(0, "a0", 5));
  whole.add(prompt_chunk(2, "b0", 7));
  CHECK_FALSE(whole.is_complete());
  whole.add(prompt_chunk(1, "a1", 5));
  REQUIRE(whole.is_complete());
  const auto parsed = json::parse(whole.body(testing::answerer));
  const char* texts[] = {"A:a0", "A:a1", "B:b0", "B:b1"};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(parsed["choices"][i]["index"] == i);
    CHECK(parsed["choices"][i]["text"] == texts[i]);
  }
  CHECK(parsed["usage"] == json{{"prompt_tokens", 12},
                                {"completion_tokens", 4},
                                {"total_tokens", 16},
                                {"prompt_tokens_details", {{"cached_tokens", 2}}}});
}

TEST_CASE("the likeliest are chosen for each prompt") {
  reply_shape shape;
  shape.api = openai_api::completions;
  shape.prompts = 2;
  shape.best_of = 2;
  openai_unary whole(shape);
  whole.add(scored(0, "a0", -3));
  whole.add(scored(1, "a1", -1));
  whole.add(scored(2, "b0", -8));
  whole.add(scored(3, "b1", -9));
  const auto parsed = json::parse(whole.body(testing::answerer));
  REQUIRE(parsed["choices"].size() == 2);
  CHECK(parsed["choices"][0]["text"] == "a1");
  CHECK(parsed["choices"][1]["text"] == "b0");
  CHECK(parsed["usage"]["completion_tokens"] == 4);
}

TEST_CASE("a stream of several prompts has no event ids for a resume, and one end") {
  reply_shape shape;
  shape.api = openai_api::completions;
  shape.prompts = 2;
  shape.includes_usage = true;
  shape.echo = {"A:", "B:"};
  openai_stream writer(shape, testing::answerer);
  std::string out;
  writer.add(prompt_chunk(1, "b", 3), out);
  CHECK_FALSE(writer.has_ended());
  writer.add(prompt_chunk(0, "a", 2), out);
  CHECK(writer.has_ended());
  CHECK(out.find("id: ") == out.npos);
  CHECK(out.find(R"("index":1,"text":"B:b")") != out.npos);
  CHECK(out.find(R"("index":0,"text":"A:a")") != out.npos);
  CHECK(out.find(R"("prompt_tokens":5)") != out.npos);
  CHECK(out.ends_with("data: [DONE]\n\n"));
}
