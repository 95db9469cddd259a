// nodes.toml: its settings; everything else is refused with its position, its key and the nearest
// valid name.
#include "cluster/config/readers/config_file.hpp"
#include "schema/nearest.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

namespace {

const std::string good = R"(
[cluster]
shutdown_timeout = 2.5
[model]
name = "m"
path = "a.gguf"
pipeline_parallel_size = 2
kv_cache_bytes = "64MiB"
use_job_ticket = true
[gateway]
http = "127.0.0.1:9000"
[[nodes]]
name = "a"
devices = ["cpu:0", "cpu:1-2"]
)";

std::string with(std::string from, std::string to) {
  auto text = good;
  auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

} // namespace

TEST_CASE("a configuration is read with its units and defaults") {
  auto c = parse_config(good, "dir/quick.toml");
  REQUIRE(c);
  CHECK(c->name == "quick");
  CHECK(c->shutdown_timeout == std::chrono::milliseconds(2500));
  CHECK(c->node_timeout == std::chrono::seconds(10));
  CHECK(c->model.recovery_timeout == std::chrono::seconds(60));
  CHECK(c->model.pipeline_parallel_size == 2);
  CHECK(c->model.kv_cache_bytes == 64u << 20);
  CHECK(c->model.use_job_ticket);
  CHECK(c->model.swap_space == 0);
  CHECK(c->model.scheduling_policy == "fcfs");
  CHECK(c->model.max_num_seqs == 64);
  CHECK(c->gateway.http == "127.0.0.1:9000");
  REQUIRE(c->nodes.size() == 1);
  CHECK(c->nodes[0].devices == std::vector<std::string>{"cpu:0", "cpu:1-2"});
}

TEST_CASE("the time to wait for an incomplete pipeline is configured, 0 is no limit") {
  auto text = with("shutdown_timeout = 2.5", "node_timeout = 0");
  const auto at = text.find("use_job_ticket");
  auto c = parse_config(text.insert(at, "recovery_timeout = 0.5\n"), "x.toml");
  REQUIRE(c);
  CHECK(c->node_timeout == std::chrono::milliseconds(0));
  CHECK(c->model.recovery_timeout == std::chrono::milliseconds(500));
}

TEST_CASE("Ollama's API has an address of its own where one is configured") {
  CHECK(parse_config(good, "x.toml")->gateway.ollama.empty());
  const auto text = with("[gateway]", "[gateway]\nollama = \"127.0.0.1:11434\"");
  CHECK(parse_config(text, "x.toml")->gateway.ollama == "127.0.0.1:11434");
}

TEST_CASE("the size of a KV cache may depend on the machine") {
  auto c = parse_config(with("64MiB", "auto"), "x.toml");
  REQUIRE(c);
  CHECK_FALSE(c->model.kv_cache_bytes);
}

