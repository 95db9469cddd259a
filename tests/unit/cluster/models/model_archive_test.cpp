// TorchServe archives: their manifests, and the resulting [[workers]] table.
#include "cluster/config/readers/config_file.hpp"
#include "cluster/config/readers/config_repository.hpp"
#include "cluster/models/packed_files.hpp"
#include "cluster/models/store_models.hpp"
#include "cluster/models/torchserve/torchserve_worker.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

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

enum class packed { zip, tar, tar_gz };

fs::path write_archive(const fs::path& path, const files& all, packed as = packed::zip) {
  fs::remove(path);
  const std::unique_ptr<archive, decltype(&archive_write_free)> out(archive_write_new(),
                                                                    &archive_write_free);
  if (as == packed::zip)
    archive_write_set_format_zip(out.get());
  else
    archive_write_set_format_pax_restricted(out.get());
  if (as == packed::tar_gz)
    archive_write_add_filter_gzip(out.get());
  REQUIRE(archive_write_open_filename(out.get(), path.c_str()) == ARCHIVE_OK);
  for (const auto& [name, text] : all) {
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(),
                                                                              &archive_entry_free);
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_size(entry.get(), static_cast<std::int64_t>(text.size()));
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    REQUIRE(archive_write_header(out.get(), entry.get()) == ARCHIVE_OK);
    REQUIRE(archive_write_data(out.get(), text.data(), text.size()) ==
            static_cast<la_ssize_t>(text.size()));
  }
  REQUIRE(archive_write_close(out.get()) == ARCHIVE_OK);
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

stored_model made(const model_archive& from, const model_settings& given = {},
                  std::uint32_t workers = 0, const std::string& name = "") {
  auto model = model_of_archive(from, name, given, store_config(), workers);
  REQUIRE_MESSAGE(model, model.error().message);
  return *model;
}

std::string settings_refusal(std::string settings, const model_settings& given = {}) {
  auto model = model_of_archive(words(std::move(settings)), "", given, store_config(), 0);
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
  for (const auto* name : {".hidden.mar", "a b.mar", "c.tar.gz", "d.tgz"})
    std::ofstream(here.path / name) << "x";
  CHECK(archives_of(here.path).value() ==
        std::vector<std::string>{"a b.mar", "c.tar.gz", "d.tgz", "plain", "words.mar"});
  const auto in_memory = bytes_of(here.path / "words.mar");
  CHECK(read_archive_bytes(in_memory)->settings == packed->settings);
  for (std::size_t cut : {std::size_t{0}, std::size_t{10}, in_memory.size() / 2})
    CHECK_FALSE(read_archive_bytes(std::string_view(in_memory).substr(0, cut)));
}

