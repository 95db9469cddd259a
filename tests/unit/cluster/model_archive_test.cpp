// Archives of TorchServe: what is read of their manifests, and the [[workers]] table of it.
#include "cluster/config_repository.hpp"
#include "cluster/store_models.hpp"
#include "cluster/torchserve_worker.hpp"

#include <doctest/doctest.h>
#include <unistd.h>
#include <zip.h>

#include <filesystem>
#include <fstream>
#include <iterator>

using namespace baton;
using namespace baton::cluster;
namespace fs = std::filesystem;

namespace {

constexpr const char* manifest =
    R"({"runtime": "python", "model": {"modelName": "words", "modelVersion": "1.0",)"
    R"( "handler": "handler.py", "configFile": "model-config.yaml"}})";

struct folder {
  fs::path path = fs::temp_directory_path() / fmt::format("baton-archive-{}", getpid());
  folder() { fs::create_directories(path); }
  ~folder() { fs::remove_all(path); }
};

using files = std::vector<std::pair<std::string, std::string>>;

fs::path write_archive(const fs::path& path, const files& all) {
  fs::remove(path);
  int code = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_CREATE, &code);
  REQUIRE(zip != nullptr);
  for (const auto& [name, text] : all) {
    auto* source = zip_source_buffer(zip, text.data(), text.size(), 0);
    REQUIRE(zip_file_add(zip, name.c_str(), source, 0) >= 0);
  }
  REQUIRE(zip_close(zip) == 0);
  return path;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

model_archive words(std::string settings = "") {
  model_archive a;
  a.path = "store/words.mar";
  a.model = "words";
  a.version = "1.0";
  a.handler = "handler.py";
  a.settings = std::move(settings);
  return a;
}

stored_model made(const model_archive& from, const model_settings& said = {},
                  std::uint32_t workers = 0, const std::string& name = "") {
  auto model = model_of_archive(from, name, said, store_config(), workers);
  REQUIRE_MESSAGE(model, model.error().message);
  return *model;
}

std::string settings_refusal(std::string settings, const model_settings& said = {}) {
  auto model = model_of_archive(words(std::move(settings)), "", said, store_config(), 0);
  REQUIRE_FALSE(model);
  return model.error().message;
}

} // namespace

TEST_CASE("an archive's manifest and settings are read, packed or not") {
  const folder here;
  const files all{{"MAR-INF/MANIFEST.json", manifest}, {"model-config.yaml", "batchSize: 4\n"}};
  const auto packed = read_model_archive(write_archive(here.path / "words.mar", all));
  REQUIRE_MESSAGE(packed, packed.error().message);
  CHECK(packed->model == "words");
  CHECK(packed->version == "1.0");
  CHECK(packed->handler == "handler.py");
  CHECK(packed->settings == "batchSize: 4\n");
  fs::create_directories(here.path / "plain/MAR-INF");
  for (const auto& [name, text] : all)
    std::ofstream(here.path / "plain" / name) << text;
  const auto plain = read_model_archive(here.path / "plain");
  REQUIRE_MESSAGE(plain, plain.error().message);
  CHECK(plain->settings == packed->settings);
  CHECK(plain->digest != packed->digest);
  std::ofstream(here.path / "other.txt") << "x";
  CHECK(archives_of(here.path).value() == std::vector<std::string>{"plain", "words.mar"});
  const auto in_memory = bytes_of(here.path / "words.mar");
  CHECK(read_archive_bytes(in_memory)->settings == packed->settings);
  for (std::size_t cut : {std::size_t{0}, std::size_t{10}, in_memory.size() / 2})
    CHECK_FALSE(read_archive_bytes(std::string_view(in_memory).substr(0, cut)));
}

