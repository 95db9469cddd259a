// Commands as they are in scripts, in compose files and after a container's name.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/import/launch_import.hpp"
#include "cluster/import/launch_line.hpp"
#include "cluster/models/torchserve/torchserve_properties.hpp"
#include "tests/support/scratch_directory.hpp"
#include "tests/unit/cluster/import/imported.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

using namespace baton;
using namespace baton::cluster;
using baton::testing::imported;

namespace {

std::vector<std::string> first_command(const std::string& text) {
  auto commands = split_shell(text);
  REQUIRE(commands);
  return commands->front();
}

launch_line line_of(const std::string& text) {
  auto line = read_launch_line(first_command(text));
  REQUIRE_MESSAGE(line, line.error().message);
  return *std::move(line);
}

imported imported_line(const launch_line& line) {
  auto made = import_launch(line, {});
  REQUIRE_MESSAGE(made, made.error().message);
  auto config = parse_config(made->toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", made->toml);
  return {*config, made->notes};
}

std::string refusal_of(const std::string& text) {
  const auto line = read_launch_line(first_command(text));
  REQUIRE_FALSE(line);
  CHECK(line.error().code == errc::bad_config);
  return line.error().message;
}

std::optional<std::string> no_variable(const std::string&) {
  return std::nullopt;
}

std::optional<std::string> some_variables(const std::string& name) {
  if (name == "PORT")
    return "9001";
  if (name == "HOME")
    return "/home/u";
  return name == "EMPTY" ? std::optional<std::string>("") : std::nullopt;
}

const std::string compose_vllm = R"(
services:
  db:
    image: postgres:16
  vllm:
    image: vllm/vllm-openai:v0.8.5
    ports: ["${PORT:-8000}:8000"]
    volumes:
      - ./models:/models:ro
      - ~/.cache/huggingface:/root/.cache/huggingface
    environment:
      - HUGGING_FACE_HUB_TOKEN=${HF_TOKEN}
      - VLLM_API_KEY=secret
    command: >
      --model /models/qwen
      --served-model-name qwen
      --max-model-len 4096
    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
              device_ids: ["1", "3"]
              capabilities: [gpu]
)";

} // namespace

TEST_CASE("a command means the same server under every launcher") {
  for (const std::string text :
       {"vllm serve /m --port 9", "/opt/bin/vllm serve /m --port 9",
        "python3 -m vllm.entrypoints.openai.api_server --model /m --port 9",
        "python -u -m vllm.entrypoints.api_server --model /m --port 9",
        "/usr/bin/python3.11 -m vllm.entrypoints.openai.api_server --model=/m --port=9",
        "env A=b vllm serve /m --port 9", "A=b C=d sudo -u me nohup vllm serve /m --port 9",
        "uv run --with vllm vllm serve /m --port 9",
        "bash -c 'pip install x && exec vllm serve /m --port 9 2>&1'",
        "docker run --rm -it --network host vllm/vllm-openai /m --port 9",
        "podman run -d --net=host docker.io/vllm/vllm-openai:v1 --model /m --port 9",
        "docker container run --network=host --entrypoint vllm x serve /m --port 9",
        "docker run --network=host x bash -lc \"vllm serve /m --port 9\""}) {
    INFO(text);
    const auto made = imported_line(line_of(text));
    CHECK(made.config.model.path == "/m");
    CHECK(made.config.gateway.http == "127.0.0.1:9");
  }
}

TEST_CASE("each launcher is known by its name") {
  CHECK(line_of("llama-server -m x").program == launcher::llama);
  CHECK(line_of("python -m sglang.launch_server --model-path x").program == launcher::sglang);
  CHECK(line_of("text-generation-launcher --model-id x").program == launcher::tgi);
  CHECK(line_of("torchserve --start").program == launcher::torchserve);
  CHECK(line_of("tritonserver --model-repository=/m").program == launcher::triton);
  CHECK(line_of("python3 -u openai_frontend/main.py --model-repository /m").program ==
        launcher::triton_openai);
  CHECK(line_of("docker run nvcr.io/nvidia/tritonserver:26.01-vllm-python-py3 bash -c 'cd "
                "/opt/tritonserver/python/openai && python3 openai_frontend/main.py "
                "--model-repository /m'")
            .program == launcher::triton_openai);
  CHECK_FALSE(read_launch_line(first_command("python3 my_openai_frontend/main.py")));
  CHECK_FALSE(read_launch_line(first_command("python3 -m openai_frontend/main.py")));
  CHECK(line_of("docker run nvcr.io/nvidia/tritonserver:24.01-py3 tritonserver "
                "--model-repository=/models")
            .program == launcher::triton);
  CHECK(line_of("docker run pytorch/torchserve:latest-cpu").program == launcher::torchserve);
  CHECK(line_of("docker run lmsysorg/sglang:latest python3 -m sglang.launch_server --model x")
            .program == launcher::sglang);
  CHECK(line_of("docker run ghcr.io/ggml-org/llama.cpp:full --server -m x").args ==
        std::vector<std::string>{"-m", "x"});
}

