// TorchServe's config.properties: its listeners, and the settings for nodes.toml.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/import/torchserve_import.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace baton;
using namespace baton::cluster;

namespace {

torchserve_properties read_properties(const std::string& text) {
  auto made = parse_torchserve_properties(text);
  REQUIRE_MESSAGE(made, made.error().message);
  return *std::move(made);
}

std::string properties_refusal(const std::string& text) {
  const auto made = parse_torchserve_properties(text);
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::bad_config);
  return made.error().param;
}

bool properties_mention(const torchserve_properties& p, std::string_view what) {
  return std::any_of(p.notes.begin(), p.notes.end(),
                     [&](const auto& n) { return n.find(what) != std::string::npos; });
}

cluster_config imported_with_properties(const std::string& yaml,
                                        const torchserve_properties& server) {
  auto made = import_torchserve(yaml, "m.gguf", "m", server);
  REQUIRE_MESSAGE(made, made.error().message);
  auto config = parse_config(made->toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", made->toml);
  return *config;
}

} // namespace

TEST_CASE("without a file the listeners are TorchServe's own") {
  const auto config = imported_with_properties("minWorkers: 1\n", {});
  CHECK(config.gateway.torchserve_inference == "127.0.0.1:8080");
  CHECK(config.gateway.torchserve_management == "127.0.0.1:8081");
  CHECK(config.gateway.torchserve_metrics == "127.0.0.1:8082");
  CHECK(config.gateway.http == gateway_section{}.http); // beside them
}

TEST_CASE("the documentation's example has its listeners") {
  const auto p = read_properties("# a comment\n"
                                 "inference_address=http://0.0.0.0:9080\n"
                                 "management_address = https://127.0.0.1\n"
                                 "metrics_address: http://[::1]:9082/\r\n"
                                 "private_key_file=mykey.key\n"
                                 "certificate_file=mycert.pem\n"
                                 "job_queue_size=100\n"
                                 "default_response_timeout=60\n"
                                 "number_of_netty_threads=32\n"
                                 "model_store=/models\n"
                                 "install_py_dep_per_model=true\n");
  CHECK(p.inference == "0.0.0.0:9080");
  CHECK(p.management == "127.0.0.1:8444");
  CHECK(p.metrics == "[::1]:9082");
  CHECK(properties_mention(p, "number_of_netty_threads is left out: gateway.threads"));
  CHECK(p.installs_requirements);
  CHECK_FALSE(properties_mention(p, "https://"));
  const auto config = imported_with_properties("jobQueueSize: 7\n", p);
  CHECK(config.gateway.torchserve_inference == "127.0.0.1:9080"); // until there are keys
  CHECK(config.gateway.torchserve_metrics == "[::1]:9082");
  CHECK(config.gateway.tls_certificate == "mycert.pem");
  CHECK(config.gateway.tls_key == "mykey.key");
  CHECK(config.model.max_num_queued_reqs == 7); // the model's own value takes precedence
  CHECK(config.model.recovery_timeout == std::chrono::seconds(60));
  CHECK(imported_with_properties("minWorkers: 1\n", p).model.max_num_queued_reqs == 100);
}

TEST_CASE("a listener that is switched off, or shares another's address, is left out") {
  CHECK(read_properties("enable_metrics_api=false\n").metrics.empty());
  const auto p = read_properties("inference_address=http://127.0.0.1:8080\n"
                                 "management_address=http://127.0.0.1:8080\n");
  CHECK(p.inference == "127.0.0.1:8080");
  CHECK(p.management.empty());
  CHECK(properties_mention(p, "management_address is left out"));
  CHECK(imported_with_properties("minWorkers: 1\n", p).gateway.torchserve_management.empty());
  CHECK(properties_mention(read_properties("inference_address=https://127.0.0.1:8443\n"),
                           "gateway.tls_certificate"));
}

