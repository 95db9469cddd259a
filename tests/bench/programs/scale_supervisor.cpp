// The root's side: a supervisor with one child per machine, and the pipeline whose epoch has a
// stage on every machine.
#include "actors/pipeline.hpp"
#include "actors/supervision/supervisor.hpp"
#include "schema/codec/codec.hpp"
#include "tests/bench/programs/scale.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <fmt/format.h>

namespace baton::bench {
namespace {

constexpr std::uint32_t first_process = 1024;

struct supervisor_figures {
  double event = 0;     // one child's status, received and published
  double forwarded = 0; // statuses published for it
  double restart = 0;   // a child's exit and restart
  double tick = 0;
  double bytes = 0; // per child
};

// On CAF's testing scheduler: messages run at once, on this thread.
struct supervisor_lab {
  explicit supervisor_lab(std::uint32_t nodes) : nodes_(nodes) {
    config_.set("scheduler.policy", caf::atom("testing"));
    system_ = std::make_unique<caf::actor_system>(config_);
    const auto before = bytes_in_use();
    actors::supervisor_config c;
    c.name = "root";
    for (std::uint32_t i = 0; i < nodes; ++i)
      c.children.push_back({fmt::format("agent-{}", i), process_id{first_process + i}, role::agent,
                            actors::agent_intensity});
    c.start = [this](const actors::child_spec&, incarnation_id) -> result<std::int32_t> {
      return ++last_pid_;
    };
    c.stop = [](const actors::child_spec&, std::int32_t, bool) {};
    c.changed = [this](const std::vector<status>& all) { forwarded_ += all.size(); };
    c.escalate = [](const status&) {};
    c.stopped = [] {};
    c.now = [this] { return now_; };
    c.next_incarnation = [this](process_id process) {
      return incarnations_[process] = incarnation_id{++last_epoch_};
    };
    actor_ = system_->spawn(actors::supervisor, c);
    coordinator().run();
    bytes_ = static_cast<double>(bytes_in_use() - before) / nodes;
  }
  ~supervisor_lab() {
    caf::anon_send_exit(actor_, caf::exit_reason::kill);
    coordinator().run();
    actor_ = nullptr;
    system_.reset();
  }
  supervisor_lab(const supervisor_lab&) = delete;
  supervisor_lab& operator=(const supervisor_lab&) = delete;

  supervisor_figures run() {
    supervisor_figures f;
    f.bytes = bytes_;
    forwarded_ = 0;
    f.event = each([this](process_id process) {
      return status{process, incarnations_[process], role::agent, "agent", phase::ready, "", 0, 0,
                    1};
    });
    f.forwarded = static_cast<double>(forwarded_) / nodes_;
    now_ += actors::settled_after;
    f.restart = each([this](process_id process) {
      return actors::child_exited{process, incarnations_[process], "killed by signal 9", false};
    });
    constexpr int ticks = 20;
    const stopwatch time;
    for (int i = 0; i < ticks; ++i)
      send(actors::tick{});
    f.tick = time.micros() / ticks;
    return f;
  }

private:
  caf::scheduler::test_coordinator& coordinator() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  }
  template <class M>
  void send(M m) {
    caf::anon_send(actor_, std::move(m));
    coordinator().run();
  }
  template <class F>
  double each(F make) {
    const stopwatch time;
    for (std::uint32_t i = 0; i < nodes_; ++i)
      send(make(process_id{first_process + i}));
    return time.micros() / nodes_;
  }

  std::uint32_t nodes_;
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  actors::supervisor_actor actor_;
  actors::time_point now_{};
  std::map<process_id, incarnation_id> incarnations_;
  std::int32_t last_pid_ = 0;
  std::uint64_t last_epoch_ = 0;
  std::size_t forwarded_ = 0;
  double bytes_ = 0;
};

struct opening {
  double decide = 0; // membership, orders for all stages, their answers
  double encode = 0; // encoding the orders
  double bytes = 0;  // all orders together
};

opening open_epoch_of(std::uint32_t nodes) {
  opening o;
  actors::pipeline formed({0, nodes, {}}, {1});
  for (stage_index i = 0; i < nodes; ++i) {
    const process_id process{first_process + i};
    formed.on_up({process,
                  {7},
                  role::shard,
                  fmt::format("shard-{}", i),
                  fmt::format("tcp://10.0.{}.{}:7000#{}", i / 256, i % 256, std::string(64, '0')),
                  "build",
                  0});
    stage_ready ready;
    ready.process = process;
    ready.incarnation = {7};
    ready.stage = i;
    ready.stages = nodes;
    ready.blocks = 1000;
    ready.block_positions = 64;
    (void)formed.on_ready(ready);
  }
  const stopwatch deciding;
  const auto orders = formed.open_if_complete();
  for (stage_index i = 0; i < nodes; ++i)
    formed.on_opened({formed.epoch(), i});
  o.decide = deciding.micros();
  const stopwatch encoding;
  for (const auto& order : orders)
    o.bytes += static_cast<double>(encode({}, message(order.what)).size_bytes());
  o.encode = encoding.micros();
  return o;
}

} // namespace

void measure_supervisor(const scale_options& o) {
  const std::uint32_t most = o.quick ? 100 : 1000;
  std::map<std::uint32_t, std::vector<double>> opened;
  for (const std::uint32_t nodes : {most / 2, most}) {
    std::vector<double> event, forwarded, restart, tick, bytes, decide, encoded, order_bytes;
    for (int round = 0; round < o.rounds; ++round) {
      const auto f = supervisor_lab(nodes).run();
      event.push_back(f.event);
      forwarded.push_back(f.forwarded);
      restart.push_back(f.restart);
      tick.push_back(f.tick);
      bytes.push_back(f.bytes);
      const auto p = open_epoch_of(nodes);
      decide.push_back(p.decide);
      encoded.push_back(p.encode);
      order_bytes.push_back(p.bytes / nodes);
      opened[nodes].push_back(p.decide + p.encode);
    }
    const auto row = [&](std::string_view what, const std::vector<double>& values,
                         std::string_view unit) {
      report(o, fmt::format("supervisor.{}.{}", nodes, what), values, unit);
    };
    row("event", event, "us");
    row("told", forwarded, "statuses");
    row("restart", restart, "us");
    row("tick", tick, "us");
    row("bytes", bytes, "B/node");
    row("open.decide", decide, "us");
    row("open.encode", encoded, "us");
    row("open.order", order_bytes, "B");
  }
  std::vector<double> doubled;
  for (std::size_t i = 0; i < opened[most].size(); ++i)
    doubled.push_back(opened[most][i] / opened[most / 2][i]);
  report(o, fmt::format("supervisor.{}/{}.open", most, most / 2), doubled, "x");
}

} // namespace baton::bench
