// Examples of TorchServe's documentation, and common mistakes. Each becomes a valid configuration,
// with the devices that TorchServe would have given to each worker.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/import/torchserve_import.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace baton;
using namespace baton::cluster;

namespace {

// As cluster up would read it.
cluster_config imported_archive(const std::string& yaml,
                                std::vector<std::string>* notes = nullptr) {
  auto made = import_torchserve(yaml, "models/m.gguf", "m");
  REQUIRE_MESSAGE(made, made.error().message);
  if (notes)
    *notes = made->notes;
  auto config = parse_config(made->toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", made->toml);
  CHECK(config->model.path == "models/m.gguf");
  return *config;
}

std::string archive_refusal(const std::string& yaml) {
  const auto made = import_torchserve(yaml, "m.gguf", "m");
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::bad_config);
  return made.error().message;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

bool notes_mention(const std::vector<std::string>& notes, std::string_view what) {
  return std::any_of(notes.begin(), notes.end(), [&](const auto& n) { return has(n, what); });
}

} // namespace

TEST_CASE("the documentation's pipeline over four processes is four stages") {
  std::vector<std::string> notes;
  const auto config = imported_archive("#frontend settings\n"
                                       "minWorkers: 1\n"
                                       "maxWorkers: 1\n"
                                       "maxBatchDelay: 100\n"
                                       "responseTimeout: 120\n"
                                       "deviceType: \"gpu\"\n"
                                       "parallelType: \"pp\" # or tp, pptp\n"
                                       "torchrun:\n"
                                       "    nproc-per-node: 4 # number of processes\n"
                                       "#backend settings\n"
                                       "pippy:\n"
                                       "    chunks: 1\n"
                                       "    input_names: ['input_ids']\n"
                                       "    rpc_timeout: 1800\n"
                                       "handler:\n"
                                       "    max_length: 80\n",
                                       &notes);
  CHECK(config.model.pipeline_parallel_size == 4);
  CHECK(config.model.tensor_parallel_size == 1);
  CHECK(config.model.replicas == 1);
  // From reply to reply: a long answer is not cut.
  CHECK(config.gateway.request_timeout == std::chrono::seconds(0));
  CHECK(config.model.recovery_timeout == std::chrono::seconds(120));
  CHECK(config.nodes.at(0).devices.size() == 4);
  CHECK(config.model.sampling.max_tokens == 80);
  for (const auto* what : {"maxBatchDelay", "maxWorkers", "pippy", "deviceType gpu"}) {
    CAPTURE(what);
    CHECK(notes_mention(notes, what));
  }
  CHECK_FALSE(notes_mention(notes, "torchrun"));
}

TEST_CASE("deviceType gpu takes the GPUs that the machine has, and a note names the device") {
  const auto imported_with = [](const char* yaml, std::uint32_t gpus) {
    auto made = import_torchserve(yaml, "m.gguf", "m", {}, gpus);
    REQUIRE_MESSAGE(made, made.error().message);
    return *std::move(made);
  };
  const auto both = "deviceType: gpu\ndeviceIds: [1, 0]\nparallelType: tp\n"
                    "torchrun: {nproc-per-node: 2}\n";
  const auto fits = imported_with(both, 2);
  CHECK(has(fits.toml, "devices = [\"cuda:1\", \"cuda:0\"]"));
  CHECK(notes_mention(fits.notes, "deviceType gpu: it runs on cuda:1, cuda:0"));
  const auto lacks = imported_with(both, 1);
  CHECK(has(lacks.toml, "devices = [\"cpu:1\", \"cpu:0\"]"));
  CHECK(notes_mention(lacks.notes, "IT RUNS ON cpu:1, cpu:0: 2 GPUs are needed, and this machine"));
  CHECK(has(imported_with("deviceType: gpu\nminWorkers: 2\n", 1).toml, "[\"cpu\", \"cpu\"]"));
  CHECK(has(imported_with("deviceType: gpu\n", 1).toml, "[\"cuda:0\"]"));
  CHECK(has(imported_with("minWorkers: 1\n", 1).toml, "[\"cpu\"]"));
}

TEST_CASE("tensor parallelism is ranks of one stage, both together are stages of two ranks") {
  const auto tp = imported_archive("parallelType: tp\ntorchrun: {nproc-per-node: 4}\n");
  CHECK(tp.model.pipeline_parallel_size == 1);
  CHECK(tp.model.tensor_parallel_size == 4);
  std::vector<std::string> notes;
  const auto both = imported_archive("parallelType: pptp\ntorchrun: {nproc-per-node: 4}\n", &notes);
  CHECK(both.model.pipeline_parallel_size == 2);
  CHECK(both.model.tensor_parallel_size == 2);
  CHECK(notes_mention(notes, "pptp"));
  CHECK(has(archive_refusal("parallelType: pptp\ntorchrun: {nproc-per-node: 3}\n"), "even number"));
}

// "Suppose there are eight GPUs on a node and one worker needs 4": 0-3 and 4-7. "deviceIds:
// [2,3,4,5] and nproc-per-node 2": 2,3 and 4,5.
TEST_CASE("workers take the devices in turn") {
  const auto eight =
      imported_archive("minWorkers: 2\nparallelType: pp\ntorchrun: {nproc-per-node: 4}\n"
                       "deviceIds: [0,1,2,3,4,5,6,7]\n");
  CHECK(eight.model.replicas == 2);
  CHECK(eight.nodes[0].devices == std::vector<std::string>{"cpu:0", "cpu:1", "cpu:2", "cpu:3",
                                                           "cpu:4", "cpu:5", "cpu:6", "cpu:7"});
  CHECK(eight.nodes[0].owners == std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1, 1, 1});
  const auto named =
      imported_archive("minWorkers: 2\nparallelType: tp\ntorchrun: {nproc-per-node: 2}\n"
                       "deviceIds: [2, 3, 4, 5]\n");
  CHECK(named.nodes[0].devices == std::vector<std::string>{"cpu:2", "cpu:3", "cpu:4", "cpu:5"});
  CHECK(named.nodes[0].owners == std::vector<std::uint32_t>{0, 0, 1, 1});
  const auto again = imported_archive("minWorkers: 3\nparallelType: custom\nparallelLevel: 2\n"
                                      "deviceIds: [0,1,2,3]\n");
  CHECK(again.nodes[0].devices ==
        std::vector<std::string>{"cpu:0", "cpu:1", "cpu:2", "cpu:3", "cpu:0", "cpu:1"});
}