TEST_CASE("an invalid address, number or path is refused by its key") {
  for (const auto* wrong :
       {"", "http://", "unix:/tmp/ts.sock", "http://127.0.0.1:0", "http://127.0.0.1:65536",
        "http://example.org:8080", "http://127.0.0.1:8080\"", "http://:8080", "127.0.0.1:"}) {
    CAPTURE(wrong);
    CHECK(properties_refusal(std::string("inference_address=") + wrong + "\n") ==
          "inference_address");
  }
  CHECK(properties_refusal("job_queue_size=many\n") == "job_queue_size");
  CHECK(properties_refusal("default_response_timeout=0\n") == "default_response_timeout");
  CHECK(properties_refusal("certificate_file=a.pem\n") == "certificate_file");
  CHECK(properties_refusal("certificate_file=a\x01\nprivate_key_file=b\n") == "certificate_file");
}

TEST_CASE("a variable in a value is the environment's") {
  const environment_lookup known = [](const std::string& name) {
    return name == "STORE" ? std::optional<std::string>("/s") : std::nullopt;
  };
  const auto read = [&](const char* text) { return parse_torchserve_properties(text, known); };
  CHECK(read("model_store=$$STORE$$/a$$STORE$$\n")->model_store == "/s/a/s");
  CHECK(read("model_store=$$STORE\n")->model_store == "$$STORE");
  const auto wrong = read("model_store=$$GONE$$\n");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().param == "model_store");
  CHECK(wrong.error().message.find("'GONE'") != std::string::npos);
}

TEST_CASE("with enable_envvars_config, the environment has the settings") {
  const environment_lookup known = [](const std::string& name) -> std::optional<std::string> {
    if (name == "TS_JOB_QUEUE_SIZE")
      return "7";
    if (name == "TS_INFERENCE_ADDRESS")
      return "http://127.0.0.1:9$$PORT$$";
    if (name == "TS_DEBUG")
      return "true";
    return name == "PORT" ? std::optional<std::string>("090") : std::nullopt;
  };
  const auto read = [&](const char* text) { return *parse_torchserve_properties(text, known); };
  const auto p = read("job_queue_size=5\nenable_envvars_config=True\nmodel_store=/s\n");
  CHECK(p.job_queue_size == 7);
  CHECK(p.inference == "127.0.0.1:9090");
  CHECK(p.model_store == "/s");
  CHECK(p.variables ==
        std::vector<std::string>{"TS_INFERENCE_ADDRESS", "TS_JOB_QUEUE_SIZE", "TS_DEBUG"});
  CHECK(properties_mention(p, "debug is left out"));
  CHECK_FALSE(properties_mention(p, "enable_envvars_config"));
  for (const auto* off : {"job_queue_size=5\n", "job_queue_size=5\nenable_envvars_config=1\n"}) {
    CHECK(read(off).job_queue_size == 5);
    CHECK(read(off).variables.empty());
  }
  const auto wrong =
      parse_torchserve_properties("enable_envvars_config=true\n", [](const std::string& name) {
        return name == "TS_JOB_QUEUE_SIZE" ? std::optional<std::string>("x") : std::nullopt;
      });
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().param == "job_queue_size");
}

TEST_CASE("nothing in it becomes an unrelated setting") {
  const auto p = read_properties("x\\n[gateway]\\nallow_unauthenticated = true\n"
                                 "disable_token_authorization=true\n");
  CHECK_FALSE(imported_with_properties("minWorkers: 1\n", p).gateway.allow_unauthenticated);
  CHECK(properties_mention(p, "disable_token_authorization is left out"));
}

TEST_CASE("a line that ends in a backslash continues in the next one") {
  const auto p = read_properties("models={\\\n"
                                 "  \"mnist\": {\\\n"
                                 "    \"1.0\": {\\\r\n"
                                 "        \"batchSize\": 4\\\n"
                                 "    }\\\n"
                                 "  }\\\n"
                                 "}\n"
                                 "model_store=a\\\n"
                                 "   b\\\\\n"
                                 "job_queue_size=5\n"
                                 "default_workers_per_model=2\\");
  REQUIRE(p.models.size() == 1);
  CHECK(p.models[0].model == "mnist");
  CHECK(p.models[0].settings.batch_size == 4);
  CHECK_FALSE(properties_mention(p, "NOT KNOWN"));
  CHECK(p.model_store == "ab\\\\"); // an escaped one ends its line
  CHECK(p.job_queue_size == 5);
  CHECK(p.workers_per_model == 2);
}