TEST_CASE("errors in a configuration are refused by key and line") {
  struct row {
    std::string text;
    errc code;
    std::string param;
    std::string reason;
  };
  std::string dots; // toml++ would recurse 32,000 calls deep
  for (int i = 0; i < 32000; ++i)
    dots += ".a";
  const row rows[] = {
      {with("use_job_ticket", "use_job_tickets"), errc::unknown_key, "model.use_job_tickets",
       "did you mean 'use_job_ticket'?"},
      {with("[gateway]", "[gatewya]"), errc::unknown_key, "gatewya", "did you mean 'gateway'?"},
      {with("= 2\n", "= 0\n"), errc::bad_config, "model.pipeline_parallel_size",
       "between 1 and 1024, not 0"},
      {with("= 2\n", "= -1\n"), errc::bad_config, "model.pipeline_parallel_size", "not -1"},
      {with("= 2\n", "= \"2\"\n"), errc::bad_config, "model.pipeline_parallel_size",
       "must be a whole number"},
      {with("64MiB", "64 potatoes"), errc::bad_config, "model.kv_cache_bytes", "512MiB"},
      {with("64MiB", "99999999999999999999GiB"), errc::bad_config, "model.kv_cache_bytes",
       "512MiB"},
      {with("64MiB", "20000000TiB"), errc::bad_config, "model.kv_cache_bytes", "512MiB"},
      {with("use_job_ticket = true", "kv_cache_dtype = \"q4_0\""), errc::bad_config,
       "model.kv_cache_dtype", "'q4_0' must be auto, f16, f32 or q8_0"},
      {with("use_job_ticket = true", "kv_cache_dtype = 8"), errc::bad_config,
       "model.kv_cache_dtype", "must be"},
      {with("use_job_ticket = true", "quantization = \"awq\""), errc::bad_config,
       "model.quantization", "'awq' must be none, fp8 or int4"},
      {with("use_job_ticket = true", "quantization_group_size = 64"), errc::bad_config,
       "model.quantization_group_size", "must be 32 or 128, not 64"},
      {with("use_job_ticket = true", "enforce_eager = 1"), errc::bad_config, "model.enforce_eager",
       "true or false"},
      {with("2.5", "-1"), errc::bad_config, "cluster.shutdown_timeout", "seconds"},
      {with("2.5", "nan"), errc::bad_config, "cluster.shutdown_timeout", "seconds"},
      {with("true", "1"), errc::bad_config, "model.use_job_ticket", "true or false"},
      {with("\"m\"", "\"../m\""), errc::bad_config, "model.name", "A-Za-z0-9"},
      {with("cpu:1-2", "cpu:2-1"), errc::bad_config, "nodes[0].devices", "cpu:2-1"},
      {with("cpu:1-2", "gpu:0"), errc::bad_config, "nodes[0].devices", "cuda:N"},
      {with("name = \"a\"", "name = \"a\"\nhost = \"10.0.0.2\""), errc::bad_config, "cluster.host",
       "node a is on another machine (10.0.0.2)"},
      {with("name = \"a\"", "name = \"a\"\nhost = \"b.example\""), errc::bad_config,
       "nodes[0].host", "give the IPv4 address"},
      {with("name = \"a\"", "name = \"a\"\nhost = \"0.0.0.0\""), errc::bad_config, "nodes[0].host",
       "give the IPv4 address"},
      {with("name = \"a\"", "name = \"a\"\npublic_key = \"12\""), errc::bad_config,
       "nodes[0].public_key", "64 hex digits"},
      {with("name = \"a\"", "name = \"a\"\nlaunch = \"ssh b\""), errc::bad_config,
       "nodes[0].launch", "is on the machine of `cluster up`"},
      {with("2.5", "2.5\nhost = \"*\""), errc::bad_config, "cluster.host", "give the IPv4 address"},
      {with("2.5", "2.5\nport = 60001"), errc::bad_config, "cluster.port", "60000"},
      {with("use_job_ticket = true", "tensor_parallel_size = 17"), errc::bad_config,
       "model.tensor_parallel_size", "between 1 and 16, not 17"},
      {with("use_job_ticket = true", "swap_space = \"4 potatoes\""), errc::bad_config,
       "model.swap_space", "512MiB"},
      {with("use_job_ticket = true", "scheduling_policy = \"lifo\""), errc::bad_config,
       "model.scheduling_policy", "\"fcfs\" or \"priority\""},
      {with("use_job_ticket = true", "pooling = \"max\""), errc::bad_config, "model.pooling",
       "'max' must be mean, last or cls"},
      {with("[gateway]", "[gateway]\nprocesses = 2"), errc::bad_config, "gateway.admin",
       "above 1 needs gateway.admin"},
      {with("[gateway]", "[gateway]\nprocesses = 9\nadmin = \"127.0.0.1:1\""), errc::bad_config,
       "gateway.processes", "between 1 and 8"},
      {with("[gateway]", "[gateway]\noverload_status = 500"), errc::bad_config,
       "gateway.overload_status", "is 500: use 503, 429, 529"},
      {with("[gateway]", "[gateway]\noverload_status = \"429\""), errc::bad_config,
       "gateway.overload_status", "must be a whole number"},
      {with("[gateway]", "[gateway]\nwatermark_gamma = 1"), errc::bad_config,
       "gateway.watermark_gamma", "between 0.01 and 0.99"},
      {with("[gateway]", "[gateway]\notlp_endpoint = \"https://c:4318\""), errc::bad_config,
       "gateway.otlp_endpoint", "http:// alone"},
      {with("[gateway]", "[gateway]\notlp_endpoint = \"c\""), errc::bad_config,
       "gateway.otlp_endpoint", "http://HOST:PORT"},
      {with("[gateway]", "[gateway]\ntrace_sampling_ratio = 1.5"), errc::bad_config,
       "gateway.trace_sampling_ratio", "between 0 and 1"},
      {with("[gateway]", "[gateway]\nwatermark_delta = \"2\""), errc::bad_config,
       "gateway.watermark_delta", "must be a number"},
      {with("path = \"a.gguf\"", ""), errc::bad_config, "model.path", "missing"},
      {with("[[nodes]]", "[nodes]"), errc::bad_config, "nodes", "[[nodes]]"},
      {"nodes = []\n[model]\nname = \"m\"\npath = \"a\"\n", errc::bad_config, "nodes", "[[nodes]]"},
      {"[model", errc::bad_config, "", "quick.toml:1"},
      {"\n[!]\n", errc::bad_config, "", "quick.toml:2"}, // toml++ asserts that this is a key
      {with("path", "\xc3\xa9 = 1\npath"), errc::bad_config, "", "quick.toml:6: characters other"},
      {with("\"a.gguf\"", "\"a\\\xc3\xa9\""), errc::bad_config, "", "quick.toml:6: characters"},
      {with("\"a.gguf\"", "'''a\nb'''"), errc::bad_config, "", "quick.toml:6: write a string"},
      {"\n[a" + dots + "]\n", errc::bad_config, "", "quick.toml:2: more than 16 dots"},
      {"a" + dots + " = 1\n", errc::bad_config, "", "quick.toml:1: more than 16 dots"},
  };
  for (const auto& r : rows) {
    CAPTURE(r.text);
    auto c = parse_config(r.text, "quick.toml");
    REQUIRE_FALSE(c);
    CHECK(c.error().code == r.code);
    CHECK(c.error().param == r.param);
    CHECK(c.error().message.find(r.reason) != std::string::npos);
    CHECK(c.error().message.find("quick.toml") != std::string::npos);
  }
}

