#include "cluster/commands/launch_fit.hpp"

#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/plan/model_fit.hpp"
#include "cluster/process/running_clusters.hpp"
#include "runtime/model/open/open_model.hpp"

#include <algorithm>
#include <cstdio>

namespace baton::cluster {
namespace {

bool is_native(const cluster_config& config) {
  return std::all_of(config.nodes.begin(), config.nodes.end(), [](const node_config& node) {
    return std::all_of(node.devices.begin(), node.devices.end(), [](const std::string& device) {
      const auto parsed = parse_device(device);
      return parsed && parsed->is_native();
    });
  });
}

// The model of the processes that an earlier root of this cluster has left.
std::optional<model_config> left_model(const cluster_config& config) {
  const auto dir = run_dir::existing(config.run_dir);
  if (!dir || dir->alive().empty())
    return std::nullopt;
  auto running = load_config(dir->config());
  if (!running || running->model.path != config.model.path)
    return std::nullopt;
  return running->model;
}

void take_fit(model_launch& to, std::uint32_t max_model_len,
              std::optional<std::uint64_t> kv_cache_bytes) {
  to.max_model_len = max_model_len;
  if (kv_cache_bytes != model_config().kv_cache_bytes)
    to.kv_cache_bytes = kv_cache_bytes.value_or(0);
}

} // namespace

result<std::string> fitted_config_of(model_launch of) {
  auto text = config_of(of);
  if (!text)
    return text;
  const auto config = parse_config(*text, "the model's nodes.toml");
  if (!config || !is_native(*config))
    return text;
  if (const auto left = left_model(*config)) {
    take_fit(of, of.max_model_len != 0 ? of.max_model_len : left->max_model_len,
             left->kv_cache_bytes);
    return config_of(of);
  }
  const auto file = model::open_model(of.model);
  const auto model = file ? model::describe(**file) : result<model::description>(file.error());
  if (!model || of.max_model_len > model->context_length)
    return text;
  const auto fit = fit_model(*config, *model, facts_of_this_machine());
  if (!fit)
    return fit.error();
  std::fprintf(stderr, "%s\n", text_of(*fit).c_str());
  const bool is_usual = of.max_model_len == 0 && fit->max_model_len == model->context_length;
  take_fit(of, is_usual ? 0 : fit->max_model_len, fit->kv_cache_bytes);
  return config_of(of);
}

} // namespace baton::cluster
