#include "cluster/launch_import.hpp"

#include "cluster/config.hpp"
#include "cluster/config_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

namespace baton::cluster {
namespace {

// What becomes of an option's value.
enum class kind {
  number, // within [least, most]; beyond: the nearest, and a note
  tokens, // the same, also as 32k (thousands) and 32K (times 1024)
  gib,    // a number of GiB
  word,   // one of `words`, each with what it is called here
  text,   // as it is
  on,
  off, // no value: true, false
  model,
  name,
  host,
  port,
  key,
  guesses,        // vLLM's --speculative-config
  metrics_port,   // of a port for Prometheus alone
  without,        // no counterpart, no value
  without_a_value // no counterpart, with a value
};

struct option {
  std::string_view names; // "--tensor-parallel-size -tp"
  kind is;
  std::string_view to = {}; // "model.tensor_parallel_size"; of one that is left out: why
  std::uint64_t least = 0, most = 0;
  std::string_view words = {}; // "half=float16 ..."; "x" is "x=x"
};

struct dialect {
  std::string_view name;
  std::string_view port;
  std::span<const option> options;
};

constexpr std::string_view dtypes = "auto half=float16 float16 bfloat16 float=float32 float32";
constexpr std::string_view always = "it is always so";
constexpr std::string_view gpu_memory = "model.kv_cache_bytes says what KV may take";
constexpr std::string_view from_file = "it is what the model's file says";
constexpr std::string_view packed =
    "it is what the model's file says; on GPUs model.quantization may say fp8 or int4";
constexpr std::string_view nothing_runs =
    "code that comes with a model is never run; families that are known need none";
constexpr std::string_view adapters = "ADAPTERS ARE NOT SERVED";
constexpr std::string_view machines =
    "machines are [[nodes]] tables, and join by `cluster join` (docs/operations.md)";
constexpr std::string_view bounded = "bounds are those of docs/compatibility.md";

constexpr option vllm_options[] = {
    {"--model", kind::model},
    {"--served-model-name", kind::name},
    {"--host", kind::host},
    {"--port", kind::port},
    {"--api-key", kind::key},
    {"--ssl-certfile", kind::text, "gateway.tls_certificate"},
    {"--ssl-keyfile", kind::text, "gateway.tls_key"},
    {"--api-server-count -asc", kind::number, "gateway.processes", 1, gateways_max},
    {"--dtype", kind::word, "model.dtype", 0, 0, dtypes},
    {"--max-model-len", kind::tokens, "model.max_model_len", 16, 1 << 24},
    {"--max-num-seqs", kind::number, "model.max_num_seqs", 1, 16'384},
    {"--max-num-batched-tokens", kind::tokens, "model.max_num_batched_tokens", 16, 8192},
    {"--max-num-queued-reqs", kind::number, "model.max_num_queued_reqs", 0, 1 << 20},
    {"--max-num-queued-tokens", kind::tokens, "model.max_num_queued_tokens", 1, 1u << 31},
    {"--tensor-parallel-size -tp", kind::number, "model.tensor_parallel_size", 1, 1024},
    {"--pipeline-parallel-size -pp", kind::number, "model.pipeline_parallel_size", 1, 1024},
    {"--data-parallel-size -dp", kind::number, "model.replicas", 1, 1024},
    {"--kv-cache-memory-bytes", kind::number, "model.kv_cache_bytes", 1 << 20, 1ull << 46},
    {"--kv-cache-dtype", kind::word, "model.kv_cache_dtype", 0, 0,
     "auto float16=f16 bfloat16=f16 fp8=q8_0 fp8_e4m3=q8_0 fp8_e5m2=q8_0"},
    {"--swap-space", kind::gib, "model.swap_space", 0, 1 << 16},
    {"--scheduling-policy", kind::word, "model.scheduling_policy", 0, 0, "fcfs priority"},
    {"--enable-prefix-caching", kind::on, "model.enable_prefix_caching"},
    {"--no-enable-prefix-caching", kind::off, "model.enable_prefix_caching"},
    {"--async-scheduling", kind::on, "model.async_scheduling"},
    {"--no-async-scheduling", kind::off, "model.async_scheduling"},
    {"--shutdown-timeout", kind::number, "cluster.shutdown_timeout", 0, 86'400},
    {"--speculative-config -sc", kind::guesses},
    {"--gpu-memory-utilization", kind::without_a_value, gpu_memory},
    {"--block-size", kind::without_a_value, "blocks have 64 positions"},
    {"--enable-chunked-prefill", kind::without, always},
    {"--enforce-eager", kind::on, "model.enforce_eager"},
    {"--enable-auto-tool-choice", kind::without, always},
    {"--tool-call-parser", kind::without_a_value, "the chat template says how a model calls tools"},
    {"--chat-template", kind::without_a_value, from_file},
    {"--quantization -q", kind::without_a_value, packed},
    {"--load-format", kind::without_a_value, from_file},
    {"--tokenizer", kind::without_a_value, from_file},
    {"--revision", kind::without_a_value, "nothing is downloaded"},
    {"--download-dir", kind::without_a_value, "nothing is downloaded"},
    {"--trust-remote-code", kind::without, nothing_runs},
    {"--seed", kind::without_a_value, "requests have seeds of their own"},
    {"--generation-config", kind::word, "model.generation_config", 0, 0, "auto vllm=none"},
    {"--override-generation-config", kind::without_a_value, "A TABLE [model.sampling] SAYS IT"},
    {"--nnodes", kind::without_a_value, machines},
    {"--node-rank", kind::without_a_value, machines},
    {"--master-addr", kind::without_a_value, machines},
    {"--master-port", kind::without_a_value, machines},
    {"--headless", kind::without, machines},
    {"--distributed-executor-backend", kind::without_a_value, machines},
    {"--enable-lora", kind::without, adapters},
    {"--lora-modules", kind::without_a_value, adapters},
    {"--max-loras", kind::without_a_value, adapters},
    {"--max-lora-rank", kind::without_a_value, adapters},
};

constexpr option tgi_options[] = {
    {"--model-id", kind::model},
    {"--served-model-name", kind::name},
    {"--hostname", kind::host},
    {"--port -p", kind::port},
    {"--api-key", kind::key},
    {"--prometheus-port", kind::metrics_port},
    {"--num-shard", kind::number, "model.tensor_parallel_size", 1, 1024},
    {"--dtype", kind::word, "model.dtype", 0, 0, dtypes},
    {"--kv-cache-dtype", kind::word, "model.kv_cache_dtype", 0, 0, "fp8_e4m3fn=q8_0 fp8_e5m2=q8_0"},
    {"--max-concurrent-requests", kind::number, "gateway.max_concurrent_requests", 1, 1 << 20},
    {"--max-total-tokens", kind::tokens, "model.max_model_len", 16, 1 << 24},
    {"--max-batch-prefill-tokens", kind::tokens, "model.max_num_batched_tokens", 16, 8192},
    {"--max-batch-size", kind::number, "model.max_num_seqs", 1, 16'384},
    {"--speculate", kind::number, "model.num_speculative_tokens", 0, 16},
    {"--graceful-termination-timeout", kind::number, "cluster.shutdown_timeout", 0, 86'400},
    {"--watermark-gamma", kind::text, "gateway.watermark_gamma"},
    {"--watermark-delta", kind::text, "gateway.watermark_delta"},
    {"--max-input-tokens", kind::without_a_value, "a prompt may be as long as model.max_model_len"},
    {"--max-input-length", kind::without_a_value, "a prompt may be as long as model.max_model_len"},
    {"--max-batch-total-tokens", kind::without_a_value, "it follows from model.kv_cache_bytes"},
    {"--max-waiting-tokens", kind::without_a_value, "prompts are computed beside answers"},
    {"--waiting-served-ratio", kind::without_a_value, "prompts are computed beside answers"},
    {"--cuda-memory-fraction", kind::without_a_value, gpu_memory},
    {"--cuda-graphs", kind::without_a_value,
     "sizes are chosen; model.enforce_eager turns them off"},
    {"--sharded", kind::without_a_value, "--num-shard says it"},
    {"--quantize", kind::without_a_value, packed},
    {"--revision", kind::without_a_value, "nothing is downloaded"},
    {"--huggingface-hub-cache", kind::without_a_value, "nothing is downloaded"},
    {"--trust-remote-code", kind::without, nothing_runs},
    {"--max-best-of", kind::without_a_value, bounded},
    {"--max-stop-sequences", kind::without_a_value, bounded},
    {"--max-top-n-tokens", kind::without_a_value, bounded},
    {"--max-client-batch-size", kind::without_a_value, bounded},
    {"--payload-limit", kind::without_a_value, bounded},
    {"--validation-workers", kind::without_a_value, "the head has one tokenizer"},
    {"--cors-allow-origin", kind::without_a_value, "PAGES OF OTHER SITES ARE REFUSED"},
    {"--lora-adapters", kind::without_a_value, adapters},
    {"--json-output", kind::without, "logs are lines of text in the run directory"},
    {"--disable-grammar-support", kind::without, "requests alone say whether they have a grammar"},
};

constexpr dialect vllm{"vLLM", "8000", vllm_options};
constexpr dialect tgi{"text-generation-inference", "3000", tgi_options};

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    if (end > 0)
      parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

const option* find_option(const dialect& in, std::string_view name) {
  for (const auto& o : in.options)
    if (const auto names = split(o.names); std::ranges::find(names, name) != names.end())
      return &o;
  return nullptr;
}

// What is left of a path is a name, with what cannot stand in one as a dash.
std::string name_of(const std::string& model) {
  auto path = std::filesystem::path(model);
  if (!path.has_filename())
    path = path.parent_path();
  auto name = path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
  for (auto& c : name)
    if (!is_name(std::string_view(&c, 1)) && c != '.')
      c = '-';
  return name.substr(0, 64);
}

class translation {
public:
  explicit translation(const dialect& from) : from_(from) {}

  std::optional<error> read(std::span<const std::string> words);
  result<imported_config> write(const std::string& model, const std::string& name,
                                bool keeps_names);

private:
  void take(const option& o, std::string_view name, const std::string& value);
  void take_number(const option& o, std::string_view name, const std::string& value);
  void take_word(const option& o, std::string_view name, const std::string& value);
  void take_guesses(std::string_view name, const std::string& value);
  void write_address();
  void set_aliases(const std::vector<std::string>& had);
  // `to`: table.key. What is said later replaces what was said before.
  void set(std::string_view to, std::string value) { said_[std::string(to)] = std::move(value); }
  void note(std::string text) { out_.notes.push_back(std::move(text)); }
  void refuse(std::string_view name, const std::string& why) {
    if (!first_)
      first_ = error{errc::bad_config, fmt::format("{} {}", name, why), std::string(name)};
  }

  const dialect& from_;
  std::map<std::string, std::string> said_;
  std::string model_, name_, host_, port_;
  std::vector<std::string> served_names_; // the first is the model's own
  bool has_key_ = false;
  imported_config out_;
  std::optional<error> first_;
};

// Clients go on asking by the names that the model had there.
void translation::set_aliases(const std::vector<std::string>& had) {
  std::vector<std::string> quoted;
  for (const auto& name : had) {
    auto text = toml_string(name);
    if (name == name_ || std::find(quoted.begin(), quoted.end(), text) != quoted.end())
      continue;
    if (is_alias(name))
      quoted.push_back(std::move(text));
    else
      note(fmt::format("the name '{}' is left out: a model.aliases is 1 to 128 of "
                       "[A-Za-z0-9._-/:@+]; CLIENTS HAVE TO ASK BY ANOTHER",
                       name));
  }
  if (!quoted.empty())
    set("model.aliases", fmt::format("[{}]", fmt::join(quoted, ", ")));
}

std::optional<error> translation::read(std::span<const std::string> words) {
  const auto is_option = [](const std::string& word) {
    return word.size() > 1 && word.front() == '-' && (word[1] < '0' || word[1] > '9');
  };
  for (std::size_t i = 0; i < words.size() && !first_; ++i) {
    if (!is_option(words[i])) {
      if (!model_.empty())
        refuse(words[i], "is one word too many: the model is " + model_);
      model_ = words[i];
      continue;
    }
    const auto equals = words[i].find('=');
    auto name = words[i].substr(0, equals);
    std::ranges::replace(name, '_', '-'); // vLLM takes both
    std::vector<std::string> values;
    if (equals != std::string::npos)
      values.push_back(words[i].substr(equals + 1));
    const auto* o = find_option(from_, name);
    const bool is_bare = o && (o->is == kind::on || o->is == kind::off || o->is == kind::without);
    if (is_bare && !values.empty())
      refuse(name, "takes no value");
    else if (!is_bare && values.empty()) {
      // Of several values (names, adapters) all belong to it, as they do there.
      const bool takes_all = !o || o->is == kind::name || o->is == kind::without_a_value;
      while (i + 1 < words.size() && !is_option(words[i + 1]) && (takes_all || values.empty()))
        values.push_back(words[++i]);
    }
    if (!o)
      note(fmt::format("{} is left out: nothing here is called so", name));
    else if (!is_bare && values.empty())
      refuse(name, "needs a value");
    else
      take(*o, name, is_bare ? "" : values.front());
    if (o && o->is == kind::name && !values.empty()) // all that were said before go
      served_names_ = std::move(values);
  }
  return first_;
}

void translation::take(const option& o, std::string_view name, const std::string& value) {
  switch (o.is) {
  case kind::number:
  case kind::tokens:
  case kind::gib:
    return take_number(o, name, value);
  case kind::word:
    return take_word(o, name, value);
  case kind::text: {
    const bool is_number = o.to.find("watermark") != std::string_view::npos;
    double parsed = 0;
    if (is_number && std::from_chars(value.data(), value.data() + value.size(), parsed).ptr !=
                         value.data() + value.size())
      return refuse(name, fmt::format("is '{}': a number is needed", value));
    return set(o.to, is_number ? fmt::format("{:.6f}", parsed) : toml_string(value));
  }
  case kind::on:
  case kind::off:
    return set(o.to, o.is == kind::on ? "true" : "false");
  case kind::model:
    model_ = value;
    return;
  case kind::name:
    if (name_of(value).empty())
      return refuse(name, fmt::format("is '{}': a name is needed", value));
    return; // with those behind it
  case kind::host:
    host_ = value;
    return;
  case kind::port:
  case kind::metrics_port: {
    std::uint16_t port = 0;
    const auto* end = value.data() + value.size();
    if (std::from_chars(value.data(), end, port).ptr != end || port == 0)
      return refuse(name, fmt::format("is '{}': a port is needed", value));
    if (o.is == kind::port)
      port_ = value;
    else
      set("gateway.admin", toml_string("127.0.0.1:" + value));
    return;
  }
  case kind::key:
    has_key_ = true;
    return note("THE API KEY IS NOT CARRIED OVER: keys are kept as hashes. `cluster keygen --api "
                "NAME keys.toml` makes one; then gateway.api_keys = \"keys.toml\"");
  case kind::guesses:
    return take_guesses(name, value);
  case kind::without:
  case kind::without_a_value:
    return note(fmt::format("{} is left out: {}", name, o.to));
  }
}

void translation::take_number(const option& o, std::string_view name, const std::string& value) {
  auto digits = std::string_view(value);
  std::uint64_t unit = 1;
  constexpr std::pair<char, std::uint64_t> units[] = {
      {'k', 1'000}, {'K', 1 << 10}, {'m', 1'000'000}, {'M', 1 << 20}};
  if (o.is == kind::tokens && !digits.empty())
    for (const auto& [letter, times] : units)
      if (digits.back() == letter) {
        unit = times;
        digits.remove_suffix(1);
        break;
      }
  double number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || read.ec != std::errc() || read.ptr != digits.data() + digits.size() ||
      !(number >= 0 && number < 1e15))
    return refuse(name, fmt::format("is '{}': a number is needed", value));
  const auto all = static_cast<std::uint64_t>(number * static_cast<double>(unit));
  const auto within = std::clamp(all, o.least, o.most);
  if (within != all)
    note(fmt::format("{} {}: {} is {} from {} to {}", name, value, o.to, within, o.least, o.most));
  set(o.to, o.is == kind::gib ? fmt::format("\"{}GiB\"", within) : fmt::format("{}", within));
}

void translation::take_word(const option& o, std::string_view name, const std::string& value) {
  std::vector<std::string_view> known;
  for (const auto word : split(o.words)) {
    const auto theirs = word.substr(0, word.find('='));
    const auto ours = word.substr(std::min(word.find('=') + 1, word.size()));
    known.push_back(theirs);
    if (theirs != value)
      continue;
    const auto here = theirs.size() == word.size() ? theirs : ours;
    if (here == "q8_0")
      note(fmt::format("{} {}: KV of 8 bits is q8_0 here, blocks of 8-bit integers", name, value));
    return set(o.to, toml_string(here));
  }
  refuse(name, fmt::format("is '{}': one of {} is needed", value, fmt::join(known, ", ")));
}

// {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}; JSON is YAML.
void translation::take_guesses(std::string_view name, const std::string& value) {
  try { // yaml-cpp's boundary
    const auto root = YAML::Load(value);
    if (!root.IsMap())
      return refuse(name, "is no JSON object");
    if (const auto method = root["method"]; !method || method.as<std::string>("") != "ngram")
      return note(fmt::format("{} is left out: guesses come from the text so far (ngram), not from "
                              "another model",
                              name));
    constexpr option numbers[] = {
        {"num_speculative_tokens", kind::number, "model.num_speculative_tokens", 0, 16},
        {"prompt_lookup_max", kind::number, "model.prompt_lookup_max", 1, 16},
        {"prompt_lookup_min", kind::number, "model.prompt_lookup_min", 1, 16},
    };
    for (const auto& o : numbers)
      if (const auto node = root[std::string(o.names)])
        take_number(o, o.names, node.IsScalar() ? node.Scalar() : "no number");
  } catch (const YAML::Exception& e) {
    refuse(name, fmt::format("is no JSON: {}", e.msg));
  }
}

// Both listen at all addresses, with or without a key; here that has to be said.
void translation::write_address() {
  const auto port = port_.empty() ? std::string(from_.port) : port_;
  const auto host = host_.empty() ? "127.0.0.1" : host_ == "localhost" ? "127.0.0.1" : host_;
  if (host_.empty())
    note(fmt::format("gateway.http is this machine's own: say which address others may use, "
                     "{} takes all",
                     from_.name));
  set("gateway.http",
      toml_string(host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                                      : fmt::format("[{}]:{}", host, port)));
  if (host != "127.0.0.1" && host != "::1" && !has_key_) {
    set("gateway.allow_unauthenticated", "true");
    note("gateway.allow_unauthenticated: whoever reaches the address may ask, as before");
  }
}

result<imported_config> translation::write(const std::string& model, const std::string& name,
                                           bool keeps_names) {
  auto had = served_names_; // of a server that was told none: its model, as it was written
  if (had.empty() && !model_.empty())
    had.push_back(model_);
  if (!model.empty())
    model_ = model;
  name_ = !name.empty() ? name : served_names_.empty() ? "" : name_of(served_names_.front());
  if (model_.empty())
    return fail(errc::bad_config, "the command names no model");
  const auto slash = model_.find('/');
  if (slash != std::string::npos && slash > 0 && model_.front() != '.' &&
      model_.find('/', slash + 1) == std::string::npos && model_.back() != '/' &&
      !model_.ends_with(".gguf"))
    note(fmt::format("model.path {}: nothing is downloaded; if this is a name at Hugging Face, "
                     "give the directory that has it (--model)",
                     model_));
  set("model.path", toml_string(model_));
  if (name_.empty())
    name_ = name_of(model_);
  set("model.name", toml_string(name_));
  if (keeps_names)
    set_aliases(had);
  write_address();
  out_.toml = fmt::format("# Made of a command of {} by `cluster import`.\n", from_.name);
  for (const auto& line : out_.notes)
    out_.toml += toml_comment(line);
  for (const std::string_view table : {"cluster", "model", "gateway"}) {
    std::string keys;
    for (const auto& [to, value] : said_)
      if (to.starts_with(fmt::format("{}.", table)))
        keys += fmt::format("{} = {}\n", to.substr(table.size() + 1), value);
    if (!keys.empty())
      out_.toml += fmt::format("\n[{}]\n{}", table, keys);
  }
  return std::move(out_);
}

} // namespace

bool is_known_launcher(std::string_view word) noexcept {
  const auto base = word.substr(word.rfind('/') + 1);
  return base == "vllm" || base == "python" || base == "python3" ||
         base == "text-generation-launcher";
}

result<imported_config> import_launch(const std::vector<std::string>& words,
                                      const std::string& model, const std::string& name,
                                      bool keeps_names) {
  const std::span<const std::string> all(words);
  const auto starts_with = [&](const std::vector<std::string_view>& these) {
    return all.size() >= these.size() &&
           std::equal(these.begin() + 1, these.end(), all.begin() + 1) &&
           all[0].substr(all[0].rfind('/') + 1) == these[0];
  };
  constexpr std::string_view module = "vllm.entrypoints.openai.api_server";
  const struct {
    std::vector<std::string_view> words;
    const dialect& in;
  } launchers[] = {
      {{"vllm", "serve"}, vllm},
      {{"python", "-m", module}, vllm},
      {{"python3", "-m", module}, vllm},
      {{"text-generation-launcher"}, tgi},
  };
  for (const auto& launcher : launchers)
    if (starts_with(launcher.words)) {
      translation made(launcher.in);
      if (auto wrong = made.read(all.subspan(launcher.words.size())))
        return *wrong;
      return made.write(model, name, keeps_names);
    }
  return fail(errc::bad_config,
              "this is none of: vllm serve, python -m {}, text-generation-launcher", module);
}

} // namespace baton::cluster