TEST_CASE("comments and strings may contain any characters") {
  const auto c =
      parse_config("\xEF\xBB\xBF" + with("\"a.gguf\"", "\"mod\xc3\xa8le \\\" \xe3\x80\x82\""
                                                       " # 'tr\xc3\xa8s \"lourd"),
                   "x.toml");
  REQUIRE_MESSAGE(c, c.error().message);
  CHECK(c->model.path == "mod\xc3\xa8le \" \xe3\x80\x82");
  CHECK(parse_config(with("\"a.gguf\"", "'\\\xc3\xa9'"), "x.toml")); // these have no escapes
}

TEST_CASE("the type of keys and values is configured, f16 by default") {
  const auto read = [](const std::string& text) {
    auto c = parse_config(with("use_job_ticket = true", text), "x.toml");
    REQUIRE(c);
    return c->model.kv_cache_dtype;
  };
  CHECK(read("") == cpu::kv_format::f16);
  CHECK(read("kv_cache_dtype = \"auto\"") == cpu::kv_format::f16);
  CHECK(read("kv_cache_dtype = \"f16\"") == cpu::kv_format::f16);
  CHECK(read("kv_cache_dtype = \"f32\"") == cpu::kv_format::f32);
  CHECK(read("kv_cache_dtype = \"q8_0\"") == cpu::kv_format::q8_0);
}

TEST_CASE("refusals for load are 503, or another status after which clients retry") {
  CHECK(parse_config(good, "x.toml")->gateway.overload_status == 503);
  for (const auto status : {503U, 429U, 529U}) {
    const auto c = parse_config(
        with("[gateway]", fmt::format("[gateway]\noverload_status = {}", status)), "x.toml");
    REQUIRE(c);
    CHECK(c->gateway.overload_status == status);
  }
}

