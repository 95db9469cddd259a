// OpenAI's list of embeddings: the order of the inputs, both formats, the usage.
#include "gateway/api/openai/reply/embedding_reply.hpp"
#include "runtime/text/unicode/base64.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstring>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

chunk embedding_end(std::uint32_t input, std::vector<float> embedding,
                    std::uint32_t prompt_tokens) {
  chunk c;
  c.choice = input;
  c.finish = finish::stop;
  c.embedding = std::move(embedding);
  c.prompt_tokens = prompt_tokens;
  return c;
}

const std::vector<float> awkward = {0.1F, -1e-7F, 1.0F, -0.0F, 0x1.fffffep-1F, 1e-40F};

} // namespace

TEST_CASE("embeddings come in the order of their inputs, whatever their order of arrival") {
  embedding_reply reply("m\"", embedding_format::numbers, 2);
  reply.add(embedding_end(1, {0.5F}, 4));
  CHECK_FALSE(reply.is_complete());
  reply.add(embedding_end(0, {-0.25F}, 3));
  REQUIRE(reply.is_complete());
  const auto parsed = json::parse(reply.reply({}, {}).body);
  CHECK(parsed["object"] == "list");
  CHECK(parsed["model"] == "m\"");
  REQUIRE(parsed["data"].size() == 2);
  CHECK(parsed["data"][0] ==
        json{{"object", "embedding"}, {"index", 0}, {"embedding", json::array({-0.25})}});
  CHECK(parsed["data"][1]["index"] == 1);
  CHECK(parsed["usage"] == json{{"prompt_tokens", 7}, {"total_tokens", 7}});
}

TEST_CASE("both formats carry the same float32, bit for bit") {
  embedding_reply numbers("m", embedding_format::numbers, 1);
  embedding_reply text("m", embedding_format::base64, 1);
  numbers.add(embedding_end(0, awkward, 1));
  text.add(embedding_end(0, awkward, 1));
  const auto as_numbers = json::parse(numbers.body())["data"][0]["embedding"];
  std::vector<float> read;
  for (const auto& v : as_numbers) {
    read.push_back(v.get<float>());
  }
  const auto bytes =
      text::bytes_of_base64(json::parse(text.body())["data"][0]["embedding"].get<std::string>());
  REQUIRE(bytes);
  REQUIRE(bytes->size() == awkward.size() * sizeof(float));
  REQUIRE(read.size() == awkward.size());
  CHECK(std::memcmp(bytes->data(), awkward.data(), bytes->size()) == 0);
  CHECK(std::memcmp(read.data(), awkward.data(), bytes->size()) == 0);
}
