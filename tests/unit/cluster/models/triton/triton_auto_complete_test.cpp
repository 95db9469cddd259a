#include "cluster/formats/pbtxt.hpp"
#include "cluster/models/repository_scan.hpp"
#include "cluster/models/triton/triton_auto_complete.hpp"
#include "cluster/models/triton/triton_directory.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace baton;
using namespace baton::cluster;

namespace {

// A repository with one Python model, and a python3 on the PATH that prints `answer`.
class hooked_model {
public:
  explicit hooked_model(const std::string& answer) {
    write("repository/m/1/model.py", "def auto_complete_config(config): ...\n");
    write("bin/python3", "#!/bin/sh\necho asked >> " + asked().string() +
                             "\necho printed by the model\ncat <<'END'\n" + answer + "\nEND\n");
    std::filesystem::permissions(place_.path() / "bin/python3", std::filesystem::perms::owner_all);
    setenv("PATH", ((place_.path() / "bin").string() + ":" + before_).c_str(), 1);
  }
  ~hooked_model() { setenv("PATH", before_.c_str(), 1); }

  void write(const std::string& file, const std::string& text) const {
    const auto path = place_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  scanned_version scan() const {
    const auto there = read_model_repository(place_.path() / "repository");
    REQUIRE(there);
    return scan_repository(*there, {}).at("m").front();
  }
  result<imported_config> import() const {
    auto model = read_triton_model(place_.path() / "repository/m");
    REQUIRE_MESSAGE(model, model.error().message);
    return import_triton_worker(*model);
  }
  std::ptrdiff_t times_asked() const {
    std::ifstream in(asked());
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  }

private:
  std::filesystem::path asked() const { return place_.path() / "asked"; }

  baton::testing::scratch_directory place_;
  std::string before_ = std::getenv("PATH");
};

constexpr const char* whole_answer =
    R"(completed max_batch_size: 8 input { name: "IN" data_type: "TYPE_FP32" dims: 2 } )"
    R"(output { name: "OUT" data_type: "TYPE_STRING" dims: 1 } dynamic_batching {  })";

} // namespace

TEST_CASE("auto_complete_config of a model.py sets tensors and batches") {
  const hooked_model of(whole_answer);
  const auto v = of.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.max_batch_size == 8);
  CHECK(v.worker.batch_size == 8);
  REQUIRE(v.worker.inputs.size() == 1);
  CHECK(v.worker.inputs.front() == gateway::worker_tensor{"IN", "FP32", {2}, false});
  CHECK(v.worker.outputs.front() == gateway::worker_tensor{"OUT", "BYTES", {1}, false});
  CHECK(v.worker.command[2] == "baton_worker.triton");
}

TEST_CASE("a completed field takes the place of that in config.pbtxt, and the rest stays") {
  const hooked_model of(whole_answer);
  of.write("repository/m/config.pbtxt",
           "max_batch_size: 2 input { name: \"IN\" data_type: TYPE_FP32 } "
           "instance_group { count: 3 kind: KIND_CPU } "
           "parameters { key: \"k\" value { string_value: \"a \\\"b\\\" \\n\" } }");
  const auto v = of.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.max_batch_size == 8);
  CHECK(v.worker.inputs.size() == 1);
  CHECK(v.worker.count == 3);
  CHECK(v.table.find("string_value") != std::string::npos);
}

TEST_CASE("a model is asked once for the same files, and not without the hook") {
  const hooked_model of(whole_answer);
  for (int i = 0; i < 3; ++i)
    CHECK(of.scan().refusal.empty());
  CHECK(of.times_asked() == 1);
  of.write("repository/m/config.pbtxt", "backend: \"python\" max_batch_size: 1");
  CHECK(of.scan().refusal.empty());
  CHECK(of.times_asked() == 2);
  of.write("repository/m/1/model.py", "class TritonPythonModel: ...\n");
  CHECK(of.scan().worker.max_batch_size == 1);
  CHECK(of.times_asked() == 2);
}

TEST_CASE("a model whose hook fails is refused, and one that cannot be asked is served") {
  const hooked_model fails("failed ValueError: config.pbtxt says max_batch_size 8");
  CHECK(fails.scan().refusal ==
        "auto_complete_config of model.py: ValueError: config.pbtxt says max_batch_size 8");
  const auto is_noted = [](const imported_config& made, const std::string& why) {
    return std::any_of(made.notes.begin(), made.notes.end(), [&](const std::string& note) {
      return note.find("WAS NOT ASKED (" + why + ")") != std::string::npos;
    });
  };
  for (const auto* answer : {"unable No module named 'torch'", "python3: No module named baton"}) {
    const hooked_model unable(answer);
    const auto made = unable.import();
    REQUIRE_MESSAGE(made, made.error().message);
    CHECK(is_noted(*made, std::string(answer).substr(answer[0] == 'u' ? 7 : 0)));
  }
}

TEST_CASE("a model outside of its version's directory is not asked") {
  const hooked_model of(whole_answer);
  of.write("repository/m/config.pbtxt",
           "backend: \"python\" default_model_filename: \"../1/model.py\"");
  CHECK(of.scan().refusal.find("leads out of the version's directory") != std::string::npos);
  CHECK(of.times_asked() == 0);
}

TEST_CASE("config.pbtxt is written as it was read") {
  const auto read = parse_pbtxt("a: 1 a: [2, -3] b { c: \"x\\\"\\\\\\n\\303\\251\" } b { } d: true "
                                "e: KIND_CPU f: 1.5");
  REQUIRE(read);
  const auto again = parse_pbtxt(pbtxt_text(*read));
  REQUIRE_MESSAGE(again, again.error().message);
  CHECK(*again == *read);
}
