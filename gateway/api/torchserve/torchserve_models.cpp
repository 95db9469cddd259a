#include "gateway/api/torchserve/torchserve_models.hpp"

#include "gateway/api/torchserve/torchserve_error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::int32_t list_max = 100; // TorchServe's limit

std::vector<std::pair<std::string, std::string>> all_of(const snapshot& s, model_urls urls) {
  for (const auto& p : s.pipelines) {
    urls.emplace(model_of(p), model_of(p));
  }
  return {urls.begin(), urls.end()};
}

// The pipeline of a shard, by its name: "shard-0" and "shard-0-g2" are of the first, "shard-3.0" is
// of the fourth.
std::uint32_t pipeline_of_shard(std::string_view name) {
  constexpr std::string_view lead = "shard-";
  name.remove_prefix(std::min(name.size(), lead.size()));
  name = name.substr(0, name.find('-'));
  std::uint32_t number = 0;
  if (name.find('.') != name.npos) {
    std::from_chars(name.data(), name.data() + name.size(), number);
  }
  return number;
}

ordered workers_of(const snapshot& s, const std::vector<std::uint32_t>& pipelines) {
  auto workers = ordered::array();
  if (!s.cluster) {
    return workers;
  }
  for (const auto& n : s.cluster->nodes) {
    const bool is_ours =
        n.role == role::shard &&
        std::find(pipelines.begin(), pipelines.end(), pipeline_of_shard(n.name)) != pipelines.end();
    if (is_ours) {
      workers.push_back({{"id", n.name},
                         {"status", n.phase == phase::ready ? "READY" : "UNLOADING"},
                         {"pid", n.pid}});
    }
  }
  return workers;
}

// Metadata that TorchServe gets from a model's handler.
ordered customized(const snapshot& s, const std::vector<std::uint32_t>& pipelines) {
  auto replicas = ordered::array();
  ordered out = ordered::object();
  for (const auto i : pipelines) {
    const auto& p = s.pipelines[i];
    const auto stand = standing_of(s, p);
    ordered replica{{"phase", name_of(stand.phase)}, {"reason", stand.reason}};
    if (p.load) {
      replica["running"] = p.load->running;
      replica["waiting"] = p.load->waiting;
    }
    replicas.push_back(std::move(replica));
    if (p.card) {
      out["architecture"] = p.card->architecture;
      out["parameters"] = p.card->parameters;
      out["maxModelLen"] = p.card->max_model_len;
      out["hasChatTemplate"] = p.card->has_chat_template;
      if (!p.card->chat_template_failure.empty()) {
        out["chatTemplateFailure"] = p.card->chat_template_failure;
      }
    }
  }
  out["replicas"] = std::move(replicas);
  return out;
}

// Counts the replicas that serve or will soon.
std::size_t count_serving(const snapshot& s, const std::vector<std::uint32_t>& pipelines) {
  return static_cast<std::size_t>(
      std::count_if(pipelines.begin(), pipelines.end(),
                    [&](std::uint32_t i) { return takes_requests(s.pipelines[i]); }));
}

} // namespace

result<managed_model> find_managed(const snapshot& s, const gateway_config& config,
                                   const std::string& model,
                                   const std::optional<std::string>& version) {
  const auto& aliases = config.model_aliases;
  const bool is_alias = std::find(aliases.begin(), aliases.end(), model) != aliases.end();
  const bool is_known = !model.empty() && !pipelines_of(s, model).empty();
  if (!is_known && !is_alias) {
    return fail_param(errc::model_not_found, "model", "Model not found: {}", model.substr(0, 256));
  }
  if (version && *version != torchserve_version) {
    return fail_param(errc::model_not_found, torchserve_version_param,
                      "Model version: {} does not exist for model: {}", version->substr(0, 256),
                      model.substr(0, 256));
  }
  return managed_model{is_known ? model : model_of(s.pipelines.front()), version};
}

result<http_reply> list_managed(const snapshot& s, const torchserve_target& asked,
                                model_urls further) {
  const auto limit = asked.integer("limit", list_max);
  const auto token = asked.integer("next_page_token", 0);
  if (!limit || !token) {
    return limit ? token.error() : limit.error();
  }
  const auto all = all_of(s, std::move(further));
  const auto wanted = *limit < 0 || *limit > list_max ? list_max : *limit;
  const auto begin = std::min(all.size(), static_cast<std::size_t>(std::max(0, *token)));
  const auto end = std::min(all.size(), begin + static_cast<std::size_t>(wanted));
  ordered out = ordered::object();
  if (end < all.size()) {
    out["nextPageToken"] = std::to_string(end);
  }
  out["models"] = ordered::array();
  for (auto i = begin; i < end; ++i) {
    out["models"].push_back({{"modelName", all[i].first}, {"modelUrl", all[i].second}});
  }
  return torchserve_json(out);
}

