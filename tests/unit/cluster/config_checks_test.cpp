// What the tables of a nodes.toml say of one another.
#include "cluster/config.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

TEST_CASE("worker models alone are a cluster, of this machine") {
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
