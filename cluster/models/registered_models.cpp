// The part of model_registry for models that clients register from a model store, and scale.
#include "cluster/models/model_registry.hpp"
#include "schema/ensure.hpp"
#include "schema/limits.hpp"
#include "schema/nearest.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace baton::cluster {
namespace {

error no_version(const std::string& model, const std::string& version) {
  return fail_param(errc::model_not_found, "model_version",
                    "Model version: {} does not exist for model: {}", version, model);
}

} // namespace

std::set<std::string> model_registry::registered() const {
  std::set<std::string> names;
  for (const auto& [name, model] : registered_)
    names.insert(name);
  return names;
}

std::set<std::string> model_registry::archives() const {
  std::set<std::string> all;
  for (const auto& [name, model] : registered_)
    for (const auto& v : model.versions)
      all.insert(v.archive);
  return all;
}

void model_registry::register_model(process_id gateway, const change_model& order,
                                    stored_model what, instant now) {
  const auto& name = what.name;
  const auto& version = what.version.version;
  const bool is_taken =
      targets_.contains(name) || scanned_.contains(name) ||
      std::any_of(static_.begin(), static_.end(), [&](const auto& m) { return m.name == name; });
  if (is_taken)
    return answer_change(
        gateway, order, what.version,
        fail(errc::conflict, "Model {} is one of nodes.toml or of its model_repository", name));
  if (find_registered(name, version) != nullptr) {
    if (serving(name, version) != nullptr)
      return answer_change(gateway, order, what.version,
                           fail(errc::conflict,
                                "Model version {} is already registered for model {}", version,
                                name));
    forget(name, version); // it failed: this is a retry
  }
  what.version.is_tentative = order.request != 0;
  std::erase_if(rejected_, [&](const rejected_model& p) {
    return p.name == name || (!p.archive.empty() &&
                              (p.archive == what.version.archive || p.archive == order.archive));
  });
  auto& model = registered_[name];
  if (model.versions.empty())
    model.default_version = version;
  model.versions.push_back(what.version);
  has_changed_ = true;
  if (order.request != 0 && order.waits)
    waiting_.push_back({gateway, order.request, name, version});
  else
    answer_change(gateway, order, what.version, std::nullopt);
  settle(now);
}

void model_registry::unregister_model(process_id gateway, const change_model& order, instant now) {
  const auto found = named(order);
  if (!found)
    return answer_change(gateway, order, {}, found.error());
  const auto of = **found;
  const auto& model = registered_.at(order.model);
  if (model.versions.size() > 1 && of.version == model.default_version)
    return answer_change(gateway, order, of,
                         fail_param(errc::invalid_request, "",
                                    "Cannot remove default version {} for model {}", of.version,
                                    order.model));
  for (std::size_t i = 0; i < revisions_.size(); ++i) {
    auto& r = revisions_[i];
    if (r.model.name != order.model || r.model.version != of.version || r.is_void)
      continue;
    r.is_void = true;
    if (r.model.state == model_state::ready && !r.model.workers.empty())
      set_state(r, model_state::unloading, "", now);
    else if (is_active(r.model))
      stop(r, "unregistered", now);
  }
  forget(order.model, of.version);
  answer_change(gateway, order, of, std::nullopt);
  settle(now);
}

void model_registry::scale(process_id gateway, const change_model& order, instant now) {
  const auto found = named(order);
  if (!found)
    return answer_change(gateway, order, {}, found.error());
  auto& v = **found;
  auto* r = serving(order.model, v.version);
  const auto have = r ? static_cast<std::uint32_t>(r->model.workers.size()) : 0;
  const auto least = order.settings.workers_min.value_or(1);
  const auto most = std::max(least, order.settings.workers_max.value_or(least));
  auto wanted_now = v;
  wanted_now.workers = std::clamp(have, least, most);
  const auto count = count_for(wanted_now);
  if (count > have && worker_count() + (count - have) > workers_of_cluster_max)
    return answer_change(
        gateway, order, v,
        fail(errc::conflict,
             "it would need {} workers beside the {} that exist; a cluster has at most {}",
             count - have, worker_count(), workers_of_cluster_max));
  v.workers = count;
  has_changed_ = true;
  if (r == nullptr) {
    for (auto& other : revisions_) // it failed: this is a retry
      if (other.model.name == order.model && other.model.version == v.version)
        other.is_void = true;
  } else if (count > have) {
    grow(*r, count - have);
  } else if (count < have) {
    const auto keep = r->model.workers.begin() + static_cast<std::ptrdiff_t>(count);
    const std::vector<model_worker> removed(keep, r->model.workers.end());
    r->model.workers.erase(keep, r->model.workers.end());
    for (const auto& w : removed)
      for (auto* set : {&r->ready, &r->given_up, &r->starting})
        set->erase(w.process);
    check_ready(*r, now);
    shrink(*r, removed); // `r` may dangle from here on
  }
  if (order.waits)
    waiting_.push_back({gateway, order.request, order.model, v.version});
  else
    answer_change(gateway, order, v, std::nullopt);
  settle(now);
}

