#include "cluster/model_keeper.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::cluster {
namespace {

constexpr std::chrono::milliseconds tick_interval{100};
// Of what processes and gateways say; a reason for each would be one more than there are.
constexpr std::size_t events_max = 1u << 16;

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
  const auto* word = order.is_unload ? "unload" : "load";
  return fail(errc::conflict, "failed to {} '{}': explicit model load / unload is not allowed{}",
              word, order.model,
              control == model_control::poll ? " if polling is enabled"
                                             : ": model_repository.control_mode is \"none\"");
}

} // namespace

result<std::unique_ptr<model_keeper>> model_keeper::create(const cluster_config& config,
                                                           const run_dir& dir) {
  auto made = std::make_unique<model_keeper>(config, dir);
  const auto now = instant::clock::now();
  if (const auto left = noted_models_of(dir))
    made->book_.restore(*left, now);
  if (auto ok = made->look(now); !ok)
    return ok.error();
  made->publish();
  return made;
}

model_keeper::model_keeper(const cluster_config& config, const run_dir& dir)
    : config_(config), dir_(dir), book_(book_options(config), config) {}

model_keeper::~model_keeper() {
  stop();
}

void model_keeper::begin(outside to) {
  to_ = std::move(to);
  thread_ = std::thread([this] { run(); });
}

void model_keeper::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  bell_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

served_models model_keeper::standing() const {
  const std::lock_guard lock(mutex_);
  return standing_;
}

std::vector<worker_child> model_keeper::workers() const {
  const std::lock_guard lock(mutex_);
  return workers_;
}

void model_keeper::change(node_id gateway, change_model order) {
  post([this, gateway, order = std::move(order)](repository_book&, instant now) {
    carry_out(gateway, order, now);
  });
}

void model_keeper::on_gateway() {
  post([this](repository_book& book, instant) { to_.say(book.standing()); });
}

void model_keeper::on_ready(node_id worker) {
  post([worker](repository_book& book, instant now) { book.on_ready(worker, now); });
}

void model_keeper::on_end(node_id worker, std::string how) {
  post([worker, how = std::move(how)](repository_book& book, instant now) {
    book.on_end(worker, how, now);
  });
}

void model_keeper::on_given_up(node_id worker, std::string why) {
  post([worker, why = std::move(why)](repository_book& book, instant now) {
    book.on_given_up(worker, why, now);
  });
}

void model_keeper::on_gone(node_id worker) {
  post([worker](repository_book& book, instant now) { book.on_gone(worker, now); });
}

void model_keeper::on_drained(std::uint32_t gateway, std::uint64_t revision) {
  post([gateway, revision](repository_book& book, instant now) {
    book.on_drained(gateway, revision, now);
  });
}

void model_keeper::post(event e) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_)
      return;
    ENSURE(events_.size() < events_max, "{} events wait for the model repository", events_.size());
    events_.push_back(std::move(e));
  }
  bell_.notify_all();
}

void model_keeper::carry_out(node_id gateway, const change_model& order, instant now) {
  const auto no = [&](error why) { to_.answer(gateway, {order.request, std::move(why)}); };
  if (!config_.repository || !book_.takes_changes())
    return no(
        refusal(order, config_.repository ? config_.repository->control : model_control::none));
  if (auto ok = look(now); !ok && !order.is_unload)
    return no(fail(errc::io_failed, "failed to load '{}': {}", order.model, ok.error().message));
  if (order.is_unload)
    book_.unload(gateway, order.request, order.model, now);
  else
    book_.load(gateway, order.request, order.model, now);
}

// What cannot be looked at leaves all as it is.
result<void> model_keeper::look(instant now) {
  if (!config_.repository)
    return {};
  auto found = read_model_repository(config_.repository->path);
  const auto failure = found ? std::string() : found.error().message;
  if (std::exchange(last_failure_, failure) != failure && !failure.empty())
    spdlog::error("the model repository: {}", failure);
  if (!found)
    return found.error();
  book_.take(scan_repository(*found, names_of(config_)), now);
  return {};
}

void model_keeper::run() {
  const bool polls = config_.repository && config_.repository->control == model_control::poll;
  auto next_look = instant::clock::now() +
                   (polls ? config_.repository->poll_interval : std::chrono::milliseconds(0));
  publish();
  for (;;) {
    std::deque<event> all;
    {
      std::unique_lock lock(mutex_);
      bell_.wait_for(lock, tick_interval, [this] { return is_stopping_ || !events_.empty(); });
      if (is_stopping_)
        return;
      all = std::exchange(events_, {});
    }
    for (const auto& e : all)
      e(book_, instant::clock::now());
    if (polls && instant::clock::now() >= next_look) {
      (void)look(instant::clock::now()); // in the log
      next_look = instant::clock::now() + config_.repository->poll_interval;
    }
    book_.tick(instant::clock::now());
    publish();
  }
}

// Whoever is started finds its note; whoever is asked is served by then.
void model_keeper::publish() {
  for (const auto& line : book_.take_remarks())
    spdlog::info("{}", line);
  if (book_.take_change()) {
    const auto now = book_.standing();
    if (config_.repository)
      if (auto ok = note_models(dir_, book_.note()); !ok)
        spdlog::error("the worker models cannot be noted: {}", ok.error().message);
    auto workers = workers_of(config_, now);
    {
      const std::lock_guard lock(mutex_);
      standing_ = now;
      workers_ = std::move(workers);
    }
    if (to_.say)
      to_.say(now);
    if (to_.changed)
      to_.changed();
  }
  for (const auto& a : book_.take_answers())
    to_.answer(a.gateway, a.what);
}

} // namespace baton::cluster
