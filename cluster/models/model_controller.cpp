#include "cluster/models/model_controller.hpp"

#include "cluster/config/readers/config_repository.hpp"
#include "schema/archive_url.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

namespace baton::cluster {
namespace {

constexpr std::chrono::milliseconds tick_interval{100};
// Pending events of all senders. A full queue means that the controller is stuck.
constexpr std::size_t events_max = 1u << 16;
// Pending events at which those that peers cause are refused; the rest is for this process's own.
constexpr std::size_t peer_events_max = events_max / 2;

std::set<std::string> names_of(const cluster_config& config) {
  std::set<std::string> names;
  for (const auto& m : config.models) {
    names.insert(m.name);
    names.insert(m.aliases.begin(), m.aliases.end());
  }
  for (const auto& w : config.workers)
    names.insert(w.name);
  return names;
}

error refusal(const change_model& order, model_control control) {
  const auto* verb = order.what == model_order::unload ? "unload" : "load";
  return fail(errc::conflict, "failed to {} '{}': explicit model load / unload is not allowed{}",
              verb, order.model,
              control == model_control::poll ? " if polling is enabled"
                                             : ": model_repository.control_mode is \"none\"");
}

bool is_of_store(model_order what) {
  return what != model_order::load && what != model_order::unload;
}

// Whether processes of an earlier root still run; if so, the persisted models are restored.
bool continues(const run_dir& dir) {
  const auto alive = dir.alive();
  return std::any_of(alive.begin(), alive.end(),
                     [](const process_record& n) { return n.name != "root"; });
}

// Removes partial downloads of an earlier root's killed fetch processes (baton_worker.fetch).
void remove_half_fetched(const std::filesystem::path& store) {
  std::error_code ec;
  std::vector<std::filesystem::path> left;
  for (std::filesystem::directory_iterator it(store, ec), end; !ec && it != end; it.increment(ec))
    if (it->path().filename().string().starts_with(".baton-download-"))
      left.push_back(it->path());
  for (const auto& path : left)
    std::filesystem::remove(path, ec);
}

} // namespace

result<std::unique_ptr<model_controller>> model_controller::create(const cluster_config& config,
                                                                   const run_dir& dir) {
  auto made = std::make_unique<model_controller>(config, dir);
  const auto now = instant::clock::now();
  if (const auto left = read_recorded_models(config, dir))
    made->registry_.restore(*left, now);
  for (const auto& archive : made->registry_.archives())
    if (config.store && is_archive_url(archive))
      made->fetched_[archive] = config.store->path / file_of_url(archive);
  if (auto ok = made->look(now); !ok)
    return ok.error();
  if (config.store && !continues(dir))
    if (auto ok = made->load_store(now); !ok)
      return ok.error();
  made->publish();
  return made;
}

model_controller::model_controller(const cluster_config& config, const run_dir& dir)
    : config_(config), dir_(dir), registry_(registry_options(config), config) {}

model_controller::~model_controller() {
  stop();
}

void model_controller::begin(outside to) {
  to_ = std::move(to);
  if (config_.store)
    intake_ = std::make_unique<archive_intake>(*config_.store, *to_.children);
  thread_ = std::thread([this] { run(); });
  for (auto& order : std::exchange(later_, {}))
    post([this, order = std::move(order)](model_registry&, instant now) { load(order, now); });
}

void model_controller::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  bell_.notify_all();
  if (thread_.joinable())
    thread_.join();
  intake_.reset();
}

served_models model_controller::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

std::vector<worker_child> model_controller::workers() const {
  const std::lock_guard lock(mutex_);
  return workers_;
}

void model_controller::change(process_id gateway, change_model order) {
  const auto request = order.request;
  const auto model = order.model;
  if (!post_of_peer([this, gateway, order = std::move(order)](model_registry&, instant now) {
        carry_out(gateway, order, now);
      }))
    to_.answer(gateway, {.request = request,
                         .failure = fail(errc::overloaded, "{} changes of models wait, the limit",
                                         peer_events_max),
                         .model = model});
}

void model_controller::on_gateway() {
  if (post_of_peer([this](model_registry& registry, instant) { to_.publish(registry.snapshot()); }))
    return;
  const std::lock_guard lock(mutex_);
  has_missed_gateway_ = true;
}

void model_controller::on_ready(process_id worker) {
  post_of_peer([worker](model_registry& registry, instant now) { registry.on_ready(worker, now); });
}

void model_controller::on_end(process_id worker, std::string how) {
  post([worker, how = std::move(how)](model_registry& registry, instant now) {
    registry.on_end(worker, how, now);
  });
}

