#include "cluster/models/model_registry.hpp"

#include "cluster/plan/worker_slots.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

// Range of worker process ids; an index is reused only after all others.
constexpr std::uint32_t worker_indices_max = 1u << 19;

bool has_worker(const std::vector<model_worker>& all, process_id process) {
  return std::any_of(all.begin(), all.end(),
                     [process](const model_worker& w) { return w.process == process; });
}

std::string text_of(const served_model& m) {
  return m.version.empty() ? m.name : fmt::format("{}, version {}", m.name, m.version);
}

} // namespace

model_registry::model_registry(options how, const cluster_config& config) : how_(std::move(how)) {
  const auto slots = worker_slots(config);
  for (const auto& w : config.workers) {
    served_model m;
    m.name = w.name;
    m.version = w.version;
    m.revision = ++last_revision_;
    for (const auto& s : slots)
      if (s.of == &w)
        m.workers.push_back({s.process, s.name, s.gateway_index});
    static_.push_back(std::move(m));
  }
  next_worker_ = static_cast<std::uint32_t>(slots.size());
}

void model_registry::take(scanned_models found, instant now) {
  has_changed_ |= found != scanned_; // models that are not loaded are published too
  scanned_ = std::move(found);
  const bool is_first = !std::exchange(has_begun_, true);
  if (how_.control != model_control::clients)
    targets_ = scanned_;
  else if (is_first)
    for (const auto& [name, versions] : scanned_)
      for (const auto& m : how_.load_models)
        if (m == "*" || m == name)
          targets_[name] = versions;
  has_changed_ |= std::erase_if(rejected_, [&](const rejected_model& p) {
                    return p.archive.empty() && scanned_.contains(p.name);
                  }) > 0;
  if (is_first)
    reject_missing();
  has_changed_ |= is_first;
  settle(now);
}

void model_registry::load(process_id gateway, std::uint64_t request, const std::string& model,
                          instant now) {
  const pending_request pending{gateway, request, model};
  const auto found = scanned_.find(model);
  if (found == scanned_.end())
    return reply(pending,
                 fail(errc::model_not_found,
                      "failed to load '{}': the model repository has no such model", model));
  targets_[model] = found->second;
  unloaded_.erase(model);
  for (auto& r : revisions_)
    if (r.model.name == model && r.model.state == model_state::unavailable)
      r.is_void = true;
  waiting_.push_back(pending);
  has_changed_ = true;
  settle(now);
}

void model_registry::unload(process_id gateway, std::uint64_t request, const std::string& model,
                            instant now) {
  const pending_request pending{gateway, request, model};
  if (!scanned_.contains(model) && !targets_.contains(model))
    return reply(pending,
                 fail(errc::model_not_found,
                      "failed to unload '{}': the model repository has no such model", model));
  targets_.erase(model);
  unloaded_.insert(model);
  has_changed_ = true;
  settle(now);
  reply(pending, std::nullopt);
}

void model_registry::on_ready(process_id worker, instant now) {
  if (auto* m = static_of(worker)) {
    static_lost_.erase(worker);
    if (m->state != model_state::ready)
      has_changed_ = true;
    m->state = model_state::ready;
    m->reason.clear();
    return;
  }
  auto* r = revision_of(worker);
  if (r == nullptr)
    return;
  r->given_up.erase(worker);
  r->ready.insert(worker);
  r->starting.erase(worker);
  check_ready(*r, now);
  if (r->model.state == model_state::ready)
    settle(now);
}

void model_registry::on_end(process_id worker, const std::string& how, instant now) {
  auto* r = revision_of(worker);
  if (r != nullptr && r->starting.contains(worker))
    return drop_starting(*r, how, now);
  if (r == nullptr || r->model.state != model_state::loading)
    return; // the supervisor restarts it
  const bool is_late = r->startup_timeout.count() > 0 && now - r->since >= r->startup_timeout;
  stop(*r,
       is_late ? fmt::format("a worker was not ready within {} s",
                             std::chrono::duration<double>(r->startup_timeout).count())
               : how,
       now);
  settle(now);
}

void model_registry::on_given_up(process_id worker, const std::string& why, instant now) {
  if (auto* m = static_of(worker)) {
    static_lost_[worker] = why;
    const bool are_all = std::all_of(m->workers.begin(), m->workers.end(), [&](const auto& w) {
      return static_lost_.contains(w.process);
    });
    if (are_all && m->state != model_state::unavailable) {
      m->state = model_state::unavailable;
      m->reason = why;
      has_changed_ = true;
    }
    return;
  }
  auto* r = revision_of(worker);
  if (r == nullptr || !is_active(r->model))
    return;
  if (r->starting.contains(worker))
    return drop_starting(*r, why, now);
  r->given_up.insert(worker);
  if (r->model.state == model_state::loading || r->given_up.size() == r->model.workers.size()) {
    stop(*r, why, now);
    settle(now);
  }
}