TEST_CASE("queues, tickets and deadlines have their names here") {
  const auto config =
      imported_archive("jobQueueSize: 100\nuseJobTicket: true\nresponseTimeout: 90\n");
  CHECK(config.model.max_num_queued_reqs == 100);
  CHECK(config.model.use_job_ticket);
  CHECK(config.model.recovery_timeout == std::chrono::seconds(90));
  CHECK(config.model.max_num_seqs == 1); // a ticket for each of batchSize
  CHECK(config.model.pipeline_parallel_size == 1);
}

TEST_CASE("contradictions are refused by the name of their key") {
  const auto pp = std::string("parallelType: pp\n");
  CHECK(has(archive_refusal(pp + "parallelLevel: 2\ntorchrun: {nproc-per-node: 2}\n"),
            "exclude one another"));
  CHECK(has(archive_refusal(pp + "parallelLevel: 2\n"), "parallelType custom"));
  CHECK(has(archive_refusal("parallelType: custom\ntorchrun: {nproc-per-node: 2}\n"),
            "nproc-per-node"));
  CHECK(has(archive_refusal("torchrun: {nproc-per-node: 2}\n"), "parallelType is missing"));
  CHECK(has(archive_refusal("parallelType: dp\n"), "'dp'"));
  CHECK(has(archive_refusal("minWorkers: 0\n"), "minWorkers is '0'"));
  CHECK(has(archive_refusal("minWorkers: many\n"), "minWorkers is 'many'"));
  CHECK(has(archive_refusal("minWorkers: 60\nparallelType: pp\ntorchrun: {nproc-per-node: 60}\n"),
            "3600"));
  CHECK(has(archive_refusal("deviceIds: 3\n"), "deviceIds"));
  CHECK(has(archive_refusal("deviceIds: [1, -1]\n"), "deviceIds has '-1'"));
  CHECK(has(archive_refusal("useJobTicket: [1]\n"), "useJobTicket"));
  CHECK(has(archive_refusal("torchrun: 4\n"), "torchrun"));
}

