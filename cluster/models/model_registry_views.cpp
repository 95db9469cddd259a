// The part of model_registry that others read: the snapshot for gateways, and the record on disk.
#include "cluster/config/readers/config_workers.hpp"
#include "cluster/models/model_registry.hpp"
#include "schema/limits.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::cluster {

void model_registry::restore(const recorded_models& left, instant now) {
  last_revision_ = std::max(last_revision_, left.last_revision);
  next_worker_ = std::max(next_worker_, left.next_worker);
  for (const auto& n : left.all) {
    const auto worker = parse_worker(n.model.config, n.model.name);
    if (!worker) { // another build may have written the record
      spdlog::error("the recorded model {} is dropped: {}", n.model.name, worker.error().message);
      continue;
    }
    revisions_.push_back({.model = n.model,
                          .digest = n.digest,
                          .startup_timeout = worker->startup_timeout,
                          .since = now,
                          .ready = {},
                          .given_up = {},
                          .drained = {},
                          .leaving = {},
                          .is_void = false,
                          .starting = {}});
    if (!n.model.archive.empty() && is_active(n.model)) {
      auto& of = registered_[n.model.name];
      const auto count = static_cast<std::uint32_t>(n.model.workers.size());
      of.versions.push_back({.version = n.model.version,
                             .digest = n.digest,
                             .table = n.model.config,
                             .worker = *worker,
                             .refusal = "",
                             .notes = {},
                             .archive = n.model.archive,
                             .workers = count,
                             .is_tentative = n.model.state == model_state::loading});
      of.versions.back().notes = n.notes;
      if (n.model.is_default || of.default_version.empty())
        of.default_version = n.model.version;
    } else if (n.model.archive.empty() && how_.control == model_control::clients &&
               is_active(n.model))
      targets_[n.model.name].push_back({.version = n.model.version,
                                        .digest = n.digest,
                                        .table = n.model.config,
                                        .worker = *worker,
                                        .refusal = "",
                                        .notes = n.notes});
  }
  rejected_ = left.rejected;
  has_begun_ = std::any_of(left.all.begin(), left.all.end(),
                           [](const recorded_model& n) { return n.model.archive.empty(); });
  has_changed_ = true;
}

// If a version has several revisions, only the active one is published.
namespace {

// The last entry shows in the index, in `cluster status` and in the log how many are missing. No
// model has its name: directories that begin with '.' are skipped.
void cut_models(std::vector<served_model>& all) {
  constexpr auto shown = limits::nodes_max - 1;
  served_model rest;
  rest.name = more_models_name;
  rest.state = model_state::unavailable;
  rest.reason =
      fmt::format("{} more models are not listed: at most {} are", all.size() - shown, shown);
  rest.is_of_repository = true;
  all.resize(shown);
  all.push_back(std::move(rest));
}

} // namespace

served_models model_registry::snapshot() const {
  served_models out{how_.control, static_};
  for (const auto& r : revisions_) {
    if (r.model.state != model_state::unavailable) {
      out.all.push_back(published(r));
      continue;
    }
    auto* other = static_cast<served_model*>(nullptr);
    for (auto& m : out.all)
      if (m.name == r.model.name && m.version == r.model.version && is_active(m))
        other = &m;
    const bool is_current = is_wanted(r);
    if (other != nullptr && is_current)
      other->reason =
          fmt::format("its files have changed, and cannot be served: {}", r.model.reason);
    else if (is_current)
      out.all.push_back(published(r));
  }
  for (auto& m : not_loaded())
    out.all.push_back(std::move(m));
  for (const auto& p : rejected_)
    out.all.push_back(published(p));
  // Running models are always published: a cluster has fewer workers than a message has room.
  std::stable_partition(out.all.begin(), out.all.end(), [](const served_model& m) {
    return !m.workers.empty() || m.state == model_state::ready;
  });
  if (out.all.size() > limits::nodes_max)
    cut_models(out.all);
  return out;
}

std::vector<served_model> model_registry::not_loaded() const {
  std::vector<served_model> out;
  for (const auto& [name, versions] : scanned_) {
    const bool has_some =
        targets_.contains(name) ||
        std::any_of(revisions_.begin(), revisions_.end(), [&named = name](const revision& r) {
          return r.model.name == named && r.model.state != model_state::unavailable;
        });
    if (has_some)
      continue;
    served_model m;
    m.name = name;
    m.state = model_state::unavailable;
    m.reason = unloaded_.contains(name) ? "unloaded" : "not loaded";
    const auto bad = std::find_if(versions.begin(), versions.end(),
                                  [](const scanned_version& v) { return !v.refusal.empty(); });
    if (bad != versions.end())
      m.reason += "; it cannot be: " + bad->refusal;
    m.is_of_repository = true;
    out.push_back(std::move(m));
  }
  return out;
}

recorded_models model_registry::record() const {
  recorded_models out{last_revision_, next_worker_, {}, rejected_};
  for (const auto& r : revisions_) {
    const bool has_none = !r.model.archive.empty() && r.model.state == model_state::ready;
    if (r.model.workers.empty() && r.leaving.empty() && !has_none)
      continue;
    auto m = published(r);
    if (!r.leaving.empty()) { // a later root lets them finish too
      m.workers = r.leaving;
      m.state = model_state::unloading;
    }
    out.all.push_back({std::move(m), r.digest, notes_of(r)});
  }
  return out;
}

} // namespace baton::cluster
