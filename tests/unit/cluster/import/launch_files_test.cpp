#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/import/launch_files.hpp"
#include "cluster/import/launch_import.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace baton;
using namespace baton::cluster;

namespace {

using variables = std::map<std::string, std::string>;
using line_words = std::vector<std::string>;

std::optional<std::string> of_shell(const std::string& name) {
  return name == "FROM_SHELL" ? std::optional<std::string>("shell") : std::nullopt;
}

variables plain_env(std::string_view text) {
  auto all = read_env_file(text, env_file_kind::plain, of_shell);
  REQUIRE_MESSAGE(all, all.error().message);
  return *std::move(all);
}

variables compose_env(std::string_view text) {
  auto all = read_env_file(text, env_file_kind::compose, of_shell);
  REQUIRE_MESSAGE(all, all.error().message);
  return *std::move(all);
}

// As files of this machine.
file_lookup files(variables all) {
  return [all = std::move(all)](const std::string& path) -> result<std::string> {
    const auto it = all.find(path);
    if (it == all.end())
      return fail(errc::io_failed, "there is no such file");
    return it->second;
  };
}

launch_line with_files(const line_words& words, const variables& all) {
  auto line = read_launch_line(words);
  REQUIRE_MESSAGE(line, line.error().message);
  const auto ok = take_files(*line, files(all), of_shell);
  REQUIRE_MESSAGE(ok, ok.error().message);
  return *std::move(line);
}

std::string refused_files(const line_words& words, const variables& all) {
  auto line = read_launch_line(words);
  REQUIRE_MESSAGE(line, line.error().message);
  const auto ok = take_files(*line, files(all), of_shell);
  REQUIRE_FALSE(ok);
  return ok.error().message;
}

cluster_config imported_with(const line_words& words, const variables& all) {
  const auto made = import_launch(with_files(words, all), {});
  REQUIRE_MESSAGE(made, made.error().message);
  auto config = parse_config(made->toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", made->toml);
  return *std::move(config);
}

} // namespace

TEST_CASE("a value of Docker's env file is all text after the first '='") {
  CHECK(plain_env("# all of it\n\n  A=b\nQUOTED=\"x\"\nB= c # "
                  "d\nURL=a=b\nEMPTY=\nFROM_SHELL\nNOT_SET\r\n") ==
        variables{{"A", "b"},
                  {"QUOTED", "\"x\""},
                  {"B", " c # d"},
                  {"URL", "a=b"},
                  {"EMPTY", ""},
                  {"FROM_SHELL", "shell"}});
  for (const auto* text : {"A\n=b\n", "A B=c\n"})
    CHECK_FALSE(read_env_file(text, env_file_kind::plain, of_shell));
}

TEST_CASE("a value of Compose's env file may have quotes, a comment, and references") {
  CHECK(compose_env(
            "export A=b # c\nHASH=b#c\nS='x # $A'\nD=\"x\\ty ${A} \\$A\"\nP=${A}/$FROM_SHELL\n"
            "DEF=${NONE:-d}\nLONG=\"one\ntwo\"\nNO=#\n") == variables{{"A", "b"},
                                                                      {"HASH", "b#c"},
                                                                      {"S", "x # $A"},
                                                                      {"D", "x\ty b $A"},
                                                                      {"P", "b/shell"},
                                                                      {"DEF", "d"},
                                                                      {"LONG", "one\ntwo"},
                                                                      {"NO", ""}});
  const auto open = read_env_file("A=1\nB=\"x\n", env_file_kind::compose, of_shell);
  REQUIRE_FALSE(open);
  CHECK(open.error().message.find("line 2") != std::string::npos);
}

TEST_CASE("a container's options take precedence over its env files, and these over the image") {
  const line_words words{"docker",
                         "run",
                         "--env-file",
                         "a.env",
                         "-e",
                         "MAX_TOTAL_TOKENS=512",
                         "--env-file=b.env",
                         "-p",
                         "8080:3000",
                         "ghcr.io/huggingface/text-generation-inference:3",
                         "--model-id",
                         "m"};
  const variables all{{"a.env", "PORT=1\nMAX_TOTAL_TOKENS=100\nNUM_SHARD=4\n"},
                      {"b.env", "PORT=3000\n"}};
  const auto config = imported_with(words, all);
  CHECK(config.gateway.http == "0.0.0.0:8080"); // port 3000 of the last file, not the image's 80
  CHECK(config.model.max_model_len == 512);
  CHECK(config.model.tensor_parallel_size == 4);
  CHECK(refused_files(words, {{"a.env", ""}}) == "--env-file b.env: there is no such file");
}

TEST_CASE("the env files of a compose file are relative to it") {
  const auto line_of = [](const std::string& env) {
    const auto line = read_compose(
        "services:\n  a:\n    image: vllm/vllm-openai\n    command: [\"m\"]\n    env_file:" + env,
        "", "/srv", of_shell);
    REQUIRE_MESSAGE(line, line.error().message);
    return *line;
  };
  CHECK(line_of(" x.env\n").env_files.at(0).path == "/srv/x.env");
  const auto several =
      line_of(
          "\n      - ./x.env\n      - path: /y.env\n        required: false\n        format: raw\n")
          .env_files;
  REQUIRE(several.size() == 2);
  CHECK(several[0].path == "/srv/x.env");
  CHECK(several[0].kind == env_file_kind::compose);
  CHECK(several[0].is_required);
  CHECK(several[1].path == "/y.env");
  CHECK(several[1].kind == env_file_kind::plain);
  CHECK_FALSE(several[1].is_required);
  auto line = line_of(" x.env\n");
  REQUIRE(take_files(line, files({{"/srv/x.env", "VLLM_API_KEY=\"k\"\n"}}), of_shell));
  CHECK(line.variables.at("VLLM_API_KEY") == "k");
}

TEST_CASE("options of vLLM's --config come after the model and before the command's own") {
  const variables all{{"c.yaml", R"(
port: 9000
tensor-parallel-size: 2
max_model_len: 2048
served-model-name: [a, b]
enable-prefix-caching: false
enforce-eager: true
trust-remote-code: false
override-generation-config: {temperature: 0.5}
model: other
seed: null
)"}};
  const auto line =
      with_files({"vllm", "serve", "m", "--config", "c.yaml", "--max-model-len", "512"}, all);
  CHECK(line.args == line_words{"m", "--port=9000", "--tensor-parallel-size=2",
                                "--max_model_len=2048", "--served-model-name", "a", "b",
                                "--no-enable-prefix-caching", "--enforce-eager",
                                R"(--override-generation-config={"temperature": "0.5"})",
                                "--max-model-len", "512"});
  const auto config =
      imported_with({"vllm", "serve", "m", "--config", "c.yaml", "--max-model-len", "512"}, all);
  CHECK(config.model.path == "m");
  CHECK(config.gateway.http == "127.0.0.1:9000");
  CHECK(config.model.max_model_len == 512);
  CHECK(config.model.tensor_parallel_size == 2);
  CHECK_FALSE(config.model.enable_prefix_caching);
  CHECK(config.model.sampling.temperature == 0.5F);
  CHECK(imported_with({"vllm", "serve", "--config=c.yaml"}, all).model.path == "other");
  CHECK(imported_with({"python3", "-m", "sglang.launch_server", "--config", "s.yml"},
                      {{"s.yml", "model-path: m\ncontext-length: 256\n"}})
            .model.max_model_len == 256);
}

TEST_CASE("an unreadable --config is refused by its name") {
  CHECK(refused_files({"vllm", "serve", "m", "--config", "none.yaml"}, {}) ==
        "--config none.yaml: there is no such file");
  CHECK(refused_files({"vllm", "serve", "m", "--config", "c.yaml"}, {{"c.yaml", "- a"}}) ==
        "--config c.yaml: it is no map of options");
  CHECK(refused_files({"vllm", "serve", "m", "--config", "c.yaml"}, {{"c.yaml", "a: ["}})
            .starts_with("--config c.yaml: line "));
  CHECK(refused_files({"vllm", "serve", "m", "--config"}, {}) == "--config needs a file");
  CHECK(refused_files({"vllm", "serve", "m", "--config", "c.yaml", "--config", "c.yaml"},
                      {{"c.yaml", "{}"}}) == "--config is given twice");
  const line_words inside{"docker",           "run", "-v",       "/srv:/etc/vllm",
                          "vllm/vllm-openai", "m",   "--config", "/etc/vllm/c.yaml"};
  CHECK(with_files(inside, {{"/srv/c.yaml", "max-num-seqs: 3"}}).args ==
        line_words{"m", "--max-num-seqs=3"});
  auto unmounted = inside;
  unmounted.back() = "/opt/c.yaml";
  CHECK(refused_files(unmounted, {}).find("nothing of this machine is mounted there") !=
        std::string::npos);
}