void model_registry::set_default(process_id gateway, const change_model& order) {
  const auto found = named(order);
  if (!found)
    return answer_change(gateway, order, {}, found.error());
  const auto& of = **found;
  registered_.at(order.model).default_version = of.version;
  has_changed_ = true;
  answer_change(gateway, order, of, std::nullopt);
}

// -- Their lifecycle --

// Each gateway needs workers of its own.
std::uint32_t model_registry::count_for(const scanned_version& v) const {
  const auto count = v.workers.value_or(v.worker.count);
  return count == 0 ? 0 : std::max(count, how_.gateways);
}

void model_registry::check_ready(revision& r, instant now) {
  if (r.model.state == model_state::loading && r.ready.size() == r.model.workers.size())
    set_state(r, model_state::ready, "", now);
}

void model_registry::grow(revision& r, std::uint32_t count) {
  const auto before = static_cast<std::uint32_t>(r.model.workers.size());
  for (auto& w : workers_for(r.model.name, count, before)) {
    if (r.model.state == model_state::ready)
      r.starting.insert(w.process);
    r.model.workers.push_back(std::move(w));
  }
}

// Removed workers form their own revision until they are gone: a later root lets them finish.
void model_registry::shrink(const revision& of, const std::vector<model_worker>& removed) {
  revision gone;
  gone.model = of.model;
  gone.model.revision = ++last_revision_;
  gone.model.state = model_state::unavailable;
  gone.model.workers.clear();
  gone.digest = of.digest;
  gone.leaving = removed;
  gone.is_void = true;
  has_changed_ = true;
  revisions_.push_back(std::move(gone));
}

// Removes the workers that were being added; those that serve continue.
void model_registry::drop_starting(revision& r, const std::string& why, instant now) {
  std::vector<model_worker> removed;
  std::erase_if(r.model.workers, [&](const model_worker& w) {
    const bool is_starting = r.starting.contains(w.process);
    if (is_starting)
      removed.push_back(w);
    return is_starting;
  });
  r.starting.clear();
  const auto name = r.model.name, version = r.model.version;
  if (auto* v = find_registered(name, version))
    v->workers = static_cast<std::uint32_t>(r.model.workers.size());
  remarks_.push_back(fmt::format("{}, version {}: further workers failed: {}", name, version, why));
  const auto failure = fail(errc::start_failed,
                            "Failed to start workers for model {} version: {}: "
                            "{}",
                            name, version, why);
  const auto is_meant = [&](const pending_request& w) {
    return w.model == name && w.version == version;
  };
  for (const auto& w : waiting_)
    if (is_meant(w))
      reply(w, failure);
  std::erase_if(waiting_, is_meant);
  shrink(r, removed);
  settle(now);
}

void model_registry::answer_registrations(const std::string& name) {
  std::erase_if(waiting_, [&](const pending_request& w) {
    if (w.model != name || !w.version)
      return false;
    const auto* v = find_registered(name, *w.version);
    const revision* r = v ? find(name, *v) : nullptr;
    std::optional<error> failure;
    if (v == nullptr)
      failure = fail(errc::cancelled, "model {}, version {} was unregistered meanwhile", name,
                     *w.version);
    else if (r == nullptr || r->model.state == model_state::loading || !r->starting.empty())
      return false;
    else if (r->model.state == model_state::unavailable)
      failure = fail(errc::start_failed, "Failed to start workers for model {} version: {}: {}",
                     name, *w.version, r->model.reason);
    change_model to;
    to.request = w.request;
    to.model = name;
    answer_change(w.gateway, to, v ? *v : scanned_version(), std::move(failure));
    return true;
  });
}

