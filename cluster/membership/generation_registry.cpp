#include "cluster/membership/generation_registry.hpp"

#include "schema/ensure.hpp"
#include "schema/limits.hpp"

#include <algorithm>

namespace baton::cluster {

recorded_generations agent_record_of(const generations& now) {
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

result<void> check_generations(const generations& now) {
  const auto check = [](const generation& g) -> result<void> {
    if (g.number >= generations_max)
      return fail(errc::invalid_value, "generation {} is beyond the last, {}", g.number,
                  generations_max - 1);
    if (g.width == 0 || g.stages > limits::stages_max ||
        std::uint64_t{g.stages} * g.width > limits::stages_max)
      return fail(errc::invalid_value, "generation {} has {} stages of {} ranks", g.number,
                  g.stages, g.width);
    return {};
  };
  auto ok = check(now.serving);
  if (ok && now.coming && now.coming->number <= now.serving.number)
    return fail(errc::invalid_value, "generation {} cannot follow generation {}",
                now.coming->number, now.serving.number);
  return ok && now.coming ? check(*now.coming) : ok;
}

result<void> check_generations(const recorded_generations& record) {
  if (auto ok = check_generations(record.now); !ok)
    return ok;
  const auto& now = record.now;
  const auto highest = std::max(now.serving.number, now.coming ? now.coming->number : 0);
  if (record.last < highest || record.last >= generations_max)
    return fail(errc::invalid_value, "generation {} exists, the last one assigned was {}", highest,
                record.last);
  return {};
}

generation_registry::generation_registry(recorded_generations record, time_point now)
    : record_(std::move(record)), late_at_(now + change_patience) {
  if (is_changing())
    outcome_ = fmt::format("generation {} is being started", record_.now.coming->number);
}

result<void> generation_registry::begin(generation next, time_point now, const std::string& why) {
  if (is_changing())
    return fail(errc::conflict, "generation {} is still being started: wait for it",
                record_.now.coming->number);
  if (next.number >= generations_max)
    return fail(errc::does_not_fit, "this cluster has changed {} times: restart it", record_.last);
  ENSURE(next.number > record_.last, "generation {} was used before", next.number);
  record_.last = next.number;
  record_.now.coming = std::move(next);
  late_at_ = now + change_patience;
  why_ = why.empty() ? "" : ": " + why;
  outcome_ = fmt::format("generation {} is being started{}", record_.last, why_);
  return {};
}

result<void> generation_registry::replace(generation next, time_point now, const std::string& why) {
  const auto number = next.number;
  auto begun = begin(std::move(next), now, why);
  if (begun)
    on_serves(number);
  return begun;
}

void generation_registry::leave_out(const std::set<std::string>& nodes) {
  record_.now = cluster::leave_out(std::move(record_.now), nodes);
}

void generation_registry::stay(const std::string& why) {
  outcome_ = why;
}

bool generation_registry::on_serves(std::uint32_t generation) {
  if (!is_changing() || record_.now.coming->number != generation)
    return false;
  record_.now.serving = std::move(*record_.now.coming);
  record_.now.coming.reset();
  outcome_ = fmt::format("generation {} serves{}", generation, why_);
  return true;
}

bool generation_registry::give_up(const std::string& why) {
  if (!is_changing())
    return false;
  outcome_ = fmt::format("generation {} was given up: {}", record_.now.coming->number, why);
  record_.now.coming.reset();
  return true;
}

bool generation_registry::tick(time_point now) {
  return is_changing() && now >= late_at_ &&
         give_up(fmt::format("it was not ready within {} s",
                             std::chrono::seconds(change_patience).count()));
}

} // namespace baton::cluster