TEST_CASE("the marker in answers is the operator's choice") {
  CHECK(parse_config(good, "x.toml")->gateway.watermark_gamma == 0.5F);
  const auto c = parse_config(
      with("[gateway]", "[gateway]\nwatermark_gamma = 0.25\nwatermark_delta = 3"), "x.toml");
  REQUIRE(c);
  CHECK(c->gateway.watermark_gamma == 0.25F);
  CHECK(c->gateway.watermark_delta == 3);
}

TEST_CASE("without nodes: this machine, a share of it for each stage") {
  auto c = parse_config("[model]\nname = \"m\"\npath = \"a.gguf\"\npipeline_parallel_size = 2\n",
                        "x.toml");
  REQUIRE(c);
  CHECK(c->has_default_layout);
  REQUIRE(c->nodes.size() == 1);
  CHECK(c->nodes[0].devices == std::vector<std::string>{"cpu", "cpu"});
  c = parse_config("[model]\nname = \"m\"\npath = \"a.gguf\"\npipeline_parallel_size = 2\n"
                   "tensor_parallel_size = 2\n",
                   "x.toml");
  REQUIRE(c);
  CHECK(c->nodes[0].devices.size() == 4);
}

TEST_CASE("two nodes of one name are refused") {
  auto c = parse_config(good + "[[nodes]]\nname = \"a\"\ndevices = [\"cpu:3\"]\n", "x.toml");
  REQUIRE_FALSE(c);
  CHECK(c.error().param == "nodes[1].name");
}

TEST_CASE("a missing file is an io error that names it") {
  auto c = load_config("/nowhere/at/all.toml");
  REQUIRE_FALSE(c);
  CHECK(c.error().code == errc::io_failed);
  CHECK(c.error().message.find("/nowhere/at/all.toml") != std::string::npos);
}

TEST_CASE("the nearest name differs by a typo, or there is none") {
  const std::vector<std::string> names{"max_num_seqs", "max_model_len", "path"};
  CHECK(nearest_name("max_num_seq", names) == "max_num_seqs");
  CHECK(nearest_name("pth", names) == "path");
  CHECK_FALSE(nearest_name("zzzz", names));
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE(
    "the gateway's keys, certificate and listeners are read, and half a certificate is refused") {
  const std::string gateway = "http = \"127.0.0.1:9000\"\n";
  const auto c = parse_config(with(gateway, gateway + "api_keys = \"keys.toml\"\n"
                                                      "admin = \"127.0.0.1:9001\"\n"
                                                      "tls_certificate = \"cert.pem\"\n"
                                                      "tls_key = \"key.pem\"\n"
                                                      "allow_unauthenticated = true\n"),
                              "c.toml");
  REQUIRE(c);
  CHECK(c->gateway.api_keys == "keys.toml");
  CHECK(c->gateway.admin == "127.0.0.1:9001");
  CHECK(c->gateway.tls_certificate == "cert.pem");
  CHECK(c->gateway.tls_key == "key.pem");
  CHECK(c->gateway.allow_unauthenticated);
  const std::pair<const char*, const char*> wrong[] = {
      {"tls_key = \"key.pem\"\n", "gateway.tls_certificate"},
      {"tls_certificate = \"cert.pem\"\n", "gateway.tls_key"},
      {"api_keys = [\"secret\"]\n", "gateway.api_keys"}};
  for (const auto& [line, param] : wrong) {
    const auto refused = parse_config(with(gateway, gateway + line), "c.toml");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().param == param);
  }
}