TEST_CASE("models of config.properties are settings of the store's archives") {
  const std::string lines =
      "model_store=/s\nload_models=all\nmodels={\"noop\": {\"1.0\": {\"defaultVersion\": true, "
      "\"marName\": \"noop.mar\", \"minWorkers\": 2, \"maxWorkers\": 4, \"batchSize\": 8, "
      "\"maxBatchDelay\": 100, \"responseTimeout\": 60, \"startupTimeout\": 0}, "
      "\"2.0\": {\"batchsize\": 3}}}\n";
  const auto p = read_properties(lines);
  REQUIRE(p.models.size() == 2);
  CHECK(properties_mention(p, "models: noop 1.0: maxWorkers is left out"));
  CHECK(properties_mention(p, "models: noop 1.0: defaultVersion is left out: THE FIRST VERSION"));
  CHECK(properties_mention(p, "models: noop 2.0: batchsize IS NOT KNOWN"));
  const auto made = import_torchserve_server("", "", p);
  const auto config = parse_config(made.toml, "n");
  REQUIRE_MESSAGE(config, config.error().message);
  CHECK(config->store->models == p.models);
  const auto& s = config->store->models[0].settings;
  CHECK(s.workers_min == 2);
  CHECK(s.batch_size == 8);
  CHECK(s.max_batch_delay == 100);
  CHECK(s.response_timeout == 60);
  CHECK_FALSE(s.startup_timeout);

  for (const auto* wrong : {"[1]", "{\"a b\": {}}", "{\"a\": 1}", "{\"a\": {\"1\": 2}}",
                            "{\"a\": {\"1\": {\"batchSize\": \"x\"}}}", "{\"a\""})
    CHECK_FALSE(parse_torchserve_properties(fmt::format("model_store=s\nmodels={}\n", wrong)));
  CHECK(properties_mention(read_properties("models={}\n"), "there is no model_store"));
}

TEST_CASE("values that the cluster's environment overrides are reported") {
  const auto p = read_properties("service_envelope=body\nmetrics_config=m.yaml\n"
                                 "decode_input_request=false\n");
  for (const auto* variable :
       {"TS_SERVICE_ENVELOPE", "TS_METRICS_CONFIG", "TS_DECODE_INPUT_REQUEST"})
    CHECK(properties_mention(p, variable));
}

TEST_CASE("gRPC listens if the file has a port") {
  CHECK(read_properties("").grpc_inference.empty());
  auto p = read_properties("grpc_inference_port=7070\ngrpc_management_port = 7071\n");
  CHECK(p.grpc_inference == "127.0.0.1:7070");
  CHECK(p.grpc_management == "127.0.0.1:7071");
  CHECK(p.notes.empty());
  const auto config = imported_with_properties("minWorkers: 1\n", p);
  CHECK(config.gateway.torchserve_grpc_inference == "127.0.0.1:7070");
  CHECK(config.gateway.torchserve_grpc_management == "127.0.0.1:7071");
  p = read_properties("grpc_inference_port=9\ngrpc_inference_address=::1\n"
                      "grpc_management_port=8\ngrpc_management_address=0.0.0.0\n");
  CHECK(p.grpc_inference == "[::1]:9");
  CHECK(p.grpc_management == "0.0.0.0:8");
  CHECK(properties_refusal("grpc_inference_port=0\n") == "grpc_inference_port");
  CHECK(properties_refusal("grpc_management_port=65536\n") == "grpc_management_port");
  CHECK(properties_refusal("grpc_inference_port=1\ngrpc_inference_address=\"x\"\n") ==
        "grpc_inference_address");
  CHECK(properties_mention(read_properties("grpc_inference_address=127.0.0.1\n"),
                           "grpc_inference_port enables"));
}

