#include "cluster/config/readers/config_model.hpp"

#include "cluster/config/models_dir.hpp"
#include "cluster/config/readers/config_error.hpp"
#include "cluster/config/readers/config_sampling.hpp"
#include "cluster/formats/toml_section.hpp"
#include "cluster/hub/pull.hpp"
#include "gateway/request/request_check.hpp"
#include "runtime/collective/group_memory.hpp"
#include "schema/ids.hpp"

#include <algorithm>
#include <array>

namespace baton::cluster {
namespace {

constexpr std::uint32_t threads_max = 4096;
constexpr std::uint32_t seqs_max = 16'384; // above limits::slices_max sequences take turns in steps
constexpr std::size_t shown_file_bytes_max = 256;
constexpr std::uint64_t tebibyte = 1ull << 40;

// "auto" is f16: half the size of float32, without loss for models trained in 16 bits.
result<void> read_kv_format(const std::string& text, const std::string& path,
                            const std::string& origin, model_config& m) {
  const auto named = text == "auto" ? cpu::kv_format::f16 : cpu::kv_format_from(text);
  if (!named)
    return bad_key(
        origin, path + ".kv_cache_dtype",
        fmt::format("{}.kv_cache_dtype '{}' must be auto, f16, f32 or q8_0", path, text));
  m.kv_cache_dtype = *named;
  return {};
}

result<void> read_pooling(const std::string& text, const std::string& path,
                          const std::string& origin, model_config& m) {
  if (text == "mean")
    m.pooling = pooling::mean;
  else if (text == "last")
    m.pooling = pooling::last;
  else if (text == "cls")
    m.pooling = pooling::cls;
  else
    return bad_key(origin, path + ".pooling",
                   fmt::format("{}.pooling '{}' must be mean, last or cls", path, text));
  return {};
}

// The keys of a table that stands for the models of a directory.
result<void> check_directory(const toml::table& table, const std::string& path,
                             const std::string& origin, const model_config& m,
                             const std::vector<std::string>& files) {
  const auto refuse = [&](std::string_view key, std::string_view why) {
    return bad_key(origin, fmt::format("{}.{}", path, key), "{}.{} {}", path, key, why);
  };
  if (m.models_dir.empty())
    return table.get("models_dir") ? refuse("models_dir", "is empty: name a directory of models")
                                   : refuse("files", "needs models_dir, in which they are");
  if (table.get("name") || table.get("path"))
    return refuse(table.get("name") ? "name" : "path",
                  "is for one model, and models_dir for all in a directory: give each a table");
  if (!m.aliases.empty())
    return refuse("aliases", "is for one model: give it a [[models]] table of its own");
  if (table.get("pin"))
    return refuse("pin", "is for one model: give it a [[models]] table of its own");
  for (const auto& file : files)
    if (!is_file_of_dir(file))
      return bad_key(origin, path + ".files",
                     "{}.files has '{}': name files in models_dir, or in a directory there", path,
                     file.substr(0, shown_file_bytes_max));
  return {};
}

// The keys of a model that is loaded on demand. `load`: its key.
result<void> check_loading(const toml::table* table, const std::string& path,
                           const std::string& origin, const std::string& load, model_config& m) {
  if (load != "always" && load != "on-demand")
    return bad_key(origin, path + ".load",
                   fmt::format("{}.load is '{}': use \"always\" or \"on-demand\"", path, load));
  m.loads_on_demand = load == "on-demand";
  if (!m.loads_on_demand && !m.models_dir.empty())
    return bad_key(origin, path + ".load",
                   "{}.load must be \"on-demand\" with models_dir, or left out", path);
  if (!m.loads_on_demand)
    for (const auto key : {"pin", "idle_timeout", "load_timeout"})
      if (table && table->get(key))
        return bad_key(origin, fmt::format("{}.{}", path, key),
                       fmt::format("{}.{} needs {}.load = \"on-demand\"", path, key, path));
  if (m.loads_on_demand && m.replicas > 1)
    return bad_key(origin, path + ".replicas",
                   path + ".replicas must be 1 with load = \"on-demand\"");
  return {};
}

// The keys that limit and order requests.
void read_scheduling(toml_section& s, model_config& m) {
  s.read("max_num_seqs", m.max_num_seqs, 1, seqs_max);
  s.read("max_num_batched_tokens", m.max_num_batched_tokens, 16, 8192);
  s.read("max_batch_total_tokens", m.max_batch_total_tokens, 16, 1ull << 40);
  s.read("prefill_chunk", m.prefill_chunk, 16, 8192);
  s.read("max_model_len", m.max_model_len, 16, 1 << 24);
  s.read("scheduling_policy", m.scheduling_policy);
  s.read("enable_prefix_caching", m.enable_prefix_caching);
  s.read("async_scheduling", m.async_scheduling);
  s.read("num_speculative_tokens", m.num_speculative_tokens, 0, gateway::speculative_tokens_max);
  s.read("speculative_disable_by_batch_size", m.speculative_disable_by_batch_size, 0, 1 << 16);
  s.read("prompt_lookup_max", m.prompt_lookup_max, 1, 16);
  s.read("prompt_lookup_min", m.prompt_lookup_min, 1, m.prompt_lookup_max);
  s.read("max_num_queued_reqs", m.max_num_queued_reqs, 0, 1 << 20);
  s.read("max_num_queued_tokens", m.max_num_queued_tokens, 1, 1u << 31);
  s.read("use_job_ticket", m.use_job_ticket);
  s.read_seconds("queue_timeout", m.queue_timeout, 0.1, 86400);
  s.read_seconds("recovery_timeout", m.recovery_timeout, 0, 86400);
  s.read_seconds("resume_window", m.resume_window, 1, 86400);
}

// The keys that choose devices and how they compute.
void read_computing(toml_section& s, model_config& m) {
  s.read("nodes", m.nodes);
  s.read("pipeline_parallel_size", m.pipeline_parallel_size, 1, 1024);
  s.read("tensor_parallel_size", m.tensor_parallel_size, 1, collective::ranks_max);
  s.read_bytes("kv_cache_bytes", m.kv_cache_bytes, 1 << 20, 64 * tebibyte);
  s.read_bytes("swap_space", m.swap_space, 0, 64 * tebibyte);
  s.read("threads_per_shard", m.threads_per_shard, 1, threads_max);
  s.read("activation_bits", m.activation_bits, 8, 16);
  s.read("dtype", m.dtype);
  s.read("quantization", m.quantization);
  s.read("quantization_group_size", m.quantization_group_size, 32, 128);
  s.read("enforce_eager", m.enforce_eager);
}

// Values that are one of several.
result<void> check_choices(const std::string& path, const std::string& origin,
                           const model_config& m) {
  if (m.scheduling_policy != "fcfs" && m.scheduling_policy != "priority")
    return bad_key(origin, path + ".scheduling_policy",
                   fmt::format("{}.scheduling_policy is '{}': use \"fcfs\" or \"priority\"", path,
                               m.scheduling_policy));
  if (m.activation_bits != 8 && m.activation_bits != 16)
    return bad_key(origin, path + ".activation_bits", path + ".activation_bits must be 8 or 16");
  constexpr std::array dtypes{"auto", "float32", "float16", "bfloat16"};
  if (std::find(dtypes.begin(), dtypes.end(), m.dtype) == dtypes.end())
    return bad_key(
        origin, path + ".dtype",
        fmt::format("{}.dtype '{}' must be auto, float32, float16 or bfloat16", path, m.dtype));
  constexpr std::array quantizations{"none", "fp8", "int4"};
  if (std::find(quantizations.begin(), quantizations.end(), m.quantization) == quantizations.end())
    return bad_key(
        origin, path + ".quantization",
        fmt::format("{}.quantization '{}' must be none, fp8 or int4", path, m.quantization));
  if (m.quantization_group_size != 32 && m.quantization_group_size != 128)
    return bad_key(origin, path + ".quantization_group_size",
                   fmt::format("{}.quantization_group_size must be 32 or 128, not {}", path,
                               m.quantization_group_size));
  return {};
}

// A reference to a model of the hub becomes its path in the hub's cache.
result<void> set_path(const std::string& file, const std::string& path, const std::string& origin,
                      model_config& m) {
  m.path = file;
  if (!is_explicit_reference(file))
    return {};
  auto found = path_of_model(file, hub_settings_here());
  if (!found)
    return bad_key(origin, path + ".path", fmt::format("{}.path: {}", path, found.error().message));
  m.path = *std::move(found);
  return {};
}

} // namespace

result<void> read_model(const toml::table* table, const std::string& path,
                        const std::string& origin, model_config& m,
                        std::vector<std::string>& files) {
  toml_section s(table, path, origin);
  std::string file, directory;
  std::string kv_cache_dtype = "auto", pools = "mean";
  s.read("name", m.name);
  s.read("aliases", m.aliases);
  s.read("path", file);
  s.read("models_dir", directory);
  s.read("files", files);
  s.read("replicas", m.replicas, 1, pipelines_max);
  std::string load = directory.empty() ? "always" : "on-demand";
  s.read("load", load);
  s.read("pin", m.is_pinned);
  s.read_seconds("idle_timeout", m.idle_timeout, 0, 30 * 86400);
  s.read_seconds("load_timeout", m.load_timeout, 1, 86400);
  read_scheduling(s, m);
  read_computing(s, m);
  s.read("kv_cache_dtype", kv_cache_dtype);
  s.read("pooling", pools);
  if (auto ok = read_sampling(s, path, origin, m); !ok)
    return ok;
  if (auto ok = s.finish(); !ok)
    return ok;
  m.models_dir = directory;
  const bool is_directory = table && (table->get("models_dir") || table->get("files"));
  if (is_directory)
    if (auto ok = check_directory(*table, path, origin, m, files); !ok)
      return ok;
  if (auto ok = check_loading(table, path, origin, load, m); !ok)
    return ok;
  if (auto ok = set_path(file, path, origin, m); !ok)
    return ok;
  if (!is_directory && !is_name(m.name))
    return bad_key(origin, path + ".name", path + ".name must be 1 to 64 of [A-Za-z0-9._-]");
  if (!is_directory && file.empty())
    return bad_key(origin, path + ".path",
                   path + ".path is missing: the GGUF file or model directory to serve, or "
                          "models_dir for a directory of them");
  if (auto ok = check_choices(path, origin, m); !ok)
    return ok;
  if (auto ok = read_pooling(pools, path, origin, m); !ok)
    return ok;
  return read_kv_format(kv_cache_dtype, path, origin, m);
}

} // namespace baton::cluster
