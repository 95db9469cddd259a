// Context and KV cache for the memory of one machine.
#include "cluster/plan/model_fit.hpp"
#include "tests/unit/cluster/small_model.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

namespace {

constexpr std::uint64_t mib = 1ull << 20;
constexpr std::uint64_t token_bytes = 30ull * 2 * 3 * 64 * 2; // of keys and values, in f16

cluster_config one_device() {
  cluster_config c;
  c.name = "t";
  c.model.name = "m";
  c.nodes = {{"a", "127.0.0.1", {"cpu"}, "", "", false}};
  return c;
}

std::uint64_t weights_in_memory() {
  const auto plan = make_plan(one_device(), small_model(), {{root_machine, {{0, 1}, 8ull << 30}}});
  REQUIRE(plan);
  return bytes_without_kv(plan->shards.at(0));
}

result<model_fit> fitted(std::uint64_t memory, std::uint32_t max_model_len = 0,
                         std::uint32_t trained = 8192) {
  auto config = one_device();
  config.model.max_model_len = max_model_len;
  auto model = small_model();
  model.context_length = trained;
  return fit_model(config, model, {{0, 1}, memory});
}

} // namespace

TEST_CASE("a roomy machine gets the model's context and the default KV cache") {
  const auto fit = fitted(8ull << 30);
  REQUIRE_MESSAGE(fit, fit.error().message);
  CHECK(fit->max_model_len == 8192);
  CHECK(fit->kv_cache_bytes == 512 * mib);
  CHECK(fit->weight_bytes == weights_in_memory());
  CHECK(text_of(*fit).ends_with("of 8.6 GB available; context of 8192 tokens"));
}

TEST_CASE("a long context gets more than the default, and at most half of what weights leave") {
  const auto fit = fitted(8ull << 30, 0, 65536);
  REQUIRE(fit);
  CHECK(fit->max_model_len == 65536);
  CHECK(fit->kv_cache_bytes == 65536 * token_bytes);
  const auto less = fitted(weights_in_memory() + 800 * mib, 0, 65536);
  REQUIRE(less);
  CHECK(less->max_model_len == 400 * mib / (64 * token_bytes) * 64);
  CHECK(less->kv_cache_bytes == 400 * mib);
  CHECK(text_of(*less).ends_with("tokens, of the model's 65536"));
}

TEST_CASE("the planner takes what fits") {
  for (const auto memory : {weights_in_memory() + 25 * mib, weights_in_memory() + 100 * mib,
                            weights_in_memory() + 3000 * mib}) {
    CAPTURE(memory);
    const auto fit = fitted(memory);
    REQUIRE_MESSAGE(fit, fit.error().message);
    auto config = one_device();
    config.model.max_model_len = fit->max_model_len;
    config.model.kv_cache_bytes = fit->kv_cache_bytes;
    CHECK(make_plan(config, small_model(), {{root_machine, {{0, 1}, memory}}}));
  }
}

TEST_CASE("a context that is asked for is kept, or refused with the one that would fit") {
  const auto memory = weights_in_memory() + 100 * mib;
  const auto fit = fitted(memory, 1024);
  REQUIRE(fit);
  CHECK(fit->max_model_len == 1024);
  const auto refused = fitted(memory, 8192);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::does_not_fit);
  CHECK(refused.error().message.find(
            "a context of 2240 tokens, fewer than max_model_len of 8192") != std::string::npos);
}

TEST_CASE("no start with a useless context, nor without room for the weights") {
  const auto small = fitted(weights_in_memory() + 10 * mib);
  REQUIRE_FALSE(small);
  CHECK(small.error().message.find("fewer than the least of 512") != std::string::npos);
  const auto none = fitted(20 * mib);
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("and 21.0 MB are available") != std::string::npos);
  CHECK(fitted(weights_in_memory() + 100 * mib, 0, 256)->max_model_len == 256);
}

TEST_CASE("a file of the size that fits leaves an eighth of the memory") {
  CHECK(file_bytes_that_fit(0) == 0);
  CHECK(file_bytes_that_fit(64 * mib) == 0);
  const auto bytes = file_bytes_that_fit(8ull << 30);
  CHECK(bytes > 5ull << 30);
  CHECK(static_cast<double>(bytes) * weight_overhead + process_bytes <= 7ull << 30);
}
