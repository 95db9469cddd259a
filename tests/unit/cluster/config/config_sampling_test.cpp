// [model.sampling] of nodes.toml, and other settings of how requests are read.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "tests/support/drawn_defaults.hpp"

#include <doctest/doctest.h>

using namespace baton;
using testing::drawn;
using namespace baton::cluster;

namespace {

result<cluster_config> config_with(const std::string& of_model,
                                   const std::string& of_gateway = {}) {
  return parse_config("[model]\nname = \"m\"\npath = \"a.gguf\"\n" + of_model + "\n[gateway]\n" +
                          of_gateway + "\n",
                      "x.toml");
}

} // namespace

TEST_CASE("the sampling defaults of a model are a table of their own") {
  CHECK(config_with("")->model.sampling == sampling_defaults());
  CHECK(config_with("")->model.generation_config == "auto");
  const auto c =
      config_with("[model.sampling]\ntemperature = 0.2\ntop_p = 0.9\ntop_k = 0\nmin_p = 0\n"
                  "repetition_penalty = 1.1\nmax_tokens = 512");
  REQUIRE(c);
  CHECK(c->model.sampling == drawn(0.2F, 0, 0.9F, 0.0F, 1.1F, 512));
  const auto none = config_with("generation_config = \"none\"");
  REQUIRE(none);
  CHECK(none->model.generation_config == "none");
}

TEST_CASE("each of several models has its own") {
  const auto c = parse_config("[[models]]\nname = \"a\"\npath = \"a.gguf\"\n[models.sampling]\n"
                              "temperature = 0.5\n[[models]]\nname = \"b\"\npath = \"b.gguf\"\n",
                              "x.toml");
  REQUIRE(c);
  CHECK(c->models[0].sampling.temperature == 0.5F);
  CHECK_FALSE(c->models[1].sampling.temperature);
}

TEST_CASE("a wrong default of sampling is refused with its key") {
  const struct {
    const char* lines;
    errc code;
    const char* param;
    const char* reason;
  } rows[] = {
      {"[model.sampling]\ntemperature = 2.5", errc::bad_config, "model.sampling.temperature",
       "between 0 and 2"},
      {"[model.sampling]\ntop_p = 0", errc::bad_config, "model.sampling.top_p", "above 0"},
      {"[model.sampling]\nrepetition_penalty = 0", errc::bad_config,
       "model.sampling.repetition_penalty", "between 0.01 and 100"},
      {"[model.sampling]\ntop_p = 1e-44", errc::bad_config, "model.sampling.top_p", "above 0"},
      {"[model.sampling]\ntop_k = -1", errc::bad_config, "model.sampling.top_k", "top_k"},
      {"[model.sampling]\nmax_tokens = 0", errc::bad_config, "model.sampling.max_tokens",
       "max_tokens"},
      {"[model.sampling]\ntemprature = 1", errc::unknown_key, "model.sampling.temprature",
       "temperature"},
      {"sampling = 1", errc::bad_config, "model.sampling", "[model.sampling]"},
      {"generation_config = \"vllm\"", errc::bad_config, "model.generation_config", "auto or none"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.lines);
    const auto refused = config_with(row.lines);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == row.code);
    CHECK(refused.error().param == row.param);
    CHECK(refused.error().message.find(row.reason) != std::string::npos);
  }
}

TEST_CASE("parsing of special tokens in raw prompts is a setting of the gateway") {
  CHECK(config_with("")->gateway.parse_special_tokens);
  const auto c = config_with("", "parse_special_tokens = false");
  REQUIRE(c);
  CHECK_FALSE(c->gateway.parse_special_tokens);
}
