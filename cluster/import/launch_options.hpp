// Options of other servers' start commands, as data: a row for each option, with its counterpart
// here. Names and meanings come from the servers' own sources:
//   vLLM       vllm/engine/arg_utils.py, vllm/entrypoints/common/cli_args.py (of 0.33)
//   TGI        launcher/src/main.rs
//   llama.cpp  common/arg.cpp, tools/server/README.md
//   TorchServe ts/llm_launcher.py (its other lines: launch_torchserve.cpp)
//   SGLang     python/sglang/srt/server_args.py, docs/advanced_features/server_arguments.md
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::cluster::start_line {

// How an option's value is translated.
enum class kind {
  number, // clamped to [least, most], with a note
  tokens, // the same, also as 32k (times 1000) and 32K (times 1024)
  unless, // a number; -1 and 0 mean the server's own choice, and keep our default
  gib,    // a number of GiB
  choice, // one of `choices`, each with its name here; "x=" is the default and is omitted
  dtype,  // the same for weight types, which only device engines support
  text,   // copied
  real,   // a fractional number
  on,     // without a value: true
  off,    // without a value: false
  model,
  directory, // llama.cpp's --models-dir
  loaded,    // llama.cpp's --models-max: a number; 0 means as many as possible
  sleep,     // llama.cpp's --sleep-idle-seconds
  name,      // one or several
  names,     // several, separated by commas
  host,
  port,
  key,
  sampling,        // vLLM's --override-generation-config: a JSON object
  speculative,     // vLLM's --speculative-config
  metrics_port,    // a port for Prometheus only
  stages,          // llama.cpp's --split-mode
  devices,         // vLLM's --device-ids: words, or one with commas
  gpu_layers,      // llama.cpp's --n-gpu-layers
  collector,       // an OpenTelemetry collector
  no_key,          // TorchServe's --disable_token_auth
  several,         // model files of TorchServe or Triton
  without,         // no counterpart, takes no value
  without_a_value, // no counterpart, takes a value
  without_values   // no counterpart, takes one or several values
};

struct option {
  std::string_view names; // "--tensor-parallel-size -tp"; equivalent options share a row
  kind is;
  std::string_view to = {}; // "model.tensor_parallel_size"; for an option that is left out: why
  std::uint64_t least = 0, most = 0;
  std::string_view choices = {}; // "half=float16 ..."; "x" is "x=x"
};

struct dialect {
  std::string_view name;
  std::string_view host; // default address; empty: all
  std::string_view port;
  std::string_view variables; // prefix of its environment variables; "-": none are read
  bool accepts_prefixes;      // whether a unique prefix of an option's name is accepted
  std::span<const option> options;
  bool has_negations = false; // whether each switch has a form that begins with --no-
  bool needs_key = false;     // whether clients need a key by default
  std::string_view listener = "gateway.http"; // the key of the server's address
  // Further listeners at the same address, and their ports.
  std::span<const std::pair<std::string_view, std::string_view>> others = {};
  std::string_view model_name = {}; // the default; empty: the model as written
};

extern const dialect vllm, tgi, llama, sglang, torchserve_llm;

// Whether the option takes no value.
constexpr bool is_bare(kind what) noexcept {
  return what == kind::on || what == kind::off || what == kind::without || what == kind::no_key;
}

// Null if not found.
const option* find_option(const dialect& in, std::string_view name);
std::vector<std::string_view> split(std::string_view text);

// Reasons that rows of several servers share.
namespace why {
inline constexpr std::string_view always = "it is always so";
inline constexpr std::string_view never = "it is never so";
inline constexpr std::string_view gpu_memory = "model.kv_cache_bytes sets the size of the KV cache";
inline constexpr std::string_view from_file = "the model's files define it";
inline constexpr std::string_view packed =
    "the model's file defines it; on GPUs model.quantization may be fp8 or int4";
inline constexpr std::string_view nothing_runs =
    "code that comes with a model is never run; known model families need none";
inline constexpr std::string_view not_downloaded = "nothing is downloaded";
inline constexpr std::string_view adapters = "ADAPTERS ARE NOT SERVED";
inline constexpr std::string_view machines =
    "machines are [[nodes]] tables, and join by `cluster join` (docs/operate/machines.md)";
inline constexpr std::string_view bounded = "bounds are those of docs/apis/generation.md";
inline constexpr std::string_view text_only = "models here read and write text alone";
inline constexpr std::string_view kernels = "the engine chooses its kernels";
inline constexpr std::string_view memory = "memory is planned before shards start: `cluster plan`";
inline constexpr std::string_view logs =
    "logs are lines of text in the run directory; cluster.log_level says how much";
inline constexpr std::string_view access_log =
    "each gateway has an access log; gateway.access_log = false turns it off";
inline constexpr std::string_view metrics = "/metrics is always there";
inline constexpr std::string_view other_pages = "PAGES OF OTHER SITES ARE REFUSED";
inline constexpr std::string_view calls = "the chat template defines how a model calls tools";
inline constexpr std::string_view thoughts =
    "the marks of the chat template separate reasoning (docs/apis/reasoning.md)";
inline constexpr std::string_view no_draft =
    "draft tokens come from the text so far (ngram), not from another model";
inline constexpr std::string_view formed = "the scheduler forms steps anew whenever one has ended";
inline constexpr std::string_view no_experts = "experts are placed with their layer";
inline constexpr std::string_view states =
    "states of Mamba have one type, and as many slots as model.max_num_seqs needs";
inline constexpr std::string_view training = "no other program trains what is served";
inline constexpr std::string_view whole = "prompts and answers are computed by the same shards";
inline constexpr std::string_view no_hooks = "no third-party code runs in the server";
inline constexpr std::string_view requests_set = "requests set it";
inline constexpr std::string_view grammar = "answers under constraints have one implementation";
inline constexpr std::string_view start_up = "shards report when they are ready";
inline constexpr std::string_view debugging = "it is for measuring that server";
} // namespace why

} // namespace baton::cluster::start_line