void model_registry::on_gone(process_id worker, instant now) {
  for (auto& r : revisions_)
    if (std::erase_if(r.leaving, [&](const model_worker& w) { return w.process == worker; }) > 0) {
      has_changed_ = true; // the persisted state changes
      return settle(now);
    }
}

void model_registry::on_drained(std::uint32_t gateway, std::uint64_t number, instant now) {
  for (auto& r : revisions_)
    if (r.model.revision == number && r.model.state == model_state::unloading) {
      r.drained.insert(gateway);
      r.is_void = true; // needed for a restored revision too
      if (r.drained.size() >= how_.gateways)
        stop(r, "unloaded", now);
      return settle(now);
    }
}

void model_registry::tick(instant now) {
  bool is_late = false;
  for (auto& r : revisions_)
    if (r.model.state == model_state::unloading && now - r.since >= how_.drain_max) {
      remarks_.push_back(
          fmt::format("{}: some of its requests did not finish in time", text_of(r.model)));
      r.is_void = true;
      stop(r, "unloaded", now);
      is_late = true;
    }
  if (is_late)
    settle(now);
}

// Whether exactly these files are to be served.
bool model_registry::is_wanted(const revision& r) const {
  const auto& all = wanted(r.model.name);
  return !r.is_void && std::any_of(all.begin(), all.end(), [&](const scanned_version& v) {
    return v.version == r.model.version && v.digest == r.digest;
  });
}

const std::vector<scanned_version>& model_registry::wanted(const std::string& name) const {
  static const std::vector<scanned_version> nothing;
  if (const auto at = targets_.find(name); at != targets_.end())
    return at->second;
  const auto at = registered_.find(name);
  return at == registered_.end() ? nothing : at->second.versions;
}

void model_registry::settle(instant now) {
  std::set<std::string> names;
  for (const auto& [name, versions] : targets_)
    names.insert(name);
  for (const auto& [name, model] : registered_)
    names.insert(name);
  for (const auto& r : revisions_)
    names.insert(r.model.name);
  for (const auto& name : names)
    settle(name, now);
}

void model_registry::settle(const std::string& name, instant now) {
  for (const auto& v : wanted(name))
    if (find(name, v) == nullptr)
      start(name, v, now);
  replace(name, now);
  answer_registrations(name);
  drop_failed(name);
  std::erase_if(revisions_, [&](const revision& r) {
    return r.model.name == name && r.model.state == model_state::unavailable && r.leaving.empty() &&
           !is_wanted(r);
  });
  answer_loads(name);
}

model_registry::revision* model_registry::find(const std::string& name, const scanned_version& v) {
  for (auto& r : revisions_)
    if (r.model.name == name && r.model.version == v.version && r.digest == v.digest &&
        r.model.state != model_state::unloading && !r.is_void)
      return &r;
  return nullptr;
}

void model_registry::start(const std::string& name, const scanned_version& v, instant now) {
  revision r;
  r.model.name = name;
  r.model.version = v.version;
  r.model.revision = ++last_revision_;
  r.model.is_of_repository = true;
  r.model.config = v.table;
  r.digest = v.digest;
  r.startup_timeout = v.worker.startup_timeout;
  r.model.archive = v.archive;
  const auto count = count_for(v);
  const auto others = worker_count();
  auto refusal = v.refusal;
  if (refusal.empty() && others + count > workers_of_cluster_max)
    refusal = fmt::format("it needs {} workers beside the {} that exist; a cluster has at most "
                          "{}",
                          count, others, workers_of_cluster_max);
  if (refusal.empty())
    r.model.workers = workers_for(name, count);
  for (const auto& n : v.notes)
    remarks_.push_back(n);
  revisions_.push_back(std::move(r));
  set_state(revisions_.back(), refusal.empty() ? model_state::loading : model_state::unavailable,
            refusal, now);
  check_ready(revisions_.back(), now);
}

std::size_t model_registry::worker_count() const {
  std::size_t all = 0;
  for (const auto& m : static_)
    all += m.workers.size();
  for (const auto& r : revisions_)
    all += r.model.workers.size() + r.leaving.size();
  return all;
}

