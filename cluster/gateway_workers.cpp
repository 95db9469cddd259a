#include "cluster/gateway_workers.hpp"

#include "cluster/worker_seats.hpp"
#include "gateway/zmq_door_workers.hpp"

namespace baton::cluster {
namespace {

schedule::worker_limits limits_of(const worker_config& w) {
  schedule::worker_limits limits;
  limits.batch_size = w.batch_size;
  limits.max_batch_delay = w.max_batch_delay;
  limits.max_queued = w.max_queued;
  limits.response_timeout = w.response_timeout;
  limits.use_job_ticket = w.use_job_ticket;
  return limits;
}

} // namespace

result<std::unique_ptr<gateway_workers>>
gateway_workers::start(process& self, const cluster_context& context,
                       std::shared_ptr<gateway::board> board, std::uint32_t gateway_index) {
  auto made = std::make_unique<gateway_workers>();
  const auto& config = context.config;
  if (config.workers.empty())
    return made;
  auto door =
      gateway::worker_door::bind(context.dir.endpoint(worker_door_name(gateway_index)), board);
  if (!door)
    return door.error();
  made->door_ = *std::move(door);
  auto models = std::make_shared<gateway::worker_models>();
  gateway::worker_door::pools_by_place pools;
  std::vector<gateway::worker_view> views;
  const auto seats = worker_seats(config);
  for (const auto& w : config.workers) {
    gateway::worker_pool_config options;
    options.limits = limits_of(w);
    options.facts = board;
    for (const auto& seat : seats)
      if (seat.of == &w && seat.gateway_index == gateway_index)
        options.places.push_back({seat.node, seat.name});
    options.say = [door = made->door_](schedule::worker_life to, message m) {
      door->say(to, std::move(m));
    };
    options.report = [&self](const status& s) {
      self.links().post(place::root, actors::well_known::supervisor, message(s));
    };
    const auto places = options.places;
    views.push_back({w.name, w.version, options.load});
    const auto pool = self.own_typed(gateway::spawn_worker_pool(self.system(), std::move(options)));
    for (const auto& p : places)
      pools.emplace(p.node, pool);
    models->by_name.emplace(w.name, gateway::worker_model{w.version, pool});
    self.on_tick([pool] { caf::anon_send(pool, actors::tick{}); });
    self.on_peer([pool](const hello& h) { caf::anon_send(pool, actors::peer_up{h}); },
                 [](node_id, epoch_id, const std::string&) {});
  }
  board->set_workers(std::move(models), std::move(views));
  made->door_->start(std::move(pools));
  return made;
}

gateway_workers::~gateway_workers() {
  stop();
}

void gateway_workers::stop() {
  if (door_)
    door_->stop();
}

} // namespace baton::cluster