TEST_CASE("an archive is recognised by its bytes, not by its name") {
  const folder here;
  for (const auto as : {packed::zip, packed::tar, packed::tar_gz})
    for (const std::string top : {"", "./", "words/"}) {
      CAPTURE(static_cast<int>(as));
      CAPTURE(top);
      // In the order of torch-model-archiver --archive-format tgz, the manifest comes last.
      const auto path = write_archive(here.path / "a",
                                      {{top + "weights.bin", std::string(100'000, 'w')},
                                       {top + "model-config.yaml", "batchSize: 4\n"},
                                       {top + "MAR-INF/MANIFEST.json", manifest}},
                                      as);
      const auto read = read_model_archive(path);
      REQUIRE_MESSAGE(read, read.error().message);
      CHECK(read->model == "words");
      CHECK(read->settings == "batchSize: 4\n");
      CHECK(read_archive_bytes(bytes_of(path))->settings == read->settings);
    }
  const auto cut = bytes_of(
      write_archive(here.path / "b", {{"words/MAR-INF/MANIFEST.json", manifest}}, packed::tar_gz));
  for (std::size_t size : {std::size_t{2}, std::size_t{20}, cut.size() / 2})
    CHECK_FALSE(read_archive_bytes(std::string_view(cut).substr(0, size)));
}

TEST_CASE("an archive that expands too far or nests too deep is refused") {
  const folder here;
  const auto why = [&](const files& all) {
    const auto read = read_model_archive(write_archive(here.path / "m", all, packed::tar_gz));
    REQUIRE_FALSE(read);
    return read.error().message;
  };
  CHECK(why({{"zeros", std::string(packed_files::ratio_free + 1, '\0')},
             {"MAR-INF/MANIFEST.json", manifest}})
            .find("200 times") != std::string::npos);
  CHECK(why({{"a/b/MAR-INF/MANIFEST.json", manifest}}).find("is not in it") != std::string::npos);
  CHECK(why({{"xMAR-INF/MANIFEST.json", manifest}}).find("is not in it") != std::string::npos);
}

TEST_CASE("a file that is no archive is refused with its reason") {
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

TEST_CASE("a client's value applies where the archive has none") {
  model_settings given;
  given.batch_size = 8;
  given.max_batch_delay = 10;
  given.workers_min = 3;
  given.handler = "other.py:f";
  const auto m = made(words("batchSize: 4\nminWorkers: 1\n"), given, 0, "mine");
  CHECK(m.name == "mine");
  CHECK(m.version.worker.batch_size == 4);
  CHECK(m.version.worker.max_batch_delay == std::chrono::milliseconds(10));
  CHECK(m.version.workers == 3);
  CHECK(m.version.worker.command.back() == "other.py:f");
  CHECK(made(words()).version.workers == 0);
  CHECK(made(words(), {}, 1).version.workers == 1);
  CHECK(made(words()).version.worker.response_timeout == std::chrono::seconds(120));
}

TEST_CASE("settings of [[model_store.models]] apply where archive and client have none") {
  store_config store;
  store.path = "store";
  archive_settings one{.model = "words", .version = "1.0", .settings = {}};
  one.settings.batch_size = 8;
  one.settings.max_batch_delay = 10;
  one.settings.response_timeout = 60;
  one.settings.workers_min = 2;
  store.models = {one};
  const auto archive = words("batchSize: 4\n");
  CHECK(configured_of(archive, store).workers_min == 2);
  const auto m = model_of_archive(archive, "", {}, store, 1);
  REQUIRE_MESSAGE(m, m.error().message);
  CHECK(m->version.worker.batch_size == 4);
  CHECK(m->version.worker.max_batch_delay == std::chrono::milliseconds(10));
  CHECK(m->version.worker.response_timeout == std::chrono::seconds(60));
  store.models[0].version = "2.0";
  CHECK_FALSE(configured_of(archive, store).workers_min);
}

TEST_CASE("unsupported worker settings are refused by key") {
  CHECK(settings_refusal("continuousBatching: true\n").find("continuousBatching") !=
        std::string::npos);
  CHECK(settings_refusal("sequenceBatching: true\n").find("sequenceBatching") != std::string::npos);
  CHECK(settings_refusal("asyncCommunication: true\n").find("asyncCommunication") !=
        std::string::npos);
  CHECK(settings_refusal("batchSize: many\n").find("batchSize") != std::string::npos);
  CHECK(settings_refusal("- a\n").find("no map") != std::string::npos);
  model_settings given;
  given.batch_size = 1u << 30;
  CHECK(settings_refusal("", given).find("batch_size") != std::string::npos);
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
  CHECK(one.is_group()); // its handler still reads RANK
  CHECK(one.parallel_level == 1);
  const auto custom = made(words("parallelType: custom\nparallelLevel: 2\n")).version.worker;
  CHECK_FALSE(custom.is_group());
  CHECK(custom.parallel == parallel_type::custom);
  CHECK(custom.parallel_level == 2);
  CHECK(made(words("minWorkers: 1\n")).version.worker.parallel == parallel_type::none);
}

TEST_CASE("workers of several devices use deviceIds, or none for deviceType cpu") {
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

TEST_CASE("group settings without effect are refused, or reported") {
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
  CHECK(single->parallel == parallel_type::none); // of TorchServe as well
  CHECK(single->notes.size() == 1);
  const auto left = read_torchserve_settings(
      "parallelType: pp\ntorchrun: {nproc-per-node: 2, rdzv-backend: c10d}\n");
  REQUIRE(left->notes.size() == 1);
  CHECK(left->notes[0].find("torchrun.rdzv-backend") != std::string::npos);
}

TEST_CASE("[model_store] is read, and errors are refused") {
  const auto read = [](const std::string& text) {
    return parse_config("[model]\nname = \"m\"\npath = \"m.gguf\"\n[model_store]\n" + text, "n");
  };
  const auto config = read("path = \"store\"\nload_models = [\"a.mar\", \"b=c.mar\", \"all\"]\n");
  REQUIRE_MESSAGE(config, config.error().message);
  CHECK(config->store->path == "store");
  CHECK(config->store->load_models.size() == 3);
  CHECK(config->has_changing_models());
  CHECK(read("").error().param == "model_store.path");
  for (const auto* pattern : {"(", "[a-", "a**", "(?P<n", "*"}) {
    const auto wrong =
        read(fmt::format("path = \"s\"\nallowed_urls = [\"file://.*\", \"{}\"]", pattern));
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().param == "model_store.allowed_urls");
    CHECK(wrong.error().message.find(fmt::format("'{}'", pattern)) != std::string::npos);
  }
  CHECK(read("path = \"s\"\nallowed_urls = ['https://(?!x)[\\w.]+/(?P<f>.*)\\.mar']"));
  CHECK(read("path = \"s\"\nload_models = [\"../a.mar\"]\n").error().param ==
        "model_store.load_models");
  CHECK(read("path = \"s\"\nload = 1\n").error().code == errc::unknown_key);
  const auto further =
      read("path = \"s\"\nload_models = [\"https://h/a.mar?k=v\", \"m=file:///a.tgz\"]\n"
           "allowed_urls = [\"https://h/.*\"]\ninstall_py_dep_per_model = true\n"
           "install_timeout = 7\n");
  REQUIRE_MESSAGE(further, further.error().message);
  CHECK(further->store->allowed_urls == std::vector<std::string>{"https://h/.*"});
  CHECK(config->store->allowed_urls == std::vector<std::string>{"file://.*|http(s)?://.*"});
  CHECK(read_store_load(further->store->load_models[0]).archive == "https://h/a.mar?k=v");
  CHECK(read_store_load(further->store->load_models[1]).model == "m");
  CHECK(read("path = \"s\"\nload_models = [\"ftp://h/a.mar\"]\n").error().param ==
        "model_store.load_models");
  const std::string own = "path = \"s\"\n[[model_store.models]]\nname = \"a\"\nbatch_size = 4\n";
  REQUIRE(read(own));
  CHECK(read(own)->store->models.at(0).settings.batch_size == 4);
  CHECK(read(own + "[[model_store.models]]\nname = \"a\"\n").error().param ==
        "model_store.models[1].name");
  CHECK(read("path = \"s\"\nmodels = 1\n").error().param == "model_store.models");
  CHECK(read(own + "batchsize = 4\n").error().code == errc::unknown_key);
}

TEST_CASE("an archive's requirementsFile is installed where the store allows it") {
  auto archive = words();
  archive.requirements = "requirements.txt";
  store_config store;
  const auto with = [&] {
    return model_of_archive(archive, "", {}, store, 0).value().version.worker;
  };
  CHECK(with().command.back() == fs::absolute("store/words.mar").string());
  CHECK(with().startup_timeout == std::chrono::seconds(120));
  store.install_py_dep_per_model = true;
  CHECK(with().command.back() == "--install-requirements=600");
  CHECK(with().startup_timeout == std::chrono::seconds(720));
  store.install_timeout = 86400;
  CHECK(with().startup_timeout == std::chrono::seconds(86400));
  archive.requirements.clear();
  CHECK(with().startup_timeout == std::chrono::seconds(120));
  CHECK(read_torchserve_settings("useVenv: true\n")->notes.empty());
  CHECK(settings_refusal("useVenv: some\n").find("useVenv") != std::string::npos);
}

TEST_CASE("a model from a URL is identified by it") {
  auto archive = words();
  CHECK(made(archive).version.archive == "words.mar");
  archive.url = "https://h/words.mar?k=v";
  CHECK(made(archive).version.archive == archive.url);
}