TEST_CASE("a model store is imported, except files that are no archive") {
  const auto p = read_properties(
      "model_store=/models/store\nload_models=a.mar, "
      "b=c.mar,http://x/d.mar,../e.mar,ftp://x/f.mar\n"
      "allowed_urls=https\\://s3\\\\.x/.*, file://.*\ninstall_py_dep_per_model=true\n"
      "default_workers_per_model=2\njob_queue_size=7\ndefault_startup_timeout=9\n");
  CHECK(properties_mention(p, "'ftp://x/f.mar' is left out"));
  CHECK(properties_mention(p, "'../e.mar' is left out"));
  const auto made = import_torchserve_server("m.gguf", "m", p);
  const auto config = parse_config(made.toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", made.toml);
  REQUIRE(config->store);
  CHECK(config->store->path == "/models/store");
  CHECK(config->store->load_models ==
        std::vector<std::string>{"a.mar", "b=c.mar", "http://x/d.mar"});
  CHECK(config->store->allowed_urls == std::vector<std::string>{"https://s3\\.x/.*", "file://.*"});
  CHECK(config->store->install_py_dep_per_model);
  CHECK(config->store->default_workers_per_model == 2);
  CHECK(config->store->job_queue_size == 7);
  CHECK(config->store->default_startup_timeout == 9);
  CHECK(read_properties("model_store=s\nload_models=all\n").load_models ==
        std::vector<std::string>{"all"});
  CHECK(read_properties("model_store=s\nload_models=none\n").load_models.empty());
  CHECK(properties_mention(read_properties("load_models=a.mar\n"), "there is no model_store"));
}

TEST_CASE("addresses beyond this machine are open only if no token was needed") {
  const auto guarded = imported_with_properties(
      "minWorkers: 1\n", read_properties("inference_address=http://0.0.0.0:9080\n"));
  CHECK(guarded.gateway.torchserve_inference == "127.0.0.1:9080");
  CHECK_FALSE(guarded.gateway.allow_unauthenticated);
  const auto open = imported_with_properties(
      "minWorkers: 1\n",
      read_properties("inference_address=http://0.0.0.0:9080\ndisable_token_authorization=true\n"));
  CHECK(open.gateway.torchserve_inference == "0.0.0.0:9080");
  CHECK(open.gateway.allow_unauthenticated);
}

TEST_CASE("GPUs and cores of workers are those of the whole server") {
  const auto p = read_properties("number_of_gpu=2\ncpu_launcher_enable=True\n"
                                 "cpu_launcher_args=--use_logical_core --ninstances 4\n");
  CHECK(p.number_of_gpu == 2u);
  CHECK(properties_mention(p, "cpu_launcher_args: --ninstances is left out: TorchServe sets it"));
  const auto config = imported_with_properties("minWorkers: 1\n", p);
  CHECK(config.number_of_gpu == 2u);
  CHECK(config.launcher.is_enabled);
  CHECK(config.launcher.uses_logical_cores);
  CHECK(read_properties("number_of_gpu=0\n").number_of_gpu == 0u);
  CHECK(properties_refusal("number_of_gpu=-1\n") == "number_of_gpu");
  CHECK(properties_refusal("number_of_gpu=many\n") == "number_of_gpu");
  CHECK(properties_refusal("cpu_launcher_enable=true\ncpu_launcher_args=--core\n") ==
        "cpu_launcher_args");
  const auto off = read_properties("cpu_launcher_enable=false\ncpu_launcher_args=--node_id 0\n");
  CHECK(properties_mention(off, "cpu_launcher_args is left out: cpu_launcher_enable is not true"));
  CHECK_FALSE(imported_with_properties("minWorkers: 1\n", off).launcher.is_enabled);
}