TEST_CASE("what is no archive is refused with its reason") {
  const folder here;
  const auto why = [&](const files& all) {
    const auto read = read_model_archive(write_archive(here.path / "m.mar", all));
    REQUIRE_FALSE(read);
    CHECK(read.error().code == errc::bad_config);
    return read.error().message;
  };
  CHECK(why({{"a", "b"}}).find("MANIFEST.json is not in it") != std::string::npos);
  CHECK(why({{"MAR-INF/MANIFEST.json", "{}"}}).find("no \"model\"") != std::string::npos);
  CHECK(why({{"MAR-INF/MANIFEST.json", R"({"model": {"modelName": "a b", "modelVersion": "1"}})"}})
            .find("modelName") != std::string::npos);
  CHECK(why({{"MAR-INF/MANIFEST.json",
              R"({"model": {"modelName": "a", "modelVersion": "1", "configFile": "../x"}})"}})
            .find("outside") != std::string::npos);
  CHECK(why({{"MAR-INF/MANIFEST.json", std::string((1u << 20) + 1, ' ')}}).find("larger") !=
        std::string::npos);
  CHECK(why({{"MAR-INF/MANIFEST.json", manifest}}).find("model-config.yaml is not in it") !=
        std::string::npos);
  CHECK(read_model_archive(here.path / "gone.mar").error().code == errc::model_not_found);
}

TEST_CASE("an archive becomes a worker model with the settings of its model-config.yaml") {
  const auto m = made(words("minWorkers: 2\nbatchSize: 4\nmaxBatchDelay: 50\nresponseTimeout: 7\n"
                            "startupTimeout: 8\njobQueueSize: 9\nuseJobTicket: true\n"
                            "handler:\n  word: hello\n"));
  CHECK(m.name == "words");
  CHECK(m.version.version == "1.0");
  CHECK(m.version.workers == 2);
  const auto& w = m.version.worker;
  CHECK(w.batch_size == 4);
  CHECK(w.max_batch_delay == std::chrono::milliseconds(50));
  CHECK(w.response_timeout == std::chrono::seconds(7));
  CHECK(w.startup_timeout == std::chrono::seconds(8));
  CHECK(w.max_queued == 9);
  CHECK(w.use_job_ticket);
  CHECK(w.command == std::vector<std::string>{"python3", "-m", "baton_worker.torchserve",
                                              fs::absolute("store/words.mar").string()});
}

TEST_CASE("what a client says counts where the archive says nothing") {
  model_settings said;
  said.batch_size = 8;
  said.max_batch_delay = 10;
  said.workers_min = 3;
  said.handler = "other.py:f";
  const auto m = made(words("batchSize: 4\nminWorkers: 1\n"), said, 0, "mine");
  CHECK(m.name == "mine");
  CHECK(m.version.worker.batch_size == 4);
  CHECK(m.version.worker.max_batch_delay == std::chrono::milliseconds(10));
  CHECK(m.version.workers == 3);
  CHECK(m.version.worker.command.back() == "other.py:f");
  CHECK(made(words()).version.workers == 0);
  CHECK(made(words(), {}, 1).version.workers == 1);
  CHECK(made(words()).version.worker.response_timeout == std::chrono::seconds(120));
}

TEST_CASE("what a worker here cannot do is refused by its key") {
  CHECK(settings_refusal("continuousBatching: true\n").find("continuousBatching") !=
        std::string::npos);
  CHECK(settings_refusal("sequenceBatching: true\n").find("sequenceBatching") != std::string::npos);
  CHECK(settings_refusal("asyncCommunication: true\n").find("asyncCommunication") !=
        std::string::npos);
  CHECK(settings_refusal("batchSize: many\n").find("batchSize") != std::string::npos);
  CHECK(settings_refusal("- a\n").find("no map") != std::string::npos);
  model_settings said;
  said.batch_size = 1u << 30;
  CHECK(settings_refusal("", said).find("batch_size") != std::string::npos);
  CHECK(read_torchserve_settings("maxWorkers: 4\n")->notes.size() == 1);
  CHECK(read_torchserve_settings("sequenceMaxIdleMSec: 9\nmaxNumSequence: 2\n")->notes.size() == 2);
}

TEST_CASE("parallelType and torchrun make a group of processes") {
  const auto w = made(words("parallelType: tp\ntorchrun:\n  nproc-per-node: 4\n"
                            "  OMP_NUMBER_THREADS: 3\n"))
                     .version.worker;
  CHECK(w.parallel == parallel_type::tp);
  CHECK(w.is_group());
  CHECK(w.parallel_level == 4);
  CHECK(w.omp_num_threads == 3);
  const auto one = made(words("parallelType: pp\ntorchrun: {nproc-per-node: 1}\n")).version.worker;
  CHECK(one.is_group()); // its handler reads RANK all the same
  CHECK(one.parallel_level == 1);
  const auto custom = made(words("parallelType: custom\nparallelLevel: 2\n")).version.worker;
  CHECK_FALSE(custom.is_group());
  CHECK(custom.parallel == parallel_type::custom);
  CHECK(custom.parallel_level == 2);
  CHECK(made(words("minWorkers: 1\n")).version.worker.parallel == parallel_type::none);
}

