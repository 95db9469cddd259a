#include "tests/sim/scenario.hpp"

#include <algorithm>

namespace baton::sim {

void for_seeds(const std::function<void(std::uint64_t)>& scenario, std::uint64_t stride) {
  const auto& o = chosen();
  const auto first = o.seed.value_or(o.first);
  const auto end = o.seed ? first + 1 : first + std::max<std::uint64_t>(1, o.seeds / stride);
  for (auto seed = first + (o.seed ? 0 : o.part); seed < end; seed += o.seed ? 1 : o.parts) {
    CAPTURE(seed);
    running_seed() = seed;
    scenario(seed);
  }
  running_seed() = 0;
}

ids_prompt some_prompt(world& w) {
  ids_prompt ids;
  if (w.draw(2) == 0)
    for (token_id i = 0; i < 13; ++i)
      ids.push_back(static_cast<token_id>(40 + i));
  for (auto n = 1 + w.draw(17); n > 0; --n)
    ids.push_back(static_cast<token_id>(w.draw(259)));
  if (ids.front() == poison)
    ids.front() = poison + 1;
  return ids;
}

client_plan some_plan(world& w) {
  client_plan p;
  p.input = some_prompt(w);
  p.max_tokens = static_cast<std::uint32_t>(1 + w.draw(40));
  p.seed = w.draw(2) * (1 + w.draw(1000));
  if (w.draw(4) == 0)
    p.choices = static_cast<std::uint32_t>(2 + w.draw(2));
  if (w.draw(4) == 0)
    p.stops_at = static_cast<std::uint32_t>(w.draw(p.max_tokens));
  if (w.options().by_priority)
    p.priority = static_cast<std::int32_t>(w.draw(3)) - 1;
  if (w.draw(3) == 0)
    p.request_id = fmt::format("request {}", w.clients().size());
  if (w.draw(3) == 0)
    p.looks_like = w.draw(2) == 0
                       ? constraint{constraint_kind::regex, "([a-z]{2,5}, ){1,6}end"}
                       : constraint{constraint_kind::json_schema,
                                    R"({"type":"array","items":{"enum":["a","bc",12,null]}})"};
  if (w.draw(12) == 0) {
    p.buffer_bytes = 2048;
    p.reads_slowly = true;
  }
  return p;
}

bool carries_poison(const micro_batch& batch) {
  std::size_t first = 0;
  for (const auto& s : batch.slices) {
    if (s.position == 0 && batch.tokens[first] == poison)
      return true;
    first += s.rows;
  }
  return false;
}

std::vector<process_id> all_processes(const world& w) {
  std::vector<process_id> all{head_process, gateway_process};
  const auto shards = w.planned_shards();
  all.insert(all.end(), shards.begin(), shards.end());
  return all;
}

process_id some_shard(world& w) {
  const auto shards = w.planned_shards();
  return shards[w.draw(shards.size())];
}

void live_through(world& w, int strikes, const std::function<void()>& fault) {
  w.run_for(100ms);
  for (int i = 0; i < strikes; ++i) {
    if (w.is_alive(gateway_process) && w.draw(3) != 0)
      w.open(some_plan(w));
    if (!w.clients().empty() && w.draw(8) == 0)
      w.leave(*w.clients()[w.draw(w.clients().size())]);
    if (w.draw(3) == 0)
      fault();
    w.run_for(std::chrono::milliseconds(1 + w.draw(60)));
  }
  w.network().faults = {};
  w.network().heal_all();
  w.on_step = nullptr;
  for (auto process : all_processes(w)) {
    w.release(process);
    if (!w.options().supervised)
      w.restart(process);
  }
  if (w.options().supervised)
    w.restart(root_process);
  w.run_for(5s); // a silently cut connection falls by itself within 4 s
}

void check_promises(world& w) {
  const auto broken = w.broken();
  const auto promise = broken.empty() ? std::string() : broken.front();
  CAPTURE(promise);
  CHECK(broken.empty());
}

void check_rest(world& w) {
  CHECK(w.run_until_ended(patience));
  auto is_idle = [&] {
    const auto* s = w.scheduler();
    const auto* b =
        w.gateway_state(); // a client that left without an answer is forgotten after a while
    return w.stands() == phase::ready && s && s->core->is_idle() && (!b || b->requests_open() == 0);
  };
  for (int i = 0; i < 120 && !is_idle(); ++i)
    w.run_for(
        1s);     // a link may still be reconnecting, and with it the message that a client has left
  w.run_for(1s); // the last credit returns with a heartbeat
  w.at_rest();
  CHECK(w.stands() == phase::ready);
  check_promises(w);
}

void check_failures(world& w, const std::set<errc>& excusable) {
  for (auto& c : w.clients()) {
    if (c->was_left || !c->failure())
      continue;
    const auto code = c->failure()->code;
    if (code == errc::slow_reader && c->plan().reads_slowly)
      continue;
    const auto number = c->number();
    const auto failure = c->failure()->message;
    CAPTURE(number);
    CAPTURE(failure);
    CHECK(excusable.contains(code));
  }
}

} // namespace baton::sim