TEST_CASE("models of workers are read, with TorchServe's defaults") {
  const auto read = [](const std::string& more) {
    return parse_config(good + "[[workers]]\nname = \"w\"\n" + more, "x.toml");
  };
  auto c = read("command = [\"python3\", \"a.py\"]\nbatch_size = 8\nmax_batch_delay = 0.02\n");
  REQUIRE_MESSAGE(c, c.error().message);
  REQUIRE(c->workers.size() == 1);
  const auto& w = c->workers[0];
  CHECK(w.name == "w");
  CHECK(w.version == "1");
  CHECK(w.command == std::vector<std::string>{"python3", "a.py"});
  CHECK(w.count == 1);
  CHECK(w.batch_size == 8);
  CHECK(w.max_batch_delay == std::chrono::milliseconds(20));
  CHECK(w.max_queued == 100);
  CHECK(w.response_timeout == std::chrono::seconds(120));
  CHECK_FALSE(w.use_job_ticket);
  const auto param = [&](const std::string& more) { return read(more).error().param; };
  CHECK(param("") == "workers[0].command");
  CHECK(param("command = [\"\"]") == "workers[0].command");
  CHECK(param("command = [\"a\"]\nbatch_size = 0") == "workers[0].batch_size");
  CHECK(param("command = [\"a\"]\nbatchsize = 1") == "workers[0].batchsize");
  CHECK(param("command = [\"a\"]\n[[workers]]\nname = \"w\"\ncommand = [\"a\"]") ==
        "workers[1].name");
  CHECK(param("command = [\"a\"]\n[[workers]]\nname = \"m\"\ncommand = [\"a\"]") ==
        "workers[1].name"); // that of the LLM
}

TEST_CASE("a version_policy is read, and refused by its name") {
  const auto read = [](const std::string& policy) {
    return parse_config(
        good + "[[workers]]\nname = \"w\"\ncommand = [\"a\"]\nversion_policy = " + policy,
        "x.toml");
  };
  using policy = gateway::version_policy;
  const std::pair<const char*, policy> right[] = {{"\"latest 1\"", {}},
                                                  {"\"latest 2\"", {2, false, {}}},
                                                  {"\" latest  2 \"", {2, false, {}}},
                                                  {"\"all\"", {0, true, {}}},
                                                  {"\"specific 1 3\"", {0, false, {1, 3}}},
                                                  {"\"specific 0\"", {0, false, {0}}}};
  for (const auto& [text, is] : right) {
    CAPTURE(text);
    const auto c = read(text);
    REQUIRE_MESSAGE(c, c.error().message);
    CHECK(c->workers[0].version_policy == is);
  }
  for (const auto* wrong :
       {"\"\"", "\"newest\"", "\"latest\"", "\"latest 0\"", "\"latest -1\"", "\"latest 1 2\"",
        "\"latest two\"", "\"all 1\"", "\"specific\"", "\"specific 1, 3\"", "\"specific 1.5\"",
        "\"specific 4294967296\"", "\"Latest 1\"", "2"}) {
    CAPTURE(wrong);
    const auto c = read(wrong);
    REQUIRE_FALSE(c);
    CHECK(c.error().param == "workers[0].version_policy");
  }
}