TEST_CASE("workers of several devices have those of deviceIds, or none of deviceType cpu") {
  const std::string custom = "parallelType: custom\nparallelLevel: 2\n";
  const auto ids = [&](const std::string& more) {
    return made(words(custom + more)).version.worker.device_ids;
  };
  CHECK(ids("deviceType: gpu\ndeviceIds: [4, 5, 6, 7]\n") == std::vector<std::int32_t>{4, 5, 6, 7});
  const auto type = [&](const std::string& yaml) {
    return made(words(yaml)).version.worker.device_type;
  };
  CHECK(type(custom + "deviceType: cpu\ndeviceIds: [4, 5]\n") == device_kind::cpu);
  CHECK(ids("deviceType: cpu\ndeviceIds: [4, 5]\n") == std::nullopt);
  CHECK(ids("deviceType: gpu\n") == std::nullopt);
  CHECK(type(custom + "deviceType: gpu\n") == device_kind::gpu);
  CHECK(type("deviceType: gpu\n") == device_kind::gpu);
  CHECK(type("deviceType: CPU\n") == device_kind::cpu);
  CHECK(type("minWorkers: 1\n") == device_kind::automatic);
  CHECK(made(words("deviceIds: [1, 3]\n")).version.worker.device_ids ==
        std::vector<std::int32_t>{1, 3});
  CHECK(settings_refusal(custom + "deviceIds: [1, 2, 3]\n").find("deviceIds") != std::string::npos);
  CHECK(settings_refusal(custom + "deviceType: tpu\n").find("deviceType") != std::string::npos);
  CHECK(read_torchserve_settings(custom + "deviceType: gpu\n")->notes.empty());
  CHECK(read_torchserve_settings("deviceIds: [1]\n")->notes.empty());
  CHECK(read_torchserve_settings("deviceType: cpu\ndeviceIds: [1]\n")->notes.size() == 1);
}

TEST_CASE("what is said of groups in vain is refused, or told") {
  const auto refused = [](const std::string& yaml, const std::string& key) {
    CAPTURE(yaml);
    CHECK(settings_refusal(yaml).find(key) != std::string::npos);
  };
  refused("parallelType: tp\n", "torchrun.nproc-per-node");
  refused("parallelType: tp\nparallelLevel: 2\n", "torchrun.nproc-per-node");
  refused("parallelType: tp\ntorchrun: {nproc-per-node: 65}\n", "1 to 64");
  refused("parallelType: tp\ntorchrun: {nproc-per-node: 2, nnodes: 2}\n", "torchrun.nnodes");
  refused("parallelType: tp\nparallelLevel: 3\ntorchrun: {nproc-per-node: 2}\n", "parallelLevel");
  refused("parallelType: dp\n", "'dp'");
  const auto single = read_torchserve_settings("torchrun: {nproc-per-node: 4}\n");
  CHECK(single->parallel == parallel_type::none); // of TorchServe's as well
  CHECK(single->notes.size() == 1);
  const auto left = read_torchserve_settings(
      "parallelType: pp\ntorchrun: {nproc-per-node: 2, rdzv-backend: c10d}\n");
  REQUIRE(left->notes.size() == 1);
  CHECK(left->notes[0].find("torchrun.rdzv-backend") != std::string::npos);
}

TEST_CASE("[model_store] is read, and what is none is refused") {
  const auto read = [](const std::string& text) {
    return parse_config("[model]\nname = \"m\"\npath = \"m.gguf\"\n[model_store]\n" + text, "n");
  };
  const auto config = read("path = \"store\"\nload_models = [\"a.mar\", \"b=c.mar\", \"all\"]\n");
  REQUIRE_MESSAGE(config, config.error().message);
  CHECK(config->store->path == "store");
  CHECK(config->store->load_models.size() == 3);
  CHECK(config->has_changing_models());
  CHECK(read("").error().param == "model_store.path");
  CHECK(read("path = \"s\"\nload_models = [\"../a.mar\"]\n").error().param ==
        "model_store.load_models");
  CHECK(read("path = \"s\"\nload = 1\n").error().code == errc::unknown_key);
}
