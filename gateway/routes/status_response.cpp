#include "gateway/routes/status_response.hpp"

#include "gateway/base/json_text.hpp"
#include "gateway/base/model_loads_json.hpp"
#include "runtime/text/stream/call_style.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

ordered text_or_null(const std::string& text) {
  return text.empty() ? ordered(nullptr) : ordered(text);
}

ordered load_json(const load_report& l) {
  return {{"model", l.model},
          {"running", l.running},
          {"waiting", l.waiting},
          {"blocks_used", l.blocks_used},
          {"blocks_total", l.blocks_total},
          {"in_flight", l.in_flight},
          {"prompt_tokens", l.prompt_tokens},
          {"output_tokens", l.output_tokens},
          {"steps", l.steps},
          {"preemptions", l.preemptions},
          {"swapped", l.swapped},
          {"swap_blocks_used", l.swap_blocks_used},
          {"swap_blocks_total", l.swap_blocks_total},
          {"swapped_out_blocks", l.swapped_out_blocks},
          {"swapped_in_blocks", l.swapped_in_blocks},
          {"state_slots_used", l.state_slots_used},
          {"state_slots_total", l.state_slots_total},
          {"max_batch_total_tokens", l.max_batch_total_tokens},
          {"prefix_cache_queries", l.prefix_cache_queries},
          {"prefix_cache_hits", l.prefix_cache_hits},
          {"spec_decode_drafts", l.spec_decode_drafts},
          {"spec_decode_draft_tokens", l.spec_decode_draft_tokens},
          {"spec_decode_accepted_tokens", l.spec_decode_accepted_tokens},
          {"epochs", l.epochs},
          {"recoveries", l.recoveries},
          {"recovery_seconds", l.recovery_seconds},
          {"bubble_ratio", l.bubble_ratio},
          {"stage_busy_micros", l.stage_busy_micros}};
}

// The rank and the layers of a shard.
ordered assignment_json(const snapshot& s, process_id process) {
  const auto& all = s.cluster->assignments;
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const shard_assignment& p) { return p.process == process; });
  if (at == all.end()) {
    return nullptr;
  }
  return {{"on", at->on},
          {"device", at->device},
          {"pipeline", at->pipeline},
          {"generation", at->generation},
          {"stage", at->stage},
          {"rank", at->rank},
          {"first_layer", at->first_layer},
          {"layers", at->layers}};
}

// Its position in the supervision tree.
ordered supervision_json(const status& n) {
  if (!n.supervision) {
    return nullptr;
  }
  const auto& by = *n.supervision;
  return {{"by", by.by},
          {"strategy", restart_strategy_names[static_cast<std::size_t>(by.strategy)]},
          {"restarts_max", by.restarts_max},
          {"period_seconds", by.period_seconds},
          {"restarts_recent", by.restarts_recent},
          {"has_given_up", by.has_given_up}};
}

ordered node_json(const snapshot& s, const status& n) {
  return {{"node", n.process.value},
          {"epoch", n.incarnation.value},
          {"role", name_of(n.role)},
          {"name", n.name},
          {"phase", gateway::name_of(n.phase)},
          {"reason", text_or_null(n.reason)},
          {"pid", n.pid},
          {"restarts", n.restarts},
          {"progress", n.progress},
          {"supervision", supervision_json(n)},
          {"place", assignment_json(s, n.process)}};
}

ordered load_or_null(const pipeline_view& p) {
  return p.load ? load_json(*p.load) : ordered(nullptr);
}

// For each pipeline: its generation, the next one, and the state of the change; of a model on
// demand its loads, too.
ordered generations_json(const snapshot& s) {
  auto all = ordered::array();
  if (s.cluster) {
    for (const auto& p : s.cluster->pipelines) {
      all.push_back({{"generation", p.generation},
                     {"coming_generation", p.coming_generation},
                     {"change", text_or_null(p.change)}});
      if (const auto& m = p.on_demand) {
        all.back()["on_demand"] = model_loads_json(*m);
      }
    }
  }
  return all;
}

// A single pipeline is described by the other members.
void add_pipelines(ordered& out, const snapshot& s) {
  if (s.pipelines.size() == 1) {
    return;
  }
  auto all = ordered::array();
  for (std::size_t i = 0; i < s.pipelines.size(); ++i) {
    const auto& p = s.pipelines[i];
    const auto stand = standing_of(s, p);
    all.push_back({{"pipeline", i},
                   {"model", model_of(p)},
                   {"phase", gateway::name_of(stand.phase)},
                   {"reason", text_or_null(stand.reason)},
                   {"scheduler", load_or_null(p)}});
  }
  out["pipelines"] = std::move(all);
}

} // namespace

std::string health_body(const snapshot& s) {
  const auto stand = standing_of(s);
  ordered out{{"status", stand.phase == phase::ready ? "ok" : "unavailable"},
              {"phase", gateway::name_of(stand.phase)},
              {"reason", text_or_null(stand.reason)}};
  const auto cards = models_of(s);
  out["model"] = cards.empty() ? ordered(nullptr) : ordered(cards.front().name);
  return json_text(out);
}

std::string ping_body(const snapshot& s) {
  const auto stand = standing_of(s);
  if (stand.phase == phase::ready) {
    return json_text({{"status", "Healthy"}});
  }
  return json_text({{"status", "Unhealthy"}, {"reason", stand.reason}});
}

std::string version_body(const std::string& build) {
  return json_text({{"version", build}});
}

std::string load_body(const snapshot& s, std::size_t requests_open) {
  ordered out{{"server_load", requests_open}};
  out["scheduler"] = load_or_null(first_of(s));
  add_pipelines(out, s);
  return json_text(out);
}

std::string cluster_body(const snapshot& s, std::size_t requests_open) {
  const auto stand = standing_of(s);
  ordered out{{"phase", gateway::name_of(stand.phase)},
              {"reason", text_or_null(stand.reason)},
              {"requests_open", requests_open}};
  auto cards = ordered::array();
  for (const auto& c : models_of(s)) {
    cards.push_back({{"name", c.name},
                     {"architecture", c.architecture},
                     {"parameters", c.parameters},
                     {"context_max", c.max_model_len},
                     {"sequences_max", c.sequences_max},
                     {"has_chat_template", c.has_chat_template},
                     {"call_format", text::row_of(c.call_format).name},
                     {"has_own_calls", c.has_own_calls},
                     {"phase", gateway::name_of(c.phase)}});
    if (!c.chat_template_failure.empty()) {
      cards.back()["chat_template_failure"] = c.chat_template_failure;
    }
  }
  out["models"] = std::move(cards);
  auto nodes = ordered::array();
  if (s.cluster) {
    for (const auto& n : s.cluster->nodes) {
      nodes.push_back(node_json(s, n));
    }
  }
  out["nodes"] = std::move(nodes);
  out["generations"] = generations_json(s);
  out["load"] = load_or_null(first_of(s));
  add_pipelines(out, s);
  return json_text(out);
}

} // namespace baton::gateway
