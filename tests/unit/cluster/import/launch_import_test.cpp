// Commands from their documentation, and common mistakes.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/import/launch_import.hpp"
#include "cluster/import/launch_options.hpp"
#include "tests/unit/cluster/import/imported.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>

using namespace baton;
using namespace baton::cluster;
using baton::testing::imported;

namespace {

std::vector<std::string> words_of(const std::string& command) {
  std::istringstream in(command);
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(word);
  return words;
}

imported import_words(const std::vector<std::string>& words) {
  auto made = import_launch(words, "", "");
  REQUIRE_MESSAGE(made, made.error().message);
  auto config = parse_config(made->toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", made->toml);
  return {*config, made->notes};
}

imported import_of_command(const std::string& command) {
  return import_words(words_of(command));
}

std::string command_refusal(const std::string& command) {
  const auto made = import_launch(words_of(command), "", "");
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::bad_config);
  return made.error().message;
}

} // namespace

TEST_CASE("vllm serve becomes nodes.toml") {
  const auto [config, notes] = import_of_command(
      "vllm serve models/Qwen2.5-1.5B-Instruct --served-model-name qwen --max-model-len 32k "
      "--max_num_seqs=128 --tensor-parallel-size 2 -pp 2 -dp 3 --swap-space 4 --dtype half "
      "--no-enable-prefix-caching --scheduling-policy priority --kv-cache-dtype fp8 --port 8100");
  const auto& m = config.model;
  CHECK(m.path == "models/Qwen2.5-1.5B-Instruct");
  CHECK(m.name == "qwen");
  CHECK(m.max_model_len == 32'000);
  CHECK(m.max_num_seqs == 128);
  CHECK(m.tensor_parallel_size == 2);
  CHECK(m.pipeline_parallel_size == 2);
  CHECK(m.replicas == 3);
  CHECK(m.swap_space == 4ull << 30);
  CHECK(m.dtype == "auto"); // the native engine has no other
  CHECK_FALSE(m.enable_prefix_caching);
  CHECK(m.scheduling_policy == "priority");
  CHECK(m.kv_cache_dtype == cpu::kv_format::q8_0);
  CHECK(config.gateway.http == "127.0.0.1:8100");
}

TEST_CASE("several served names are the model's name and its aliases") {
  const auto made =
      import_of_command("vllm serve /models/m --served-model-name qwen Qwen/Qwen2.5 qwen "
                        "Qwen/Qwen2.5 gpt-4o:latest --port 8100");
  CHECK(made.config.model.name == "qwen");
  CHECK(made.config.model.aliases == std::vector<std::string>{"Qwen/Qwen2.5", "gpt-4o:latest"});
  CHECK(made.notes.empty() == import_of_command("vllm serve /models/m --port 8100").notes.empty());
}

TEST_CASE("repeated served names replace the earlier ones") {
  const auto again = [](const std::string& words) {
    return import_of_command("vllm serve /m --served-model-name a b " + words).config.model;
  };
  CHECK(again("--served-model-name b").name == "b");
  CHECK(again("--served-model-name b").aliases.empty());
  CHECK(again("--served-model-name=c").aliases.empty());
  CHECK(again("--served-model-name c a").aliases == std::vector<std::string>{"a"});
  CHECK(again("").aliases == std::vector<std::string>{"b"});
  const auto renamed = import_launch(words_of("vllm serve /m --served-model-name a b"), "", "b");
  REQUIRE(renamed);
  CHECK(renamed->toml.find("name = \"b\"") != std::string::npos);
  CHECK(renamed->toml.find("aliases = [\"a\"]\n") != std::string::npos);
  CHECK(parse_config(renamed->toml, "nodes.toml"));
}

TEST_CASE("a model keeps the name that its clients use") {
  const auto model_of = [](const std::string& command) {
    return import_of_command(command).config.model;
  };
  const auto hub = model_of("vllm serve Qwen/Qwen2.5-1.5B-Instruct");
  CHECK(hub.name == "Qwen2.5-1.5B-Instruct");
  CHECK(hub.aliases == std::vector<std::string>{"Qwen/Qwen2.5-1.5B-Instruct"});
  CHECK(model_of("python3 -m vllm.entrypoints.openai.api_server --model /models/q.gguf").aliases ==
        std::vector<std::string>{"/models/q.gguf"});
  CHECK(model_of("text-generation-launcher --model-id models/q").aliases ==
        std::vector<std::string>{"models/q"});
  CHECK(model_of("vllm serve qwen").aliases.empty()); // it has that name
  const auto served = model_of("vllm serve /m --served-model-name org/a b");
  CHECK(served.name == "a");
  CHECK(served.aliases == std::vector<std::string>{"org/a", "b"});
  // The path differs here; the name that clients know does not.
  const auto moved = import_launch(words_of("vllm serve Qwen/Qwen2.5"), "/models/q", "");
  REQUIRE(moved);
  CHECK(moved->toml.find("name = \"q\"\n") != std::string::npos);
  CHECK(moved->toml.find("aliases = [\"Qwen/Qwen2.5\"]\n") != std::string::npos);
}

TEST_CASE("a name that is invalid here is reported as lost") {
  const auto made = import_words({"vllm", "serve", "/m", "--served-model-name", "a b", "c"});
  CHECK(made.config.model.name == "a-b");
  CHECK(made.config.model.aliases == std::vector<std::string>{"c"});
  CHECK(made.mentions("the name 'a b' is left out"));
  CHECK(import_of_command("vllm serve /" + std::string(130, 'm'))
            .mentions("is left out: a model.aliases"));
}

TEST_CASE("the module of older versions is the same server") {
  const auto made =
      import_of_command("/usr/bin/python3 -m vllm.entrypoints.openai.api_server --model "
                        "/models/q.gguf --max-model-len 4K");
  CHECK(made.config.model.path == "/models/q.gguf");
  CHECK(made.config.model.name == "q");
  CHECK(made.config.model.max_model_len == 4096);
  CHECK(made.config.gateway.http == "127.0.0.1:8000");
  CHECK(made.mentions("gateway.http is only for this machine"));
}

TEST_CASE("text-generation-launcher becomes nodes.toml") {
  const auto made = import_of_command(
      "text-generation-launcher --model-id /models/smollm2 --num-shard 2 -p 3001 "
      "--hostname 0.0.0.0 "
      "--max-concurrent-requests 128 --max-total-tokens 2048 --max-input-tokens 1024 "
      "--max-batch-prefill-tokens 16000 --max-batch-total-tokens 32k --speculate 3 "
      "--watermark-gamma 0.25 "
      "--prometheus-port 9000 "
      "--graceful-termination-timeout 90 --json-output");
  const auto& config = made.config;
  CHECK(config.model.path == "/models/smollm2");
  CHECK(config.model.name == "smollm2");
  CHECK(config.model.tensor_parallel_size == 2);
  CHECK(config.model.max_model_len == 2048);
  CHECK(config.model.max_num_batched_tokens == 8192);
  CHECK(config.model.max_batch_total_tokens == 32'000);
  CHECK(made.mentions("--max-batch-prefill-tokens 16000: model.max_num_batched_tokens is 8192"));
  CHECK(config.model.num_speculative_tokens == 3);
  CHECK(config.gateway.max_concurrent_requests == 128);
  CHECK(config.gateway.watermark_gamma == doctest::Approx(0.25));
  CHECK(config.gateway.http == "0.0.0.0:3001");
  CHECK(config.gateway.allow_unauthenticated);
  CHECK(config.gateway.admin == "127.0.0.1:9000");
  CHECK(config.shutdown_timeout == std::chrono::seconds(90));
  CHECK(made.mentions("--max-input-tokens is left out"));
  CHECK(made.mentions("--json-output is left out"));
}

TEST_CASE("ngram speculation is imported, a draft model is left out") {
  const auto ours =
      import_words({"vllm", "serve", "/m", "--speculative-config",
                    R"({"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 6})"});
  CHECK(ours.config.model.num_speculative_tokens == 5);
  CHECK(ours.config.model.prompt_lookup_max == 6);
  const auto draft = import_words(
      {"vllm", "serve", "/m", "-sc", R"({"model": "d", "num_speculative_tokens": 5})"});
  CHECK(draft.config.model.num_speculative_tokens == model_config{}.num_speculative_tokens);
  CHECK(draft.mentions("not from another model"));
}

TEST_CASE("an address beyond this machine is open only if no key was needed") {
  const auto open = import_of_command("vllm serve /m --host 10.0.0.1");
  CHECK(open.config.gateway.allow_unauthenticated);
  CHECK(open.mentions("any client that reaches the address may send"));
  const auto guarded = import_of_command("vllm serve /m --host 10.0.0.1 --api-key secret");
  CHECK_FALSE(guarded.config.gateway.allow_unauthenticated);
  CHECK(guarded.mentions("cluster keygen --api"));
  CHECK_FALSE(guarded.mentions("secret"));
  CHECK(import_of_command("vllm serve /m --host ::1").config.gateway.http == "[::1]:8000");
}

TEST_CASE("names at Hugging Face are reported as unsupported") {
  CHECK(import_of_command("vllm serve Qwen/Qwen2.5-1.5B").mentions("nothing is downloaded"));
  CHECK_FALSE(import_of_command("vllm serve /models/q").mentions("nothing is downloaded"));
  const auto made = import_launch(words_of("vllm serve Qwen/Qwen2.5-1.5B"), "/models/q", "mine");
  REQUIRE(made);
  CHECK(made->toml.find("path = \"/models/q\"") != std::string::npos);
  CHECK(made->toml.find("name = \"mine\"") != std::string::npos);
  CHECK(made->toml.find("aliases = [\"Qwen/Qwen2.5-1.5B\"]") != std::string::npos);
}

TEST_CASE("unknown options are left out with their values, and reported") {
  const auto made = import_of_command("vllm serve /m --unheard a b --max-num-seqs 9 --enable-lora "
                                      "--lora-modules x=1 y=2 --other");
  CHECK(made.config.model.max_num_seqs == 9);
  CHECK(made.mentions("--unheard IS NOT KNOWN: vLLM has no such option"));
  CHECK(made.mentions("--other IS NOT KNOWN"));
  CHECK(made.mentions("ADAPTERS ARE NOT SERVED"));
}

TEST_CASE("the last one of duplicate options applies") {
  CHECK(import_of_command("vllm serve /m --max-num-seqs 9 --max-num-seqs 7")
            .config.model.max_num_seqs == 7);
}

TEST_CASE("a server without recorded steps stays one") {
  CHECK(import_of_command("vllm serve /m --enforce-eager").config.model.enforce_eager);
  CHECK(!import_of_command("vllm serve /m").config.model.enforce_eager);
}

TEST_CASE("invalid commands are refused by the option's name") {
  CHECK(command_refusal("vllm serve") == "the command names no model");
  CHECK(command_refusal("vllm bench --model m").find("none of: vllm serve") != std::string::npos);
  CHECK(command_refusal("").find("none of") != std::string::npos);
  CHECK(command_refusal("python3 -m http.server").find("none of") != std::string::npos);
  CHECK(command_refusal("vllm serve /m --max-num-seqs many") ==
        "--max-num-seqs is 'many': a number is needed");
  CHECK(command_refusal("vllm serve /m --max-num-seqs") == "--max-num-seqs needs a value");
  CHECK(command_refusal("vllm serve /m --max-num-seqs --port 1") == "--max-num-seqs needs a value");
  CHECK(command_refusal("vllm serve /m --max-num-seqs -5") ==
        "--max-num-seqs is '-5': a number is needed");
  CHECK(command_refusal("vllm serve /m --max-num-seqs nan") ==
        "--max-num-seqs is 'nan': a number is needed");
  CHECK(command_refusal("vllm serve /m --port 70000") == "--port is '70000': a port is needed");
  CHECK(command_refusal("vllm serve /m --enforce-eager=1") == "--enforce-eager takes no value");
  CHECK(command_refusal("vllm serve /m other") == "other is one word too many: the model is /m");
  CHECK(command_refusal("vllm serve /m --scheduling-policy lifo") ==
        "--scheduling-policy is 'lifo': one of fcfs, priority is needed");
  CHECK(command_refusal("vllm serve /m -sc [").starts_with("-sc is no JSON"));
  CHECK(command_refusal("vllm serve /m --served-model-name=") ==
        "--served-model-name is '': a name is needed");
}

TEST_CASE("no argument becomes an unrelated setting") {
  const auto made = import_words({"vllm", "serve", "/m\"\nallow_unauthenticated = true",
                                  "--un\n[gateway]", "\nallow_unauthenticated = true"});
  CHECK_FALSE(made.config.gateway.allow_unauthenticated);
  CHECK(made.config.model.path == "/m\"\nallow_unauthenticated = true");
}

TEST_CASE("only a misspelt option is unknown, and the nearest is named") {
  const auto made = import_of_command(
      "vllm serve /m --tensor-paralel-size 4 --disable-log-requests --seed 0 --enable-sleep-mode");
  CHECK(made.mentions("--tensor-paralel-size IS NOT KNOWN: vLLM has no such option; did you mean "
                      "--tensor-parallel-size?"));
  CHECK(made.mentions("--disable-log-requests is left out: texts are never logged"));
  CHECK(made.mentions("--seed is left out: requests have seeds of their own"));
  CHECK(made.mentions("--enable-sleep-mode is left out: there is no such state"));
  CHECK(made.config.model.tensor_parallel_size == 1);
}

TEST_CASE("options of vLLM's newest version are known, and a switch is known with --no-") {
  const auto made = import_of_command(
      "vllm serve /m --spec-method ngram --spec-tokens 4 --log-level WARNING --moe-backend auto "
      "--kv-cache-metrics --no-trust-remote-code --no-enable-mfu-metrics --device-ids 0,1 "
      "--mamba-backend triton --offload-params gate_up down --no-such-thing");
  CHECK(made.config.model.num_speculative_tokens == 4);
  CHECK(made.config.log_level == "warn");
  CHECK(made.mentions("--spec-method is left out: draft tokens come from the text so far"));
  CHECK(made.mentions("--moe-backend is left out: the engine chooses its kernels"));
  CHECK(made.mentions("--kv-cache-metrics is left out: /metrics"));
  CHECK(made.mentions("--no-trust-remote-code is left out: code that comes with a model"));
  CHECK(made.mentions("--no-enable-mfu-metrics is left out: /metrics"));
  CHECK(made.mentions("GPUs ARE LEFT OUT: 1 are needed, and this machine has 0"));
  CHECK(made.mentions("--mamba-backend is left out: states of Mamba have one type"));
  CHECK(made.mentions("--offload-params is left out: memory is planned"));
  CHECK(made.mentions("--no-such-thing IS NOT KNOWN"));
}

TEST_CASE("TorchServe's launcher of an LLM has TorchServe's listeners and the name model") {
  const auto made = import_of_command(
      "python -m ts.llm_launcher --model_id /m --disable_token_auth --vllm_engine.max_num_seqs 8 "
      "--vllm_engine.max_model_len 2048 --vllm_engine.download_dir /d --engine vllm");
  const auto& config = made.config;
  CHECK(config.model.name == "model");
  CHECK(config.model.max_num_seqs == 8);
  CHECK(config.model.max_model_len == 2048);
  CHECK(config.gateway.torchserve_inference == "127.0.0.1:8080");
  CHECK(config.gateway.torchserve_management == "127.0.0.1:8081");
  CHECK(config.gateway.torchserve_metrics == "127.0.0.1:8082");
  CHECK(made.mentions("--vllm-engine.download-dir is left out: nothing is downloaded"));
  CHECK_FALSE(made.mentions("NOT KNOWN"));

  const auto open = import_of_command("docker run -p 8080:8080 -v /d:/data ts/llm --model_id "
                                      "/data/m --model_name llama --disable_token_auth");
  CHECK(open.config.model.name == "llama");
  CHECK(open.config.model.path == "/d/m");
  CHECK(open.config.gateway.torchserve_inference == "0.0.0.0:8080");
  CHECK(open.config.gateway.torchserve_management == "127.0.0.1:8081");
  CHECK(open.config.gateway.allow_unauthenticated);
  const auto guarded = import_of_command("docker run -p 8080:8080 ts/llm --model_id /data/m");
  CHECK(guarded.config.gateway.torchserve_inference == "127.0.0.1:8080");
  CHECK(guarded.mentions("gateway.torchserve_inference is only for this machine until"));
}

TEST_CASE("each option of the tables has a row, a reason or a key, and is parsed") {
  for (const auto* in : {&start_line::vllm, &start_line::tgi, &start_line::llama,
                         &start_line::sglang, &start_line::torchserve_llm}) {
    std::set<std::string_view> seen;
    for (const auto& o : in->options)
      for (const auto name : start_line::split(o.names)) {
        CHECK_MESSAGE(seen.insert(name).second, in->name, ": ", name, " twice");
        CHECK(name.front() == '-');
        CHECK(start_line::find_option(*in, name) == &o);
        const bool is_left_out = o.is == start_line::kind::without ||
                                 o.is == start_line::kind::without_a_value ||
                                 o.is == start_line::kind::without_values;
        CHECK_MESSAGE((!is_left_out || !o.to.empty()), name, " has no reason");
      }
  }
}

TEST_CASE("for any number in an option, the resulting nodes.toml is valid") {
  constexpr std::pair<launcher, const start_line::dialect*> all[] = {
      {launcher::vllm, &start_line::vllm},
      {launcher::tgi, &start_line::tgi},
      {launcher::llama, &start_line::llama},
      {launcher::sglang, &start_line::sglang}};
  for (const auto& [program, in] : all)
    for (const auto& o : in->options) {
      using start_line::kind;
      if (o.is != kind::number && o.is != kind::tokens && o.is != kind::unless && o.is != kind::gib)
        continue;
      for (const std::string value : {"0", "1", "100000000000000"}) {
        CAPTURE(o.names);
        CAPTURE(value);
        launch_line line;
        line.program = program;
        line.args = {std::string(start_line::split(o.names).front()), value};
        import_wishes wishes;
        wishes.model = "/m";
        const auto made = import_launch(line, wishes);
        REQUIRE_MESSAGE(made, made.error().message);
        const auto config = parse_config(made->toml, "nodes.toml");
        CHECK_MESSAGE(config, config.error().message);
      }
    }
}

TEST_CASE("options before the model do not consume it") {
  CHECK(import_of_command("vllm serve --seed 0 /m").config.model.path == "/m");
  CHECK(import_of_command("vllm serve --enable-chunked-prefill /m").config.model.path == "/m");
  CHECK(import_of_command("vllm serve --enable-chunked-prefill True /m").config.model.path == "/m");
}

TEST_CASE("the forms that Python's argparse accepts are accepted") {
  CHECK(import_of_command("vllm serve /m --tensor-parallel 2").config.model.tensor_parallel_size ==
        2);
  CHECK(import_of_command("vllm serve /m -O3 --max-num-seqs 3").config.model.max_num_seqs == 3);
  CHECK(import_of_command("vllm serve /m --speculative-config.method ngram")
            .mentions("GIVE --speculative-config AS ONE JSON OBJECT"));
  CHECK(import_of_command("vllm serve /m --max 2")
            .mentions("--max IS NOT KNOWN")); // an ambiguous prefix
}

TEST_CASE("a model's sampling defaults are imported") {
  const auto made = import_words({"vllm", "serve", "/m", "--override-generation-config",
                                  R"({"temperature": 0.5, "max_new_tokens": 100, "eta": 1})"});
  CHECK(made.config.model.sampling.temperature == doctest::Approx(0.5));
  CHECK(made.config.model.sampling.max_tokens == 100);
  CHECK(made.mentions("eta of --override-generation-config is left out"));
}

TEST_CASE("settings that nodes.toml accepts only together are written together") {
  const auto several = import_of_command("vllm serve /m --api-server-count 4 --port 8100");
  CHECK(several.config.gateway.processes == 4);
  CHECK(several.config.gateway.admin == "127.0.0.1:8101");
  const auto lookup = import_of_command("vllm serve /m --ngram-prompt-lookup-max 1");
  CHECK(lookup.config.model.prompt_lookup_max == 1);
  CHECK(lookup.config.model.prompt_lookup_min == 1);
}

TEST_CASE("llama-server becomes nodes.toml") {
  const auto made = import_of_command(
      "./build/bin/llama-server -m models/7B/ggml-model.gguf -c 4096 -np 4 -ngl 0 --port 8081 "
      "--alias llama,gpt-4 --temp 0.7 -n -1 -fa on --jinja --mlock -ctk q8_0 --threads-http 2 "
      "--no-webui");
  const auto& m = made.config.model;
  CHECK(m.path == "models/7B/ggml-model.gguf");
  CHECK(m.name == "llama");
  CHECK(m.aliases == std::vector<std::string>{"gpt-4"});
  CHECK(m.max_model_len == 4096);
  CHECK(m.max_num_seqs == 4);
  CHECK(m.kv_cache_dtype == cpu::kv_format::q8_0);
  CHECK(m.sampling.temperature == doctest::Approx(0.7));
  CHECK_FALSE(m.sampling.max_tokens);
  CHECK(made.config.gateway.http == "127.0.0.1:8081");
  CHECK(made.config.gateway.threads == 2);
  CHECK_FALSE(made.mentions("NOT KNOWN"));
  CHECK_FALSE(made.mentions("only for this machine")); // as there
}

TEST_CASE("sglang.launch_server becomes nodes.toml") {
  const auto made = import_of_command(
      "python3 -m sglang.launch_server --model-path meta-llama/Llama-3 --tp 2 --dp 2 --host "
      "0.0.0.0 --context-length 8192 --mem-fraction-static 0.8 --enable-metrics "
      "--disable-radix-cache --chunked-prefill-size -1");
  CHECK(made.config.model.tensor_parallel_size == 2);
  CHECK(made.config.model.replicas == 2);
  CHECK(made.config.model.max_model_len == 8192);
  CHECK_FALSE(made.config.model.enable_prefix_caching);
  CHECK(made.config.gateway.http == "0.0.0.0:30000");
  CHECK(made.mentions("--mem-fraction-static is left out: model.kv_cache_bytes"));
  CHECK_FALSE(made.mentions("NOT KNOWN"));
}

namespace {

imported import_on(const std::string& command, const import_machine& machine) {
  auto line = read_launch_line(words_of(command));
  REQUIRE(line);
  import_wishes wishes;
  wishes.machine = machine;
  auto made = import_launch(*line, wishes);
  REQUIRE_MESSAGE(made, made.error().message);
  auto config = parse_config(made->toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", made->toml);
  return {*config, made->notes};
}

} // namespace

TEST_CASE("the result is for this machine: GPUs, types of weights, swap space") {
  const std::string line = "vllm serve /m -tp 2 --dtype half --swap-space 16 --kv-cache-dtype fp8";
  const auto alone = import_on(line, {0, 20ull << 30});
  CHECK(alone.config.has_default_layout);
  CHECK(alone.config.model.dtype == "auto");
  CHECK(alone.mentions("--dtype half is left out: this machine's engine"));
  CHECK(alone.config.model.swap_space == 0);
  CHECK(alone.mentions("--swap-space 16 IS LEFT OUT: the disk of the run directory has 20 GiB"));
  const auto gpus = import_on(line, {2, 100ull << 30});
  CHECK(gpus.config.nodes.front().devices == std::vector<std::string>{"cuda:0", "cuda:1"});
  CHECK(gpus.config.model.dtype == "float16");
  CHECK(gpus.config.model.swap_space == 16ull << 30);
  CHECK(gpus.config.model.kv_cache_dtype == cpu::kv_format::f16);
  const auto chosen =
      import_on("docker run --gpus \"device=2,3\" vllm/vllm-openai /m -tp 2", {4, {}});
  CHECK(chosen.config.nodes.front().devices == std::vector<std::string>{"cuda:2", "cuda:3"});
  const auto few =
      import_on("docker run --gpus all vllm/vllm-openai /m -tp 4 --dtype half", {2, {}});
  CHECK(few.config.has_default_layout);
  CHECK(few.config.model.dtype == "auto");
  CHECK(few.mentions("GPUs ARE LEFT OUT: 4 are needed, and this machine has 2"));
  CHECK(import_on("llama-server -m /m.gguf", {2, {}}).config.has_default_layout);
  CHECK_FALSE(import_on("llama-server -m /m.gguf -ngl 99", {2, {}}).config.has_default_layout);
}
