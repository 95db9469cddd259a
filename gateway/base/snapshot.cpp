#include "gateway/base/snapshot.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

using name_list = std::vector<std::string_view>;

// Each model once.
name_list names_of_models(const snapshot& s) {
  name_list all;
  for (const auto& p : s.pipelines) {
    if (std::find(all.begin(), all.end(), model_of(p)) == all.end()) {
      all.push_back(model_of(p));
    }
  }
  return all;
}

// "'a', 'b' and 'c'"
std::string listed(const name_list& all) {
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto* before = i == 0 ? "" : i + 1 == all.size() ? " and " : ", ";
    out += fmt::format("{}'{}'", before, all[i]);
  }
  return out;
}

bool is_up(const pipeline_view& p) noexcept {
  return p.card && !p.is_head_lost;
}

// The pipeline that explains why a model is not served: preferably one that has not failed.
const pipeline_view& representative_of(const snapshot& s, std::string_view model) {
  const auto all = pipelines_of(s, model);
  const auto may_come = std::find_if(all.begin(), all.end(), [&](std::uint32_t i) {
    return standing_of(s, s.pipelines[i]).phase != phase::failed;
  });
  return s.pipelines[may_come == all.end() ? all.front() : *may_come];
}

// The card of a pipeline that serves the model, preferably a ready one.
const model_card* serving_card(const snapshot& s, std::string_view model) {
  const model_card* found = nullptr;
  for (const auto i : pipelines_of(s, model)) {
    const auto& p = s.pipelines[i];
    if (is_ready(p)) {
      return &*p.card;
    }
    if (!found && takes_requests(p)) {
      found = &*p.card;
    }
  }
  return found;
}

} // namespace

std::string_view name_of(role r) noexcept {
  switch (r) {
  case role::root:
    return "root";
  case role::gateway:
    return "gateway";
  case role::head:
    return "head";
  case role::agent:
    return "agent";
  case role::shard:
    return "shard";
  case role::client:
    return "client";
  case role::worker:
    return "worker";
  }
  return "unknown";
}

std::string_view name_of(phase p) noexcept {
  switch (p) {
  case phase::starting:
    return "starting";
  case phase::loading:
    return "loading";
  case phase::ready:
    return "ready";
  case phase::recovering:
    return "recovering";
  case phase::draining:
    return "draining";
  case phase::stopped:
    return "stopped";
  case phase::failed:
    return "failed";
  case phase::unloaded:
    return "unloaded";
  }
  return "unknown";
}

bool knows_all_heads(const snapshot& s) noexcept {
  const auto is_known = [](const pipeline_view& p) {
    return p.card || p.is_head_lost || (p.head && p.head->phase != phase::ready);
  };
  if (std::all_of(s.pipelines.begin(), s.pipelines.end(), is_known)) {
    return true;
  }
  return s.cluster &&
         std::any_of(s.cluster->nodes.begin(), s.cluster->nodes.end(), [](const status& n) {
           return n.role == role::head && n.phase != phase::ready;
         });
}

bool awaits_head(const snapshot& s) noexcept {
  const auto is_early = [](const status& head) {
    return head.phase == phase::starting || head.phase == phase::loading;
  };
  const bool has_early_head =
      s.cluster &&
      std::any_of(s.cluster->nodes.begin(), s.cluster->nodes.end(),
                  [&](const status& n) { return n.role == role::head && is_early(n); });
  return std::any_of(s.pipelines.begin(), s.pipelines.end(), [&](const pipeline_view& p) {
    if (p.is_head_lost) {
      return false;
    }
    if (p.card) {
      return p.card->phase == phase::loading && !p.card->loads_on_demand;
    }
    return has_early_head || (p.head && is_early(*p.head));
  });
}

const std::string& model_of(const pipeline_view& p) noexcept {
  return p.card ? p.card->name : p.model;
}

const load_report* counts_of(const pipeline_view& p) noexcept {
  return p.totals ? &*p.totals : p.load ? &*p.load : nullptr;
}

bool is_ready(const pipeline_view& p) noexcept {
  return is_up(p) && p.card->phase == phase::ready;
}

bool is_available(const pipeline_view& p) noexcept {
  const bool is_loadable = is_up(p) && p.card->loads_on_demand &&
                           (p.card->phase == phase::unloaded || p.card->phase == phase::loading);
  return is_ready(p) || is_loadable;
}

bool takes_requests(const pipeline_view& p) noexcept {
  return is_available(p) || (is_up(p) && p.card->phase == phase::recovering);
}

bool serves_streams(const pipeline_view& p) noexcept {
  return is_ready(p) || (is_up(p) && p.card->phase == phase::draining);
}