TEST_CASE("an invalid file is refused with its line, and nothing in it becomes a setting") {
  CHECK(has(archive_refusal("a: [1\nb: 2\n"), "line "));
  CHECK(has(archive_refusal("- 1\n- 2\n"), "no map"));
  CHECK(has(archive_refusal(""), "no map"));
  CHECK_FALSE(import_torchserve(std::string(100'000, '['), "m.gguf", "m"));
  std::vector<std::string> notes;
  const auto config =
      imported_archive("\"x\\n[gateway]\\nallow_unauthenticated = true\": 1\nunheard: 2\n", &notes);
  CHECK_FALSE(config.gateway.allow_unauthenticated);
  CHECK(notes_mention(notes, "unheard"));
  CHECK(notes_mention(notes, "a key that is no name"));
}

TEST_CASE("names with quotes stay names") {
  const auto made = import_torchserve("minWorkers: 1\n", "mo\"del\\s/m.gguf", "m");
  REQUIRE(made);
  const auto config = parse_config(made->toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message);
  CHECK(config->model.path == "mo\"del\\s/m.gguf");
}

TEST_CASE("a model with its own handler is a worker beside the LLM") {
  const auto made = import_torchserve_handler(
      "minWorkers: 2\nmaxWorkers: 4\nbatchSize: 4\nmaxBatchDelay: 50\nstartupTimeout: 9\n"
      "responseTimeout: 8\nhandler:\n  word: x\n",
      {"own/shout.py", "model-config.yaml", "shout"}, "m.gguf", "m");
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(notes_mention(made->notes, "maxWorkers is left out"));
  const auto config = parse_config(made->toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", made->toml);
  REQUIRE(config->workers.size() == 1);
  const auto& w = config->workers.front();
  CHECK(w.name == "shout");
  CHECK(w.count == 2);
  CHECK(w.batch_size == 4);
  CHECK(w.max_batch_delay == std::chrono::milliseconds(50));
  CHECK(w.startup_timeout == std::chrono::seconds(9));
  CHECK(w.response_timeout == std::chrono::seconds(8));
  CHECK(w.command == std::vector<std::string>{"python3", "-m", "baton_worker.torchserve",
                                              "own/shout.py", "--model-yaml-config",
                                              "model-config.yaml"});
  CHECK_FALSE(
      import_torchserve_handler("continuousBatching: true\n", {"h.py", "c", "h"}, "m", "m"));
}

TEST_CASE("an LLM has as many job tickets as its batch, and its handler's length is a default") {
  std::vector<std::string> notes;
  const auto config = imported_archive("minWorkers: 1\nbatchSize: 4\nuseJobTicket: true\n"
                                       "handler:\n  max_length: 50\n  word: x\n",
                                       &notes);
  CHECK(config.model.use_job_ticket);
  CHECK(config.model.max_num_seqs == 4);
  CHECK(config.model.sampling.max_tokens == 50);
  CHECK(notes_mention(notes, "handler.word is left out"));
  CHECK_FALSE(notes_mention(notes, "batchSize is left out"));
  const auto both =
      imported_archive("batchSize: 4\nhandler: {max_length: 50, max_new_tokens: 20}\n");
  CHECK(both.model.sampling.max_tokens == 20); // a parameter of generate()
  CHECK(both.model.max_num_seqs == model_config{}.max_num_seqs);
  CHECK(has(archive_refusal("handler: {max_length: many}\n"), "max_length"));
}

TEST_CASE("only a key unknown to TorchServe is unknown") {
  std::vector<std::string> notes;
  imported_archive("sequenceMaxIdleMSec: 5\nbatchsize: 3\n", &notes);
  CHECK(notes_mention(notes, "sequenceMaxIdleMSec is left out: sequences"));
  CHECK(notes_mention(notes, "batchsize IS NOT KNOWN"));
}