void model_registry::drop_failed(const std::string& name) {
  const auto at = registered_.find(name);
  if (at == registered_.end())
    return;
  std::vector<std::string> failed;
  for (auto& v : at->second.versions)
    if (const auto* r = find(name, v)) {
      v.is_tentative = v.is_tentative && r->model.state != model_state::ready;
      if (v.is_tentative && r->model.state == model_state::unavailable)
        failed.push_back(v.version);
    }
  for (const auto& version : failed)
    forget(name, version);
}

void model_registry::forget(const std::string& name, const std::string& version) {
  auto& model = registered_.at(name);
  std::erase_if(model.versions, [&](const scanned_version& v) { return v.version == version; });
  for (auto& r : revisions_)
    if (r.model.name == name && r.model.version == version &&
        r.model.state == model_state::unavailable)
      r.is_void = true;
  has_changed_ = true;
  if (model.versions.empty())
    registered_.erase(name);
  else if (model.default_version == version)
    model.default_version = model.versions.front().version;
}

// -- Lookup and answers --

scanned_version* model_registry::find_registered(const std::string& name,
                                                 const std::string& version) {
  const auto at = registered_.find(name);
  if (at == registered_.end())
    return nullptr;
  for (auto& v : at->second.versions)
    if (v.version == version)
      return &v;
  return nullptr;
}

model_registry::revision* model_registry::serving(const std::string& name,
                                                  const std::string& version) {
  for (auto& r : revisions_)
    if (r.model.name == name && r.model.version == version && !r.is_void && is_active(r.model))
      return &r;
  return nullptr;
}

result<scanned_version*> model_registry::named(const change_model& order) {
  const auto at = registered_.find(order.model);
  if (at == registered_.end())
    return fail_param(errc::model_not_found, "model", "Model not found: {}", order.model);
  const auto& version = order.version.empty() ? at->second.default_version : order.version;
  auto* v = find_registered(order.model, version);
  return v ? result<scanned_version*>(v) : no_version(order.model, version);
}

void model_registry::answer_change(process_id gateway, const change_model& order,
                                   const scanned_version& of, std::optional<error> failure) {
  if (order.request == 0) { // from nodes.toml, at the start
    if (failure)
      reject(order.model.empty() ? order.archive : order.model, order.archive, failure->message);
    return;
  }
  model_changed change_answer{.request = order.request,
                              .failure = std::move(failure),
                              .model = order.model,
                              .version = of.version,
                              .workers = count_for(of)};
  answers_.push_back({gateway, std::move(change_answer)});
}

// The reason of a ready model lists its notes: what it is served without.
served_model model_registry::published(const revision& r) const {
  auto m = r.model;
  if (m.state == model_state::ready && m.reason.empty())
    m.reason = fmt::format("{}", fmt::join(notes_of(r), "; "));
  const auto at = registered_.find(m.name);
  m.is_default =
      !m.archive.empty() && at != registered_.end() && at->second.default_version == m.version;
  return m;
}

// -- Models that are not registered --

void model_registry::reject(const std::string& name, const std::string& archive,
                            const std::string& why) {
  if (rejected_.size() >= limits::models_max)
    rejected_.erase(rejected_.begin()); // the log still has it
  rejected_model p{name, archive, why, ++last_revision_};
  std::erase_if(rejected_, [&](const rejected_model& other) {
    return other.name == p.name && other.archive == p.archive;
  });
  remarks_.push_back(fmt::format("{} is skipped: {}", p.name, p.why));
  rejected_.push_back(std::move(p));
  has_changed_ = true;
}

void model_registry::reject_missing() {
  std::vector<std::string> names;
  for (const auto& [name, versions] : scanned_)
    names.push_back(name);
  for (const auto& m : how_.load_models) {
    if (m == "*" || scanned_.contains(m))
      continue;
    const auto near = nearest_name(m, names);
    reject(m, "",
           fmt::format("load_models names it, and the model repository has no such directory{}",
                       near ? fmt::format("; did you mean '{}'?", *near) : ""));
  }
}

served_model model_registry::published(const rejected_model& p) const {
  served_model m;
  m.name = p.name;
  m.revision = p.revision;
  m.state = model_state::unavailable;
  m.reason = p.why;
  m.is_of_repository = true;
  m.archive = p.archive;
  return m;
}

std::vector<std::string> model_registry::notes_of(const revision& r) const {
  for (const auto& v : wanted(r.model.name))
    if (v.version == r.model.version && v.digest == r.digest)
      return v.notes;
  return {};
}

} // namespace baton::cluster
