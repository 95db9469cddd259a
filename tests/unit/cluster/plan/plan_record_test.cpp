// The recorded plan is a file: one that this build could not have written counts as none.
#include "cluster/config/readers/config_file.hpp"
#include "cluster/plan/plan_record.hpp"
#include "cluster/roles/roles.hpp"
#include "tests/unit/cluster/replaced.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

using namespace baton;
using namespace baton::cluster;
using baton::testing::replaced;

namespace {

const recorded_generations two_stages_recorded{{{3, 2, {"c"}}, std::nullopt}, 5};

struct record_directory {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("plan-record-{}", getpid());
  run_dir dir = *run_dir::open(path);
  ~record_directory() { std::filesystem::remove_all(path); }
};

plan_record one_recorded_pipeline() {
  plan_record record;
  record.build = "1.0";
  record.known = {{root_machine, {{0, 1}, 8ull << 30}}};
  record.pipelines[0] = {7, two_stages_recorded};
  return record;
}

} // namespace

TEST_CASE("a recorded plan is read again, and an impossible one is none") {
  record_directory here;
  REQUIRE(record_plan(here.dir, one_recorded_pipeline()));
  const auto read = recorded_plan(here.dir);
  REQUIRE(read);
  CHECK(read->pipelines.at(0).generations == two_stages_recorded);
  const auto text = *here.dir.read("plan");
  for (const auto& [from, to] :
       {std::pair{"\"width\":1", "\"width\":0"}, std::pair{"\"number\":3", "\"number\":4000000000"},
        std::pair{"\"last\":5", "\"last\":2"}}) {
    CAPTURE(to);
    REQUIRE(here.dir.write("plan", replaced(text, from, to)));
    CHECK_FALSE(recorded_plan(here.dir));
  }
}

TEST_CASE("a recorded pipeline that nodes.toml does not have is refused by number") {
  auto config = parse_config("[model]\nname = \"m\"\npath = \"absent.gguf\"\n", "nodes.toml");
  REQUIRE(config);
  auto record = one_recorded_pipeline();
  record.pipelines[6] = record.pipelines[0];
  const auto refused = check_plans(*config, record);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_config);
  CHECK(refused.error().message.find("pipeline 6") != std::string::npos);
}