void model_controller::on_given_up(process_id worker, std::string why) {
  post([worker, why = std::move(why)](model_registry& registry, instant now) {
    registry.on_given_up(worker, why, now);
  });
}

void model_controller::on_gone(process_id worker) {
  post([worker](model_registry& registry, instant now) { registry.on_gone(worker, now); });
}

void model_controller::on_drained(std::uint32_t gateway, std::uint64_t revision) {
  post_of_peer([gateway, revision](model_registry& registry, instant now) {
    registry.on_drained(gateway, revision, now);
  });
}

bool model_controller::post_of_peer(event e) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_stopping_ && events_.size() >= peer_events_max) {
      spdlog::error("an event is dropped: {} wait for the worker models", events_.size());
      return false;
    }
  }
  post(std::move(e));
  return true;
}

void model_controller::post(event e) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_)
      return;
    ENSURE(events_.size() < events_max, "{} events wait for the model repository", events_.size());
    events_.push_back(std::move(e));
  }
  bell_.notify_all();
}

void model_controller::carry_out(process_id gateway, change_model order, instant now) {
  if (is_of_store(order.what))
    return carry_out_store(gateway, std::move(order), now);
  const auto no = [&](error why) {
    to_.answer(gateway, {.request = order.request,
                         .failure = std::move(why),
                         .model = order.model,
                         .version = "",
                         .workers = 0});
  };
  if (!config_.repository || !registry_.takes_changes())
    return no(
        refusal(order, config_.repository ? config_.repository->control : model_control::none));
  const bool is_unload = order.what == model_order::unload;
  if (auto ok = look(now); !ok && !is_unload)
    return no(fail(errc::io_failed, "failed to load '{}': {}", order.model, ok.error().message));
  if (is_unload)
    registry_.unload(gateway, order.request, order.model, now);
  else
    registry_.load(gateway, order.request, order.model, now);
}

void model_controller::carry_out_store(process_id gateway, change_model order, instant now) {
  const auto request = order.request;
  auto done = config_.store ? result<void>()
                            : result<void>(fail(errc::conflict, "nodes.toml has no [model_store]"));
  if (done && order.what == model_order::register_model)
    done = register_model(gateway, std::move(order), now);
  else if (done && order.what == model_order::unregister_model)
    registry_.unregister_model(gateway, order, now);
  else if (done && order.what == model_order::scale)
    registry_.scale(gateway, order, now);
  else if (done)
    registry_.set_default(gateway, order);
  if (!done)
    to_.answer(
        gateway,
        {.request = request, .failure = done.error(), .model = "", .version = "", .workers = 0});
}

result<void> model_controller::register_model(process_id gateway, change_model order, instant now) {
  const auto& which = order.archive;
  if (!is_archive_url(which) && !is_archive_name(which)) // the API servers have checked this
    return fail(errc::model_not_found, "Model not found in the model store: {}: {}", which,
                archive_name_rule);
  if (!archive_intake::takes_long(*config_.store, which))
    return enter(gateway, order, read_model_archive(config_.store->path / which), now);
  const bool takes_present = order.request == 0; // a restarted cluster already has the file
  return intake_->take(which, takes_present, [=, this](result<model_archive> archive) {
    post([=, this](model_registry&, instant then) {
      if (auto ok = enter(gateway, order, archive, then); !ok)
        refuse(gateway, order, ok.error());
    });
  });
}

result<void> model_controller::enter(process_id gateway, change_model order,
                                     const result<model_archive>& archive, instant now) {
  const auto refused = [&](const error& why) { // a bad file is the client's error
    const auto code = why.code == errc::bad_config ? errc::invalid_request : why.code;
    return fail(code, "{}: {}", order.archive, why.message);
  };
  if (!archive) // all other errors name the archive
    return archive.error().code == errc::bad_config ? refused(archive.error()) : archive.error();
  if (!archive->url.empty()) // the file is removed with the model that is registered from it
    fetched_[archive->url] = archive->path;
  const auto workers = order.request != 0
                           ? 0
                           : configured_of(*archive, *config_.store)
                                 .workers_min.value_or(config_.store->default_workers_per_model);
  auto made = model_of_archive(*archive, order.model, order.settings, *config_.store, workers);
  if (!made)
    return refused(made.error());
  if (names_of(config_).contains(made->name))
    return fail(errc::conflict, "Model {} is one of nodes.toml", made->name);
  order.model = made->name;
  registry_.register_model(gateway, order, *std::move(made), now);
  return {};
}

void model_controller::refuse(process_id gateway, const change_model& order, const error& why) {
  if (order.request == 0)
    registry_.reject(order.model.empty() ? order.archive : order.model, order.archive, why.message);
  else
    to_.answer(
        gateway,
        {.request = order.request, .failure = why, .model = "", .version = "", .workers = 0});
}