http_reply describe_managed(const snapshot& s, const gateway_config& config,
                            const managed_model& model, bool is_customized) {
  const auto pipelines = pipelines_of(s, model.name);
  std::uint64_t queue_max = 0, pending = 0;
  std::uint32_t batch_size = 0;
  bool uses_job_ticket = false;
  for (const auto i : pipelines) {
    const auto& p = s.pipelines[i];
    pending += p.load ? p.load->waiting : 0;
    batch_size = std::max(batch_size, p.card ? p.card->sequences_max : 0);
    if (i < config.pipelines.size()) {
      uses_job_ticket = uses_job_ticket || config.pipelines[i].uses_job_ticket;
      queue_max += config.pipelines[i].queue_max;
    }
  }
  const auto room = uses_job_ticket ? 0 : queue_max - std::min(queue_max, pending);
  ordered out{{"modelName", model.name},
              {"modelVersion", torchserve_version},
              {"modelUrl", model.name},
              {"engine", "Baton"},
              {"runtime", "baton"},
              {"minWorkers", count_serving(s, pipelines)},
              {"maxWorkers", pipelines.size()},
              {"batchSize", batch_size},
              {"maxBatchDelay", 0},
              {"responseTimeout",
               std::chrono::duration_cast<std::chrono::seconds>(config.request_deadline).count()},
              {"continuousBatching", true},
              {"useJobTicket", uses_job_ticket},
              {"loadedAtStartup", true},
              {"workers", workers_of(s, pipelines)},
              {"jobQueueStatus", {{"remainingCapacity", room}, {"pendingRequests", pending}}}};
  if (is_customized) {
    out["customizedMetadata"] = customized(s, pipelines);
  }
  return torchserve_json(ordered::array({std::move(out)}));
}

result<void> check_known(const torchserve_target& asked,
                         std::initializer_list<std::string_view> known) {
  constexpr std::size_t shown_max = 64;
  for (const auto& [name, value] : asked.query) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const auto shown = name.substr(0, shown_max);
      return fail_param(errc::unsupported_parameter, shown,
                        "the parameter '{}' is not supported by this server", shown);
    }
  }
  return {};
}

result<scale_range> read_scale(const torchserve_target& asked) {
  if (auto ok = check_known(asked, {"min_worker", "max_worker", "synchronous", "model_version"});
      !ok) {
    return ok.error();
  }
  const auto least = asked.integer("min_worker", 1);
  if (!least) {
    return least.error();
  }
  const auto most = asked.integer("max_worker", *least);
  if (!most) {
    return most.error();
  }
  if (*least < 0) {
    return fail_param(errc::invalid_value, "min_worker", "'min_worker' must be at least 0, not {}",
                      *least);
  }
  if (*most < *least) {
    return fail(errc::invalid_value, "max_worker cannot be less than min_worker.");
  }
  return scale_range{*least, *most};
}

http_reply scaled_managed(std::int32_t workers, const managed_model& model) {
  return torchserve_status(fmt::format("Workers scaled to {} for model: {}{}", workers, model.name,
                                       model.version ? ", version: " + *model.version : ""));
}

result<http_reply> scale_managed(const snapshot& s, const managed_model& model,
                                 const torchserve_target& asked) {
  const auto wanted = read_scale(asked);
  if (!wanted) {
    return wanted.error();
  }
  const auto [least, most] = *wanted;
  const auto pipelines = pipelines_of(s, model.name);
  const auto there_are = static_cast<std::int64_t>(pipelines.size());
  const auto serving = static_cast<std::int64_t>(count_serving(s, pipelines));
  if (least <= serving && serving <= most) {
    return scaled_managed(least, model);
  }
  auto what = least > there_are
                  ? fmt::format("set model.replicas in nodes.toml to {}, give it devices (`cluster "
                                "add-node` brings those of another machine) and start again",
                                least)
                  : fmt::format("`cluster scale {} --replicas {}` does it", model.name,
                                std::max<std::int64_t>(1, serving < least ? least : most));
  return fail(errc::conflict,
              "{} of {} workers (replicas) of model {} serve, {} to {} were asked for: {}", serving,
              there_are, model.name, least, most, what);
}

error refusal_to_register() {
  return fail(errc::method_not_allowed,
              "Requested method is not allowed: nodes.toml has no [model_store] whose models "
              "are registered; LLMs are its [model] or [[models]], and `cluster up` loads them.");
}

error refusal_to_unregister() {
  return fail(
      errc::method_not_allowed,
      "Requested method is not allowed: a model that is not of the [model_store] is taken out "
      "of nodes.toml, and `cluster up` leaves it out.");
}

http_reply set_default_managed(const managed_model& model) {
  return torchserve_status(
      fmt::format("Default version successfully updated for model \"{}\" to \"{}\"", model.name,
                  torchserve_version));
}

http_reply ready_managed(const snapshot& s, const managed_model& model) {
  return torchserve_json({{"name", model.name}, {"ready", is_served(s, model.name)}});
}

} // namespace baton::gateway