TEST_CASE("volumes, ports and variables of a container are mapped to this machine") {
  const auto made = imported_line(line_of(
      "docker run -d --gpus all --shm-size 1g -p 8080:80 -v $PWD/data:/data -e NUM_SHARD=2 -e "
      "MAX_TOTAL_TOKENS=2048 -e JSON_OUTPUT=true "
      "ghcr.io/huggingface/text-generation-inference:3.0 --model-id /data/smollm2"));
  CHECK(made.config.model.path == "$PWD/data/smollm2");
  CHECK(made.config.model.aliases == std::vector<std::string>{"/data/smollm2"});
  CHECK(made.config.gateway.http == "0.0.0.0:8080"); // the image listens at 80
  CHECK(made.config.gateway.allow_unauthenticated);
  CHECK(made.config.model.tensor_parallel_size == 2);
  CHECK(made.config.model.max_model_len == 2048);
  CHECK(made.mentions("GPUs ARE LEFT OUT"));
  const auto own = imported_line(line_of("docker run -p 127.0.0.1:9000:8000 --mount "
                                         "type=bind,source=/srv/m,target=/m vllm/vllm-openai "
                                         "/m"));
  CHECK(own.config.gateway.http == "127.0.0.1:9000");
  CHECK(own.config.model.path == "/srv/m");
  const auto hidden = imported_line(line_of("docker run vllm/vllm-openai /m"));
  CHECK(hidden.config.gateway.http == "127.0.0.1:8000");
  CHECK(hidden.mentions("publishes no port 8000"));
  CHECK(hidden.mentions("nothing of this machine is mounted there"));
  CHECK(imported_line(line_of("docker run -v models:/m vllm/vllm-openai /m/q"))
            .mentions("a volume is the container tool's own"));
  const auto llama =
      imported_line(line_of("docker run -v /srv:/models -p 8080:8080 -e LLAMA_ARG_CTX_SIZE=4096 -e "
                            "LLAMA_ARG_MODEL=/models/a.gguf -e LLAMA_ARG_N_PARALLEL=2 "
                            "ghcr.io/ggml-org/llama.cpp:server"));
  CHECK(llama.config.model.path == "/srv/a.gguf");
  CHECK(llama.config.model.max_model_len == 4096);
  CHECK(llama.config.model.max_num_seqs == 2);
}

TEST_CASE("the inner of two mounts applies, and a common prefix of names is no match") {
  launch_line line;
  line.mounts = {{"/a", "/models"}, {"/b/", "/models/big"}};
  CHECK(line.outside("/models/x") == "/a/x");
  CHECK(line.outside("/models/big/x") == "/b/x");
  CHECK(line.outside("/models") == "/a");
  CHECK(line.outside("/models2/x") == "/models2/x");
  CHECK(line.outside("Org/Name") == "Org/Name");
}

TEST_CASE("a service of a compose file is treated like such a container") {
  const auto line = read_compose(compose_vllm, "", "/srv", some_variables);
  REQUIRE_MESSAGE(line, line.error().message);
  CHECK(line->gpus == "device=1,3");
  const auto made = imported_line(*line);
  CHECK(made.config.model.path == "/srv/models/qwen");
  CHECK(made.config.model.name == "qwen");
  CHECK(made.config.model.max_model_len == 4096);
  CHECK(made.config.gateway.http == "127.0.0.1:9001"); // until there are keys
  CHECK_FALSE(made.config.gateway.allow_unauthenticated);
  CHECK(made.mentions("THE API KEY IS NOT CARRIED OVER"));
  CHECK_FALSE(made.mentions("secret"));
  const auto otherwise = read_compose(compose_vllm, "vllm", "", no_variable);
  REQUIRE(otherwise);
  CHECK(imported_line(*otherwise).config.gateway.http == "127.0.0.1:8000");
}