std::vector<model_worker> model_registry::workers_for(const std::string& name, std::uint32_t count,
                                                      std::uint32_t before) {
  std::set<std::string> names;
  std::set<std::uint32_t> slots;
  const auto add = [&](const std::vector<model_worker>& all) {
    for (const auto& w : all) {
      names.insert(w.name);
      slots.insert(process_ids::index_of_worker(w.process));
    }
  };
  for (const auto& m : static_)
    add(m.workers);
  for (const auto& r : revisions_) {
    add(r.model.workers);
    add(r.leaving);
  }
  std::vector<model_worker> out;
  for (std::uint32_t number = 0; out.size() < count; ++number) {
    auto own = fmt::format("worker-{}-{}", name, number); // reused names keep the logs few
    if (names.contains(own))
      continue;
    while (slots.contains(next_worker_ % worker_indices_max))
      ++next_worker_;
    out.push_back({process_ids::worker(next_worker_++ % worker_indices_max), std::move(own),
                   (before + static_cast<std::uint32_t>(out.size())) % how_.gateways});
  }
  return out;
}

// Stops what is no longer wanted; if it has a successor, only once that is ready.
void model_registry::replace(const std::string& name, instant now) {
  const auto& targets = wanted(name);
  bool any_loads = false, any_ready = false;
  std::set<std::string> ready;
  for (const auto& v : targets)
    if (const auto* r = find(name, v)) {
      any_loads = any_loads || r->model.state == model_state::loading;
      if (r->model.state == model_state::ready) {
        any_ready = true;
        ready.insert(v.version);
      }
    }
  const auto has_successor = [&](const served_model& m) {
    const bool is_named = std::any_of(targets.begin(), targets.end(),
                                      [&](const auto& v) { return v.version == m.version; });
    return is_named ? ready.contains(m.version) : any_ready && !any_loads;
  };
  for (auto& r : revisions_) {
    if (r.model.name != name || !is_active(r.model) || is_wanted(r))
      continue;
    const bool loads = r.model.state == model_state::loading;
    if (!loads && !targets.empty() && !has_successor(r.model))
      continue;
    r.is_void = true; // if the same files are wanted again, they get a new revision
    if (loads)
      stop(r, "unloaded", now);
    else
      set_state(r, model_state::unloading, targets.empty() ? "" : "replaced", now);
  }
}

// A load completes when each of its versions has.
void model_registry::answer_loads(const std::string& name) {
  const auto& targets = wanted(name);
  std::optional<error> failure;
  bool is_open = false;
  if (targets.empty())
    failure = fail(errc::cancelled, "failed to load '{}': it was unloaded meanwhile", name);
  for (const auto& v : targets) {
    const auto* r = find(name, v);
    is_open = is_open || r == nullptr || r->model.state == model_state::loading;
    if (r != nullptr && r->model.state == model_state::unavailable)
      failure = fail(errc::start_failed, "failed to load '{}'{}: {}", name,
                     v.version.empty() ? "" : ", version " + v.version, r->model.reason);
  }
  if (is_open)
    return;
  const auto is_meant = [&](const pending_request& w) { return w.model == name && !w.version; };
  for (const auto& w : waiting_)
    if (is_meant(w))
      reply(w, failure);
  std::erase_if(waiting_, is_meant);
}

void model_registry::set_state(revision& r, model_state to, std::string reason, instant now) {
  constexpr std::string_view phrases[] = {"", "is being loaded", "is ready", "is being unloaded",
                                          "is unavailable"};
  r.model.state = to;
  r.model.reason = std::move(reason);
  r.since = now;
  has_changed_ = true;
  remarks_.push_back(fmt::format("{} {}{}{}", text_of(r.model), phrases[static_cast<int>(to)],
                                 r.model.reason.empty() ? "" : ": ", r.model.reason));
}

void model_registry::stop(revision& r, std::string reason, instant now) {
  r.leaving.insert(r.leaving.end(), r.model.workers.begin(), r.model.workers.end());
  r.model.workers.clear();
  set_state(r, model_state::unavailable, std::move(reason), now);
}

void model_registry::reply(const pending_request& to, std::optional<error> failure) {
  answers_.push_back({to.gateway,
                      {.request = to.request,
                       .failure = std::move(failure),
                       .model = "",
                       .version = "",
                       .workers = 0}});
}

model_registry::revision* model_registry::revision_of(process_id worker) {
  for (auto& r : revisions_)
    if (has_worker(r.model.workers, worker))
      return &r;
  return nullptr;
}

served_model* model_registry::static_of(process_id worker) {
  for (auto& m : static_)
    if (has_worker(m.workers, worker))
      return &m;
  return nullptr;
}

} // namespace baton::cluster
