// What the start lines of other servers may say, as data: a row for each option of each server, and
// what becomes of it here. Names and meanings are those of the servers' own sources:
//   vLLM       vllm/engine/arg_utils.py, vllm/entrypoints/openai/cli_args.py
//   TGI        launcher/src/main.rs
//   llama.cpp  common/arg.cpp, tools/server/README.md
//   SGLang     python/sglang/srt/server_args.py, docs/advanced_features/server_arguments.md
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace baton::cluster::start_line {

// What becomes of an option's value.
enum class kind {
  number, // within [least, most]; beyond: the nearest, and a note
  tokens, // the same, also as 32k (thousands) and 32K (times 1024)
  unless, // a number, where -1 and 0 stand for the server's own choice, which is ours as well
  gib,    // a number of GiB
  word, // one of `words`, each with what it is called here; "x=" is left out, for it is the default
  dtype, // the same of types of weights, which only engines of devices have
  text,  // as it is
  real,  // a number with a fraction
  on,    // no value: true
  off,   // no value: false
  model,
  name,  // one or several
  names, // several, with commas between them
  host,
  port,
  key,
  sampling,        // vLLM's --override-generation-config: a JSON object
  guesses,         // vLLM's --speculative-config
  metrics_port,    // of a port for Prometheus alone
  stages,          // llama.cpp's --split-mode
  gpu_layers,      // llama.cpp's --n-gpu-layers
  collector,       // of OpenTelemetry
  several,         // of the servers of other models: their files
  without,         // no counterpart, no value
  without_a_value, // no counterpart, with a value
  without_values   // no counterpart, with one or several
};

struct option {
  std::string_view
      names; // "--tensor-parallel-size -tp"; options that differ in nothing share a row
  kind is;
  std::string_view to = {}; // "model.tensor_parallel_size"; of one that is left out: why
  std::uint64_t least = 0, most = 0;
  std::string_view words = {}; // "half=float16 ..."; "x" is "x=x"
};

struct dialect {
  std::string_view name;
  std::string_view host; // where it listens if nothing is said; empty: everywhere
  std::string_view port;
  std::string_view variables; // environment variables of its options begin so; "-": none are read
  bool takes_beginnings;      // of an option's name, where one alone begins so
  std::span<const option> options;
};

extern const dialect vllm, tgi, llama, sglang;

// Without a value behind it.
constexpr bool is_bare(kind what) noexcept {
  return what == kind::on || what == kind::off || what == kind::without;
}

// Null if there is none.
const option* find_option(const dialect& in, std::string_view name);
std::vector<std::string_view> split(std::string_view text);

// Reasons that several servers' rows have.
namespace why {
inline constexpr std::string_view always = "it is always so";
inline constexpr std::string_view never = "it is never so";
inline constexpr std::string_view gpu_memory = "model.kv_cache_bytes says what KV may take";
inline constexpr std::string_view from_file = "it is what the model's files say";
inline constexpr std::string_view packed =
    "it is what the model's file says; on GPUs model.quantization may say fp8 or int4";
inline constexpr std::string_view nothing_runs =
    "code that comes with a model is never run; families that are known need none";
inline constexpr std::string_view not_downloaded = "nothing is downloaded";
inline constexpr std::string_view adapters = "ADAPTERS ARE NOT SERVED";
inline constexpr std::string_view machines =
    "machines are [[nodes]] tables, and join by `cluster join` (docs/operations.md)";
inline constexpr std::string_view bounded = "bounds are those of docs/compatibility.md";
inline constexpr std::string_view text_only = "models here read and write text alone";
inline constexpr std::string_view kernels = "the engine chooses its kernels";
inline constexpr std::string_view memory = "memory is planned before shards start: `cluster plan`";
inline constexpr std::string_view logs =
    "logs are lines of text in the run directory; cluster.log_level says how much";
inline constexpr std::string_view access_log =
    "each gateway has an access log; gateway.access_log = false turns it off";
inline constexpr std::string_view metrics = "/metrics is always there";
inline constexpr std::string_view other_pages = "PAGES OF OTHER SITES ARE REFUSED";
inline constexpr std::string_view thoughts =
    "THOUGHTS STAND IN THE ANSWER'S TEXT: no parser separates them";
inline constexpr std::string_view no_draft =
    "guesses come from the text so far (ngram), not from another model";
inline constexpr std::string_view formed = "the scheduler forms steps anew whenever one has ended";
inline constexpr std::string_view no_experts = "experts lie with the layer that they are of";
inline constexpr std::string_view no_mamba = "no model with states of Mamba is served";
inline constexpr std::string_view whole = "prompts and answers are computed by the same shards";
inline constexpr std::string_view no_hooks = "no code of others runs in the server";
inline constexpr std::string_view requests_say = "requests say it";
inline constexpr std::string_view grammar = "answers under constraints have one implementation";
inline constexpr std::string_view start_up = "shards say when they are ready";
inline constexpr std::string_view debugging = "it is for measuring that server";
} // namespace why

} // namespace baton::cluster::start_line
