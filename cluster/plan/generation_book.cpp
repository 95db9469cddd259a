#include "cluster/plan/generation_book.hpp"

#include "schema/ensure.hpp"

#include <algorithm>

namespace baton::cluster {

noted_generations noted_elsewhere(const generations& now) {
  return {now, now.coming ? now.coming->number : now.serving.number};
}

bool is_without(const generation& which, const std::string& node) {
  return std::find(which.without.begin(), which.without.end(), node) != which.without.end();
}

generation leave_out(generation which, const std::set<std::string>& nodes) {
  for (const auto& node : nodes)
    if (!is_without(which, node))
      which.without.push_back(node);
  return which;
}

generations leave_out(generations now, const std::set<std::string>& nodes) {
  now.serving = leave_out(std::move(now.serving), nodes);
  if (now.coming)
    now.coming = leave_out(std::move(*now.coming), nodes);
  return now;
}

generation_book::generation_book(noted_generations noted, time_point now)
    : noted_(std::move(noted)), late_at_(now + change_patience) {
  if (is_changing())
    outcome_ = fmt::format("generation {} is being started", noted_.now.coming->number);
}

result<void> generation_book::begin(generation next, time_point now, const std::string& why) {
  if (is_changing())
    return fail(errc::conflict, "generation {} is still being started: wait for it",
                noted_.now.coming->number);
  if (next.number >= generations_max)
    return fail(errc::does_not_fit, "this cluster has changed {} times: restart it", noted_.last);
  ENSURE(next.number > noted_.last, "generation {} was used before", next.number);
  noted_.last = next.number;
  noted_.now.coming = std::move(next);
  late_at_ = now + change_patience;
  why_ = why.empty() ? "" : ": " + why;
  outcome_ = fmt::format("generation {} is being started{}", noted_.last, why_);
  return {};
}

result<void> generation_book::replace(generation next, time_point now, const std::string& why) {
  const auto number = next.number;
  auto begun = begin(std::move(next), now, why);
  if (begun)
    on_serves(number);
  return begun;
}

void generation_book::leave_out(const std::set<std::string>& nodes) {
  noted_.now = cluster::leave_out(std::move(noted_.now), nodes);
}

void generation_book::stay(const std::string& why) {
  outcome_ = why;
}

bool generation_book::on_serves(std::uint32_t generation) {
  if (!is_changing() || noted_.now.coming->number != generation)
    return false;
  noted_.now.serving = std::move(*noted_.now.coming);
  noted_.now.coming.reset();
  outcome_ = fmt::format("generation {} serves{}", generation, why_);
  return true;
}

bool generation_book::give_up(const std::string& why) {
  if (!is_changing())
    return false;
  outcome_ = fmt::format("generation {} was given up: {}", noted_.now.coming->number, why);
  noted_.now.coming.reset();
  return true;
}

bool generation_book::tick(time_point now) {
  return is_changing() && now >= late_at_ &&
         give_up(fmt::format("it was not ready within {} s",
                             std::chrono::seconds(change_patience).count()));
}

} // namespace baton::cluster
