#include "cluster/plan_keeper.hpp"

#include "cluster/process.hpp"

#include <spdlog/spdlog.h>

namespace baton::cluster {

plan_keeper::plan_keeper(const cluster_context& context, outside to)
    : context_(context), to_(std::move(to)), note_(context.made_with),
      book_(*context.made_with.generations, std::chrono::steady_clock::now()),
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
  if (auto ok = note(); !ok)
    spdlog::error("{}", ok.error().message); // a root after us hears it from the head
  tell();
}

// Under the lock, so that everybody hears of the changes in their order.
void plan_keeper::tell() {
  to_.changed({serving_, coming_, book_.outcome()});
  to_.say(word());
}

result<generation> plan_keeper::begin(const change_nodes& order) {
  auto next =
      next_generation(context_.config, book_.noted().now.serving, order.node, order.is_drain);
  if (!next)
    return next;
  if (!book_.is_changing()) { // else the book says what is in the way
    next->number = book_.noted().last + 1;
    auto plan = make_plan(context_.config, context_.model, note_.known, *next);
    if (!plan)
      return plan.error();
    if (auto ok = check_fits_beside(serving_, *plan, note_.known); !ok)
      return ok.error();
    coming_ = std::move(*plan);
  }
  return book_.begin(next->stages, std::move(next->without), std::chrono::steady_clock::now());
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
  if (auto ok = note(); !ok)
    spdlog::error("{}", ok.error().message); // a root after us waits for that machine again
  tell();
}

void plan_keeper::on_serves(std::uint32_t generation) {
  std::lock_guard lock(mutex_);
  if (!book_.on_serves(generation))
    return;
  serving_ = std::move(*coming_);
  settle();
}

void plan_keeper::on_failed(const status& child) {
  std::lock_guard lock(mutex_);
  if (!coming_ || child.role != role::shard ||
      place::generation_of(child.node) != coming_->generation)
    return;
  book_.give_up(fmt::format("{}: {}", child.name, child.reason));
  settle();
}

void plan_keeper::tick() {
  std::lock_guard lock(mutex_);
  if (book_.tick(std::chrono::steady_clock::now()))
    settle();
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
