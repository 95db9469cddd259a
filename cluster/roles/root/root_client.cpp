#include "cluster/roles/root/root_client.hpp"

#include "cluster/plan/plan.hpp"
#include "cluster/roles/process.hpp"

#include <unistd.h>

#include <atomic>
#include <future>

namespace baton::cluster {
namespace {

constexpr std::chrono::seconds answer_patience{3};
constexpr process_id client_bit{
    0x80000000u}; // a client's process id has the high bit; the cluster's ids do not

template <class Answer>
result<Answer> ask(const run_dir& dir, const message& question) {
  auto pid = static_cast<std::uint32_t>(getpid());
  process_id me{client_bit.value | pid};
  incarnation_id incarnation{now_micros()};
  const auto plan = recorded_plan(dir);
  auto where = addresses::create(dir, plan ? plan->network : std::nullopt);
  if (!where)
    return where.error();
  auto started = process::start({.process = me,
                                 .incarnation = incarnation,
                                 .as = role::client,
                                 .name = "status",
                                 .endpoint = where->listen("status", incarnation),
                                 .supervisor = {},
                                 .supervisor_endpoint = {}},
                                *where, 1);
  if (!started)
    return started.error();
  auto& self = **started;
  std::promise<Answer> answer;
  std::atomic<bool> is_answered = false;
  auto got = answer.get_future();
  self.links().publish(actors::well_known::client, [&](const envelope&, message&& m) {
    if (auto* a = std::get_if<Answer>(&m); a && !is_answered.exchange(true))
      answer.set_value(std::move(*a));
  });
  std::atomic<bool> is_sent = false;
  self.on_peer(
      [&](const hello& h) {
        if (!is_sent.exchange(true)) // an order must be sent only once
          self.links().send(h.process, actors::well_known::supervisor, message(question));
      },
      [](process_id, incarnation_id, const std::string&) {});
  self.begin();
  if (auto linked = self.links().connect(process_ids::root, where->find(root_name)); !linked)
    return linked.error();
  if (got.wait_for(answer_patience) != std::future_status::ready)
    return fail(errc::link_down, "the root does not answer within {} s", answer_patience.count());
  return got.get();
}

} // namespace

result<cluster_status> ask_status(const run_dir& dir) {
  return ask<cluster_status>(dir, query_status{1});
}

result<nodes_changed> ask_to_change(const run_dir& dir, const message& order) {
  return ask<nodes_changed>(dir, order);
}

} // namespace baton::cluster