TEST_CASE("commands of compose files may be lists, and variables may be maps") {
  const auto line = read_compose(R"(
services:
  server:
    image: ghcr.io/ggml-org/llama.cpp:server
    ports: [{target: 8080, published: "9090", host_ip: 127.0.0.1}]
    volumes: [{type: bind, source: ./m, target: /models}]
    environment: {LLAMA_ARG_MODEL: /models/a.gguf, LLAMA_ARG_ALIAS: "${NAME:-a$$b}"}
    command: ["-c", "${EMPTY:-512}", "--jinja"]
)",
                                 "", "/x", some_variables);
  REQUIRE_MESSAGE(line, line.error().message);
  const auto made = imported_line(*line);
  CHECK(made.config.model.path == "/x/m/a.gguf");
  CHECK(made.config.model.max_model_len == 512);
  CHECK(made.config.gateway.http == "127.0.0.1:9090");
  CHECK(made.config.model.name == "a-b");
}

TEST_CASE("compose files without exactly one server are refused with their services") {
  const auto refused = [](const std::string& yaml, const std::string& service = "") {
    const auto line = read_compose(yaml, service, "", no_variable);
    REQUIRE_FALSE(line);
    CHECK(line.error().code == errc::bad_config);
    return line.error().message;
  };
  CHECK(
      refused("services: {a: {image: postgres}}").find("none of its services is a known server") ==
      0);
  CHECK(refused("services: {a: {image: x}}", "b") == "it has no service 'b'");
  CHECK(refused("services: {a: {image: vllm/vllm-openai}, b: {image: vllm/vllm-openai}}")
            .find("name one of a, b after the file") != std::string::npos);
  CHECK(refused("[").find("line 1") == 0);
  CHECK(refused("services: 3").find("no services") != std::string::npos);
  CHECK(refused("services: {a: {image: vllm/vllm-openai, command: \"'\"}}").find("quote") !=
        std::string::npos);
  CHECK_FALSE(is_compose("minWorkers: 1"));
  CHECK_FALSE(is_compose("["));
}

TEST_CASE("commands that start none of the servers are refused") {
  CHECK(refusal_of("docker ps").find("only `run` and `create` of a container tool are read") !=
        std::string::npos);
  CHECK(refusal_of("docker run").find("names no image") != std::string::npos);
  CHECK(refusal_of("docker run postgres").find("it is not known what image postgres starts") !=
        std::string::npos);
  CHECK(refusal_of("python3 -m http.server").find("starts none of") != std::string::npos);
  CHECK(refusal_of("python3 app.py").find("starts none of") != std::string::npos);
  CHECK(refusal_of("env").find("starts none of") != std::string::npos);
  CHECK(refusal_of("sh -c 'ls'").find("starts none of") != std::string::npos);
  std::vector<std::string> deep{"vllm", "serve", "/m"};
  std::string text = "vllm serve /m";
  for (int i = 0; i < 64; ++i)
    deep = {"sh", "-c", text = "sh -c '" + text + "'"};
  CHECK_FALSE(read_launch_line(deep));
}

TEST_CASE("a text is split as a shell splits it") {
  CHECK(first_command("a 'b c' \"d\\\"e\" f\\ g \\\n h # i") ==
        std::vector<std::string>{"a", "b c", "d\"e", "f g", "h"});
  CHECK(first_command("a --n 2 > log 2>&1 b>>x") == std::vector<std::string>{"a", "--n", "2", "b"});
  CHECK(split_shell("a && b; c")->size() == 3);
  CHECK_FALSE(split_shell("a 'b"));
  CHECK(split_shell("")->front().empty());
}

TEST_CASE("options of torchserve take precedence over its config.properties") {
  const auto read = read_torchserve_line(
      line_of("docker run -v /srv/store:/store -v /srv/c.properties:/c.properties x torchserve "
              "--start --ncs --model-store /store --models a=a.mar b.mar --ts-config /c.properties "
              "--foreground --plugins-path p"));
  REQUIRE(read);
  CHECK(read->file == "/srv/c.properties");
  const auto parsed = parse_torchserve_properties("model_store=/else\n" + read->properties);
  REQUIRE(parsed);
  CHECK(parsed->model_store == "/srv/store");
  CHECK(parsed->load_models == std::vector<std::string>{"a=a.mar", "b.mar"});
  CHECK(std::ranges::any_of(
      read->notes, [](const std::string& n) { return n.find("--plugins-path is left out") == 0; }));
  CHECK_FALSE(read_torchserve_line(line_of("torchserve --stop")));
  CHECK_FALSE(read_torchserve_line(line_of("torchserve --start x.mar")));
}