// An archive that cannot be served does not stop the others from loading.
result<void> model_controller::load_store(instant now) {
  remove_half_fetched(config_.store->path);
  std::vector<std::pair<std::string, std::string>> wanted; // model, archive
  for (const auto& one : config_.store->load_models) {
    const auto requested = read_store_load(one);
    if (requested.archive != "all" || !requested.model.empty()) {
      wanted.emplace_back(requested.model, requested.archive);
      continue;
    }
    auto all = archives_of(config_.store->path);
    if (!all)
      return all.error();
    for (auto& name : *all)
      wanted.emplace_back("", std::move(name));
  }
  for (auto& [model, archive] : wanted) {
    change_model order;
    order.model = std::move(model);
    order.what = model_order::register_model;
    order.archive = std::move(archive);
    if (!archive_intake::takes_long(*config_.store, order.archive)) {
      load(order, now);
      continue;
    }
    spdlog::info("{} is being read", order.archive);
    later_.push_back(std::move(order));
  }
  return {};
}

void model_controller::load(change_model order, instant now) {
  if (auto ok = register_model({}, order, now); !ok)
    refuse({}, order, ok.error());
}

void model_controller::remove_unused() {
  if (fetched_.empty())
    return;
  const auto used = registry_.archives();
  std::erase_if(fetched_, [&](const auto& one) {
    if (used.contains(one.first))
      return false;
    std::error_code ec;
    std::filesystem::remove(one.second, ec); // on failure (a read-only or hung disk) the file stays
    return true;
  });
}

// If the scan fails, the models stay as they are.
result<void> model_controller::look(instant now) {
  if (!config_.repository)
    return {};
  auto found = read_model_repository(config_.repository->path);
  const auto failure = found ? std::string() : found.error().message;
  if (std::exchange(last_failure_, failure) != failure && !failure.empty())
    spdlog::error("the model repository: {}", failure);
  if (!found)
    return found.error();
  auto taken = names_of(config_);
  taken.merge(registry_.registered());
  registry_.take(scan_repository(*found, taken), now);
  return {};
}

void model_controller::run() {
  const bool polls = config_.repository && config_.repository->control == model_control::poll;
  auto next_look = instant::clock::now() +
                   (polls ? config_.repository->poll_interval : std::chrono::milliseconds(0));
  publish();
  for (;;) {
    std::deque<event> all;
    bool has_missed_gateway = false;
    {
      std::unique_lock lock(mutex_);
      bell_.wait_for(lock, tick_interval, [this] { return is_stopping_ || !events_.empty(); });
      if (is_stopping_)
        return;
      all = std::exchange(events_, {});
      has_missed_gateway = std::exchange(has_missed_gateway_, false);
    }
    for (const auto& e : all)
      e(registry_, instant::clock::now());
    if (has_missed_gateway)
      to_.publish(registry_.snapshot());
    if (polls && instant::clock::now() >= next_look) {
      (void)look(instant::clock::now()); // errors are logged
      next_look = instant::clock::now() + config_.repository->poll_interval;
    }
    registry_.tick(instant::clock::now());
    publish();
  }
}

void model_controller::note_missing(const served_models& now) {
  const bool is_cut = !now.all.empty() && now.all.back().name == more_models_name;
  auto missing = is_cut ? now.all.back().reason : std::string();
  if (missing != last_missing_ && is_cut)
    spdlog::warn("the index of models: {}", missing);
  last_missing_ = std::move(missing);
}

// Persists first, so that a started worker finds its entry. Publishes before it answers clients.
void model_controller::publish() {
  for (const auto& line : registry_.take_remarks())
    spdlog::info("{}", line);
  remove_unused();
  if (registry_.take_change()) {
    const auto now = registry_.snapshot();
    note_missing(now);
    if (config_.has_changing_models())
      if (auto ok = record_models(dir_, registry_.record()); !ok)
        spdlog::error("the worker models cannot be recorded: {}", ok.error().message);
    std::set<std::uint64_t> running;
    for (const auto& m : now.all)
      running.insert(m.revision);
    for (const auto& n : registry_.record().all)
      running.insert(n.model.revision);
    remove_files_of_others(dir_, running);
    auto workers = workers_of(config_, now);
    {
      const std::lock_guard lock(mutex_);
      snapshot_ = now;
      workers_ = std::move(workers);
    }
    if (to_.publish)
      to_.publish(now);
    if (to_.changed)
      to_.changed();
  }
  for (const auto& a : registry_.take_answers())
    to_.answer(a.gateway, a.what);
}

} // namespace baton::cluster