standing standing_of(const snapshot& s, const pipeline_view& p) {
  if (p.is_head_lost) {
    return {phase::recovering, "the head is down: " + p.head_lost_why};
  }
  // A supervisor gave up: nothing is served, unless the failed pipeline is another one.
  const bool gave_up = s.cluster && s.cluster->phase == phase::failed;
  const bool may_be_another = s.pipelines.size() > 1 && is_available(p);
  if (gave_up && !may_be_another) {
    return {phase::failed, s.cluster->reason};
  }
  if (is_available(p)) {
    return {phase::ready, {}};
  }
  if (p.card) {
    return {p.card->phase, p.card->reason};
  }
  if (s.cluster && s.cluster->phase != phase::ready) {
    return {s.cluster->phase, s.cluster->reason};
  }
  if (p.head && p.head->phase != phase::ready) {
    return {p.head->phase, p.head->reason};
  }
  return {phase::starting, "waiting for the head's model card"};
}

standing standing_of(const snapshot& s) {
  if (s.is_draining) {
    return {phase::draining, "the gateway is draining: no new requests"};
  }
  if (s.pipelines.size() == 1) {
    return standing_of(s, s.pipelines.front());
  }
  if (s.pipelines.empty() && s.cluster && s.cluster->phase == phase::failed) {
    return {phase::failed, s.cluster->reason};
  }
  for (const auto model : names_of_models(s)) {
    const auto all = pipelines_of(s, model);
    if (std::none_of(all.begin(), all.end(),
                     [&](std::uint32_t i) { return is_available(s.pipelines[i]); })) {
      const auto why = standing_of(s, representative_of(s, model));
      return {why.phase, fmt::format("the model '{}' is not served: {}", model, why.reason)};
    }
  }
  return {phase::ready, {}};
}

std::vector<std::uint32_t> pipelines_of(const snapshot& s, std::string_view model) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < s.pipelines.size(); ++i) {
    if (model_of(s.pipelines[i]) == model) {
      all.push_back(i);
    }
  }
  return all;
}

bool is_served(const snapshot& s, std::string_view model, const pipeline_set& but) {
  for (std::size_t i = 0; i < s.pipelines.size(); ++i) {
    const auto& p = s.pipelines[i];
    if (!but[i] && is_ready(p) && p.card->name == model) {
      return true;
    }
  }
  return false;
}

const pipeline_view& first_of(const snapshot& s) noexcept {
  static const pipeline_view unknown;
  return s.pipelines.empty() ? unknown : s.pipelines.front();
}

std::vector<model_card> models_of(const snapshot& s) {
  std::vector<model_card> all;
  for (const auto model : names_of_models(s)) {
    const auto* card = serving_card(s, model);
    for (const auto i : pipelines_of(s, model)) {
      const auto& known = s.pipelines[i].card;
      card = card || !known ? card : &*known;
    }
    if (card) {
      all.push_back(*card);
    }
  }
  return all;
}

std::string_view model_of(const snapshot& s, ticket_id ticket) noexcept {
  const auto i = pipeline_of(ticket);
  return i < s.pipelines.size() ? std::string_view(model_of(s.pipelines[i])) : std::string_view();
}

std::uint32_t waiting_for(const snapshot& s, std::string_view model) {
  auto all = pipelines_of(s, model);
  if (all.empty()) {
    all = pipelines_of(s, model_of(first_of(s)));
  }
  std::optional<std::uint32_t> least;
  for (const auto i : all) {
    if (const auto& load = s.pipelines[i].load) {
      least = std::min(least.value_or(load->waiting), load->waiting);
    }
  }
  return least.value_or(0);
}

result<model_card> find_model(const snapshot& s, const std::vector<std::string>& aliases,
                              std::string_view model) {
  if (s.is_draining) {
    return fail(errc::draining, "the server is draining: it takes no new requests");
  }
  if (s.pipelines.empty()) {
    return fail_param(errc::model_not_found, "model",
                      "the model '{}' does not exist: this server has no LLM, worker models alone",
                      model);
  }
  if (std::none_of(s.pipelines.begin(), s.pipelines.end(), is_up)) {
    const auto stand = standing_of(s);
    return fail(errc::not_ready, "the server is {}: {}", name_of(stand.phase), stand.reason);
  }
  const auto known = names_of_models(s);
  auto name = model;
  if (std::find(known.begin(), known.end(), model) == known.end()) {
    const bool is_alias = std::find(aliases.begin(), aliases.end(), model) != aliases.end();
    if (!model.empty() && !is_alias) {
      return fail_param(errc::model_not_found, "model",
                        "the model '{}' does not exist; this server has {}", model, listed(known));
    }
    name = known.front();
  }
  if (const auto* card = serving_card(s, name)) {
    return *card;
  }
  const auto& p = representative_of(s, name);
  const auto why = is_up(p) ? standing{p.card->phase, p.card->reason} : standing_of(s, p);
  return fail(errc::not_ready, "the model is {}: {}", name_of(why.phase), why.reason);
}

} // namespace baton::gateway