TEST_CASE("one word may hold a whole line, with assignments before the program") {
  for (const auto* text : {"env X=1 vllm serve m", "X=1 vllm serve m", "X=1 env vllm serve m",
                           "cd /srv && X='1' vllm serve m # the model"}) {
    CAPTURE(text);
    const std::vector<std::string> alone{text};
    CHECK(is_launch_program(alone[0]));
    const auto line = read_launch_line(alone);
    REQUIRE_MESSAGE(line, line.error().message);
    CHECK(line->program == launcher::vllm);
    CHECK(line->args == std::vector<std::string>{"m"});
    CHECK(line->variables.at("X") == "1");
  }
  const std::vector<std::string> container{"A=2 docker run -e B=3 vllm/vllm-openai --model m"};
  const auto line = read_launch_line(container);
  REQUIRE_MESSAGE(line, line.error().message);
  CHECK(line->is_container);
  for (const auto* none : {"my files/config.properties", "a 'quote", " ", "ls vllm"}) {
    CAPTURE(none);
    CHECK_FALSE(is_launch_program(none));
    CHECK_FALSE(read_launch_line(std::vector<std::string>{none}));
  }
}

TEST_CASE("unused variables are reported for commands without variables of their own") {
  const auto of_torchserve = read_torchserve_line(
      line_of("TS_CONFIG_FILE=/c TS_MODEL_STORE=/s OTHER=1 torchserve --start"));
  REQUIRE(of_torchserve);
  CHECK(of_torchserve->file == "/c");
  CHECK(of_torchserve->notes ==
        std::vector<std::string>{
            "the variable OTHER is left out: workers have the environment of `cluster up`",
            "the variable TS_MODEL_STORE is left out: settings are those of options and "
            "config.properties"});
  const auto of_triton = read_triton_line(
      line_of("TRITON_SERVER_ESCAPE_LOG_MESSAGES=0 tritonserver --model-repository=/r"));
  REQUIRE(of_triton);
  CHECK(std::ranges::any_of(of_triton->notes, [](const std::string& n) {
    return n.find("the variable TRITON_SERVER_ESCAPE_LOG_MESSAGES is left out") == 0;
  }));
}

