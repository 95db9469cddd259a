#include "cluster/plan_keeper.hpp"

#include "cluster/process.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::cluster {
namespace {

using clock = std::chrono::steady_clock;

std::vector<std::string> elsewhere(const cluster_config& config) {
  std::vector<std::string> nodes;
  for (const auto& n : config.nodes)
    if (n.is_elsewhere)
      nodes.push_back(n.name);
  return nodes;
}

} // namespace

plan_keeper::plan_keeper(const cluster_context& context, outside to)
    : context_(context), to_(std::move(to)), note_(context.made_with),
      book_(*context.made_with.generations, clock::now()),
      away_(elsewhere(context.config), {context.config.node_timeout, change_patience},
            clock::now()),
      serving_(context.plan), coming_(context.coming) {}

// Whoever starts on this machine from now on plans from this.
result<void> plan_keeper::note() {
  note_.build = build_version();
  note_.generations = book_.noted();
  return note_plan(context_.dir, note_);
}

plan_word plan_keeper::word() const {
  return {note_.known, book_.noted().now};
}

// A change is over, either way.
void plan_keeper::settle() {
  coming_.reset();
  note_and_tell();
}

void plan_keeper::note_and_tell() {
  if (auto ok = note(); !ok)
    spdlog::error("{}", ok.error().message); // a root after us asks head and machines again
  tell();
}

// Under the lock, so that everybody hears of the changes in their order.
void plan_keeper::tell() {
  to_.changed({serving_, coming_, book_.outcome()});
  to_.say(word());
}

result<cluster_plan> plan_keeper::plan_of_next(generation& next) const {
  next.number = book_.noted().last + 1;
  return make_plan(context_.config, context_.model, note_.known, next);
}

result<generation> plan_keeper::begin(const change_nodes& order) {
  auto next =
      next_generation(context_.config, book_.noted().now.serving, order.node, order.is_drain);
  if (!next)
    return next;
  if (!book_.is_changing()) { // else the book says what is in the way
    auto plan = plan_of_next(*next);
    if (!plan)
      return plan.error();
    if (auto ok = check_fits_beside(serving_, *plan, note_.known); !ok)
      return ok.error();
    coming_ = std::move(*plan);
  }
  return book_.begin(next->stages, std::move(next->without), clock::now());
}

nodes_changed plan_keeper::change(const change_nodes& order) {
  std::lock_guard lock(mutex_);
  auto begun = begin(order);
  if (!begun)
    return {order.request, 0, begun.error()};
  if (auto ok = note(); !ok) { // nobody has heard of it
    book_.give_up(ok.error().message);
    coming_.reset();
    return {order.request, 0, ok.error()};
  }
  tell();
  return {order.request, begun->number, std::nullopt};
}

void plan_keeper::on_joined(const std::string& node, const machine_facts& facts) {
  std::lock_guard lock(mutex_);
  note_.known.insert_or_assign(node, facts);
  note_and_tell();
}

void plan_keeper::on_serves(std::uint32_t generation) {
  std::lock_guard lock(mutex_);
  if (book_.on_serves(generation)) {
    serving_ = std::move(*coming_);
    settle();
  } else if (flight_ && flight_ == book_.coming() && generation == serving_.generation) {
    give_up("who was gone is back"); // before the others were ready
  }
}

void plan_keeper::on_agent(node_id agent, bool is_here) {
  std::lock_guard lock(mutex_);
  for (const auto& a : context_.plan.agents)
    if (a.node == agent) {
      if (is_here)
        away_.on_here(a.on);
      else
        away_.on_away(a.on, clock::now());
    }
}

void plan_keeper::on_serving(bool is_serving) {
  std::lock_guard lock(mutex_);
  away_.on_serving(is_serving, clock::now());
}

void plan_keeper::give_up(const std::string& why) {
  if (book_.give_up(why))
    settle();
}

// Beside those that serve, which may still be whole again first; or, if there is no room for both,
// in their place.
result<void> plan_keeper::move_away_from(const std::set<std::string>& lost,
                                         const std::string& why) {
  auto next = next_generation_without(context_.config, book_.noted().now.serving, lost);
  if (!next)
    return next.error();
  auto plan = plan_of_next(*next);
  if (!plan)
    return plan.error();
  const bool has_room = check_fits_beside(serving_, *plan, note_.known).has_value();
  const auto begun = has_room
                         ? book_.begin(next->stages, std::move(next->without), clock::now(), why)
                         : book_.replace(next->stages, std::move(next->without), clock::now(), why);
  if (!begun)
    return begun.error();
  if (has_room)
    coming_ = std::move(*plan);
  else
    serving_ = std::move(*plan);
  flight_ = begun->number;
  return {};
}

void plan_keeper::do_without_the_lost() {
  const auto lost = away_.lost(clock::now());
  if (lost == std::exchange(moved_from_, lost))
    return; // what there was to do was done
  const auto& last = coming_ ? *book_.noted().now.coming : book_.noted().now.serving;
  if (std::all_of(lost.begin(), lost.end(),
                  [&](const auto& node) { return is_without(last, node); }))
    return;
  const auto why = fmt::format("node {} is gone", fmt::join(lost, ", "));
  book_.give_up(why);
  coming_.reset();
  if (auto ok = move_away_from(lost, why); !ok)
    book_.stay(
        fmt::format("{}, and the others cannot take its layers: {}", why, ok.error().message));
  spdlog::warn("{}", book_.outcome());
  note_and_tell();
}

void plan_keeper::on_failed(const status& child) {
  std::lock_guard lock(mutex_);
  if (coming_ && child.role == role::shard &&
      place::generation_of(child.node) == coming_->generation)
    give_up(fmt::format("{}: {}", child.name, child.reason));
}

void plan_keeper::tick() {
  std::lock_guard lock(mutex_);
  if (book_.tick(clock::now()))
    settle();
  do_without_the_lost();
}

plan_word plan_keeper::now() const {
  std::lock_guard lock(mutex_);
  return word();
}

plan_standing plan_keeper::standing() const {
  std::lock_guard lock(mutex_);
  return {serving_, coming_, book_.outcome()};
}

} // namespace baton::cluster