TEST_CASE("tensors of worker models are read as declared") {
  const auto read = [](const std::string& more) {
    return parse_config(good + "[[workers]]\nname = \"w\"\ncommand = [\"a\"]\n" + more, "x.toml");
  };
  const auto plain = read("");
  REQUIRE(plain);
  CHECK(plain->workers[0].platform == "baton_worker");
  CHECK(plain->workers[0].inputs.empty());
  const auto c = read(R"(platform = "python"
max_batch_size = 8
decoupled = true
inputs = [{ name = "x", datatype = "FP32", shape = [-1, 16] },
          { name = "s", datatype = "BYTES", shape = [], optional = true }]
[[workers.outputs]]
name = "y"
datatype = "INT64"
shape = [1]
)");
  REQUIRE_MESSAGE(c, c.error().message);
  const auto& w = c->workers[0];
  CHECK(w.platform == "python");
  CHECK(w.max_batch_size == 8);
  CHECK(w.decoupled);
  using gateway::worker_tensor;
  CHECK(w.inputs == std::vector{worker_tensor{"x", "FP32", {-1, 16}, false},
                                worker_tensor{"s", "BYTES", {}, true}});
  CHECK(w.outputs == std::vector{worker_tensor{"y", "INT64", {1}, false}});
  const std::pair<const char*, const char*> wrong[] = {
      {"inputs = 1", "inputs"},
      {"inputs = [1]", "inputs[0]"},
      {"inputs = [{ datatype = \"FP32\", shape = [1] }]", "inputs[0]"},
      {"inputs = [{ name = \"x\", datatype = \"FLOAT\", shape = [1] }]", "inputs[0]"},
      {"inputs = [{ name = \"x\", datatype = \"FP32\" }]", "inputs[0].shape"},
      {"inputs = [{ name = \"x\", datatype = \"FP32\", shape = [\"1\"] }]", "inputs[0].shape"},
      {"inputs = [{ name = \"x\", datatype = \"FP32\", shape = [0] }]", "inputs[0]"},
      {"inputs = [{ name = \"x\", datatype = \"FP32\", shape = [-2] }]", "inputs[0]"},
      {"inputs = [{ name = \"x\", datatype = \"FP32\", shape = [4294967296, 4294967296] }]",
       "inputs[0]"},
      {"outputs = [{ name = \"x\", datatype = \"FP32\", shape = [1], colour = 1 }]",
       "outputs[0].colour"},
      {"outputs = [{ name = \"x\", datatype = \"FP32\", shape = [1] }, { name = \"x\", datatype = "
       "\"FP32\", shape = [1] }]",
       "outputs"},
      {"platform = \"a b\"", "platform"},
      {"max_batch_size = -1", "max_batch_size"},
  };
  for (const auto& [text, param] : wrong) {
    CAPTURE(text);
    const auto refused = read(text);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().param == fmt::format("workers[0].{}", param));
  }
}

TEST_CASE("queues of worker models are read, and levels inherit the model's values") {
  const auto read = [](const std::string& more) {
    return parse_config(
        good + "[[workers]]\nname = \"w\"\ncommand = [\"a\"]\nbatch_size = 8\n" + more, "x.toml");
  };
  const auto c = read(R"(
max_batch_delay = 0.00015
preferred_batch_size = [8, 2]
priority_levels = 3
default_priority_level = 2
queue_timeout = 0.5
allow_timeout_override = true
priority_queue_policy = [{ level = 1, queue_timeout_action = "delay", max_queue_size = 7 },
                         { level = 3, queue_timeout = 0, allow_timeout_override = false }]
)");
  REQUIRE_MESSAGE(c, c.error().message);
  const auto& w = c->workers[0];
  CHECK(w.max_batch_delay == std::chrono::microseconds(150));
  CHECK(w.preferred_batch_size == std::vector<std::uint32_t>{2, 8});
  CHECK(w.priority_levels == 3);
  CHECK(w.default_priority_level == 2);
  using schedule::queue_policy;
  const auto half = std::chrono::milliseconds(500);
  CHECK(w.queue_policy == queue_policy{half, false, true, 0});
  CHECK(w.priority_queue_policy ==
        std::map<std::uint32_t, queue_policy>{{1, {half, true, true, 7}}, {3, {}}});
  CHECK(read("preserve_ordering = true")->workers[0].preserve_ordering);

  const std::string levels = "priority_levels = 2\ndefault_priority_level = 1\n";
  const std::string policies = levels + "priority_queue_policy = ";
  const std::pair<std::string, const char*> wrong[] = {
      {"preferred_batch_size = 4", "preferred_batch_size"},
      {"preferred_batch_size = [4, 9]", "preferred_batch_size"},
      {"preferred_batch_size = [0]", "preferred_batch_size"},
      {"preserve_ordering = 1", "preserve_ordering"},
      {"preserve_ordering = true\n" + levels, "preserve_ordering"},
      {"preserve_ordering = true\nqueue_timeout_action = \"delay\"", "preserve_ordering"},
      {"priority_levels = 65", "priority_levels"},
      {"priority_levels = 2", "default_priority_level"},
      {"default_priority_level = 1", "default_priority_level"},
      {"queue_timeout = -1", "queue_timeout"},
      {"queue_timeout_action = \"drop\"", "queue_timeout_action"},
      {policies + "1", "priority_queue_policy"},
      {policies + "[1]", "priority_queue_policy[0]"},
      {policies + "[{ queue_timeout = 1 }]", "priority_queue_policy[0].level"},
      {policies + "[{ level = 3 }]", "priority_queue_policy[0].level"},
      {policies + "[{ level = 1 }, { level = 1 }]", "priority_queue_policy[1].level"},
      {policies + "[{ level = 1, timeout = 1 }]", "priority_queue_policy[0].timeout"},
      {policies + "[{ level = 1, queue_timeout_action = \"\" }]",
       "priority_queue_policy[0].queue_timeout_action"},
      {"priority_queue_policy = [{ level = 1 }]", "priority_queue_policy[0].level"},
  };
  for (const auto& [text, param] : wrong) {
    CAPTURE(text);
    const auto refused = read(text);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().param == fmt::format("workers[0].{}", param));
  }
}