TEST_CASE("tritonserver's command gives a repository and its listeners") {
  const auto read = read_triton_line(
      line_of("docker run --gpus=1 --rm -p8000:8000 -p8001:8001 -p8002:8002 -v/srv/r:/models "
              "nvcr.io/nvidia/tritonserver:24.01-py3 tritonserver --model-repository=/models "
              "--model-control-mode=explicit --load-model=add --load-model llm --log-verbose=1 "
              "--strict-readiness=false --unheard=1"));
  REQUIRE(read);
  CHECK(read->repository == "/srv/r");
  const auto config = parse_config(read->tables, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", read->tables);
  CHECK(config->gateway.http == "0.0.0.0:8000");
  CHECK(config->gateway.kserve_grpc == "0.0.0.0:8001");
  CHECK(config->gateway.admin == "127.0.0.1:8002");
  CHECK(config->repository->control == model_control::clients);
  CHECK(config->repository->load_models == std::vector<std::string>{"add", "llm"});
  const auto mentions = [&](std::string_view text) {
    return std::ranges::any_of(
        read->notes, [&](const std::string& n) { return n.find(text) != std::string::npos; });
  };
  CHECK(mentions("--log-verbose is left out"));
  CHECK(mentions("--unheard IS NOT KNOWN: Triton has no such option"));
  const auto refused = [](const std::string& options) {
    const auto bad = read_triton_line(line_of("tritonserver " + options));
    REQUIRE_FALSE(bad);
    return bad.error().message;
  };
  CHECK(refused("").find("names no --model-repository") != std::string::npos);
  CHECK(refused("--model-repository=/a --model-repository=/b").find("names several") !=
        std::string::npos);
  CHECK(refused("--model-repository=/a --http-port=x") == "--http-port is 'x': a port is needed");
  CHECK(refused("--model-repository=/a --load-model=x").find("is for") != std::string::npos);
}

TEST_CASE("--device-ids of vLLM names GPUs, before the variables that do") {
  import_wishes wishes;
  wishes.machine = {.gpus = 4, .disk_bytes = {}};
  for (const auto* ids : {"--device-ids 3 1", "--device-ids 3,1", "--device-ids=3,1"}) {
    const auto made = import_launch(
        line_of(fmt::format("CUDA_VISIBLE_DEVICES=0 vllm serve /m -tp 2 {}", ids)), wishes);
    REQUIRE_MESSAGE(made, made.error().message);
    CHECK_MESSAGE(made->toml.find("devices = [\"cuda:3\", \"cuda:1\"]") != std::string::npos,
                  made->toml);
  }
  CHECK_FALSE(import_launch(line_of("vllm serve /m --device-ids x"), wishes));
}

TEST_CASE("Triton's OpenAI frontend has one address, and KServe's gRPC only if asked") {
  const std::string frontend = "python3 openai_frontend/main.py --model-repository /r";
  const auto plain = read_triton_line(line_of(frontend + " --default-max-tokens 64 --tokenizer x"));
  REQUIRE(plain);
  CHECK(plain->repository == "/r");
  CHECK(plain->default_max_tokens == 64);
  auto config = parse_config(plain->tables, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", plain->tables);
  CHECK(config->gateway.http == "0.0.0.0:9000");
  CHECK(config->gateway.kserve_grpc.empty());
  CHECK(config->gateway.admin.empty());
  CHECK(plain->notes.at(0) == "--tokenizer is left out: the model's files define it");
  const auto both = read_triton_line(
      line_of(frontend + " --host 127.0.0.1 --openai-port 9100 --enable-kserve-frontends "
                         "--kserve-grpc-port 8101 --openai-restricted-api inference key value "
                         "--model-control-mode explicit --startup-models a b"));
  REQUIRE(both);
  config = parse_config(both->tables, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", both->tables);
  CHECK(config->gateway.http == "127.0.0.1:9100");
  CHECK(config->gateway.kserve_grpc == "127.0.0.1:8101");
  CHECK_FALSE(config->gateway.allow_unauthenticated);
  CHECK(config->repository->load_models == std::vector<std::string>{"a", "b"});
  CHECK(both->notes.at(0).find("--openai-restricted-api is left out: RESTRICT WITH") == 0);
  for (const auto* wrong :
       {" --openai-port 0", " --default-max-tokens 0", " --default-max-tokens x", " --host",
        " word", " --model-control-mode poll"})
    CHECK_MESSAGE(!read_triton_line(line_of(frontend + wrong)), wrong);
}

TEST_CASE("llama-server's router becomes a directory of models") {
  const baton::testing::scratch_directory dir;
  for (const auto* file : {"a.gguf", "b.gguf"})
    std::ofstream(dir.path() / file) << "GGUF";
  const auto line =
      fmt::format("llama-server --models-dir {} --host 127.0.0.1", dir.path().string());
  const auto plain = imported_line(line_of(line));
  REQUIRE(plain.config.models.size() == 2);
  CHECK(plain.config.models[1].name == "b");
  CHECK(plain.config.models[1].loads_on_demand);
  CHECK(plain.config.models[1].idle_timeout.count() == 0); // as there: never
  CHECK(plain.config.max_loaded_models == 4);
  const auto all = imported_line(line_of(line + " --models-max 2 --sleep-idle-seconds 90 -c 2048 "
                                                "--no-models-autoload --alias x"));
  CHECK(all.config.max_loaded_models == 2);
  CHECK(all.config.models[0].idle_timeout == std::chrono::seconds(90));
  CHECK(all.config.models[0].max_model_len == 2048);
  CHECK(all.mentions("THE FIRST REQUEST ALWAYS LOADS ITS MODEL"));
  CHECK(all.mentions("the name 'x' is left out"));
  CHECK(imported_line(line_of(line + " --models-max 0")).config.max_loaded_models == 64);
  CHECK(imported_line(line_of(line + " --sleep-idle-seconds -1 --models-autoload"))
            .config.models[0]
            .idle_timeout.count() == 0);
  const auto one = imported_line(line_of(line + " -m m.gguf --sleep-idle-seconds 5"));
  REQUIRE(one.config.models.size() == 1);
  CHECK(one.config.models[0].path == "m.gguf");
  CHECK(one.config.models[0].loads_on_demand);
  CHECK(one.config.models[0].idle_timeout == std::chrono::seconds(5));
  CHECK(one.mentions("is left out: the command names one model"));
  CHECK_FALSE(imported_line(line_of("llama-server -m m.gguf")).config.models[0].loads_on_demand);
}
