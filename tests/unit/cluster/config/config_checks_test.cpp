// Checks between the tables of a nodes.toml.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

TEST_CASE("worker models alone are a valid cluster, on this machine") {
  const std::string workers = "[[workers]]\nname = \"w\"\ncommand = [\"/bin/true\"]\n";
  const auto c = parse_config(workers, "alone.toml");
  REQUIRE_MESSAGE(c, c.error().message);
  CHECK(c->models.empty());
  CHECK(c->nodes.empty());
  CHECK(parse_config("[model_repository]\npath = \"models\"\n", "alone.toml"));
  const auto refused = [](const std::string& text) {
    const auto r = parse_config(text, "alone.toml");
    REQUIRE_FALSE(r);
    return r.error().param;
  };
  CHECK(refused("[gateway]\nhttp = \"127.0.0.1:1\"\n") == "model");
  CHECK(refused("models = []\n" + workers) == "models");
  CHECK(refused(workers + "[[nodes]]\nname = \"a\"\ndevices = [\"cpu\"]\n") == "nodes");
  CHECK(refused(workers + "[cluster]\nhost = \"10.0.0.1\"\n") == "cluster.host");
}
namespace {

// With one more line in [cluster] or [gateway].
result<cluster_config> with_line(const char* table, const std::string& line) {
  return parse_config(
      fmt::format("[{}]\n{}\n[model]\nname = \"m\"\npath = \"a.gguf\"\n", table, line), "x.toml");
}

} // namespace

TEST_CASE("the log level is one of five, for all processes") {
  CHECK(with_line("cluster", "")->log_level == "info");
  for (const auto* level : {"debug", "info", "warn", "error", "off"}) {
    CAPTURE(level);
    const auto c = with_line("cluster", fmt::format("log_level = \"{}\"", level));
    REQUIRE(c);
    CHECK(c->log_level == level);
  }
  for (const auto* level : {"", "trace", "INFO", "warning"}) {
    CAPTURE(level);
    const auto c = with_line("cluster", fmt::format("log_level = \"{}\"", level));
    REQUIRE_FALSE(c);
    CHECK(c.error().param == "cluster.log_level");
    CHECK(c.error().message.find("debug, info, warn, error, off") != std::string::npos);
  }
  CHECK(with_line("gateway", "")->gateway.access_log);
  CHECK_FALSE(with_line("gateway", "access_log = false")->gateway.access_log);
}

TEST_CASE("TGI's names for the one model are valid aliases") {
  const std::vector<std::string> known{"dummy", "tgi"};
  CHECK(with_line("gateway", "")->gateway.placeholder_models == known);
  CHECK(with_line("gateway", "placeholder_models = []")->gateway.placeholder_models.empty());
  for (const auto* wrong : {"\"any\"", "[\"\"]", "[\"a b\"]", "true"}) {
    CAPTURE(wrong);
    const auto c = with_line("gateway", fmt::format("placeholder_models = {}", wrong));
    REQUIRE_FALSE(c);
    CHECK(c.error().param == "gateway.placeholder_models");
  }
}