TEST_CASE("a model repository is read, with Triton's defaults") {
  const auto read = [](const std::string& more) {
    return parse_config(good + "[model_repository]\n" + more, "x.toml");
  };
  const auto c = read("path = \"models\"");
  REQUIRE_MESSAGE(c, c.error().message);
  REQUIRE(c->repository);
  CHECK(c->repository->path == "models");
  CHECK(c->repository->control == model_control::none);
  CHECK(c->repository->poll_interval == std::chrono::seconds(15));
  const auto loaded =
      read("path = \"m\"\ncontrol_mode = \"explicit\"\nload_models = [\"a\", \"*\"]");
  REQUIRE_MESSAGE(loaded, loaded.error().message);
  CHECK(loaded->repository->control == model_control::clients);
  CHECK(loaded->repository->load_models == std::vector<std::string>{"a", "*"});
  CHECK(read("path = \"m\"\ncontrol_mode = \"poll\"\npoll_seconds = 0.5")
            ->repository->poll_interval == std::chrono::milliseconds(500));
  const auto param = [&](const std::string& more) { return read(more).error().param; };
  CHECK(param("") == "model_repository.path");
  CHECK(param("path = [\"a\", \"b\"]") == "model_repository.path");
  CHECK(param("path = \"m\"\ncontrol_mode = \"auto\"") == "model_repository.control_mode");
  CHECK(param("path = \"m\"\npoll_seconds = 0") == "model_repository.poll_seconds");
  CHECK(param("path = \"m\"\nload_models = [\"a\"]") == "model_repository.load_models");
  CHECK(param("path = \"m\"\ncontrol_mode = \"explicit\"\nload_models = [\"a/b\"]") ==
        "model_repository.load_models");
  CHECK(param("path = \"m\"\ncontrolmode = \"poll\"") == "model_repository.controlmode");
}

TEST_CASE("a model has aliases, which no other model has") {
  const auto aliased = [](const std::string& aliases) {
    return parse_config(
        with("use_job_ticket = true", "use_job_ticket = true\naliases = " + aliases), "c.toml");
  };
  const auto c = aliased(R"(["Qwen/Qwen2.5-1.5B", "gpt-4o:latest"])");
  REQUIRE_MESSAGE(c, c.error().message);
  CHECK(c->model.aliases == std::vector<std::string>{"Qwen/Qwen2.5-1.5B", "gpt-4o:latest"});
  for (const auto* wrong : {R"([""])", R"(["a b"])", R"(["a", "a"])", R"(["m"])"}) {
    CAPTURE(wrong);
    const auto refused = aliased(wrong);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().param == "model.aliases");
  }
  CHECK(aliased("\"a\"").error().param == "model.aliases");
  const auto several = parse_config("[[models]]\nname = \"a\"\npath = \"a.gguf\"\naliases = "
                                    "[\"x\"]\n[[models]]\nname = \"b\"\npath = \"b.gguf\"\n"
                                    "aliases = [\"y\"]\n",
                                    "c.toml");
  REQUIRE_FALSE(several);
  CHECK(several.error().param == "models[1].aliases");
}
