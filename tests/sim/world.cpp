#include "tests/sim/world.hpp"

#include "actors/detokenizer.hpp"
#include "actors/scheduler.hpp"
#include "actors/stage.hpp"
#include "actors/tokenizer.hpp"
#include "cluster/proxies.hpp"
#include "runtime/model/gguf.hpp"
#include "runtime/text/vocabulary_gguf.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <spdlog/spdlog.h>

namespace baton::sim {
namespace {

constexpr std::chrono::milliseconds tick_interval{20};
constexpr std::uint32_t block_positions = 4;
constexpr std::uint32_t context_max = 96;
constexpr std::uint32_t rows_max = 24;

// The byte-level vocabulary of the tiny model; its weights are not used.
std::shared_ptr<const text::tokenizer> tiny_words() {
  static const auto words = [] {
    testing::scratch_directory scratch;
    auto path = scratch / "tiny.gguf";
    ENSURE(testing::write_tiny_llama(path).has_value(), "the tiny model cannot be written");
    auto file = model::gguf_file::open(path);
    auto vocabulary = text::vocabulary_from(*file);
    return std::make_shared<const text::tokenizer>(
        std::move(*text::tokenizer::create(*vocabulary)));
  }();
  return words;
}

} // namespace

world::world(const world_options& options)
    : options_(options), toy_{.seed = options.seed,
                              .stages = options.stages,
                              .vocabulary_size = 259},
      random_(options.seed * 0x9E3779B97F4A7C15ull + 1), network_(options.seed),
      words_(tiny_words()) {
  config_.set("scheduler.policy", caf::atom("testing"));
  system_ = std::make_unique<caf::actor_system>(config_);
  start_head();
  start_gateway();
  for (stage_index i = 0; i < options_.stages; ++i)
    start_shard(i);
}

world::~world() {
  while (!lives_.empty())
    crash(lives_.begin()->first);
  desk_.reset();
  coordinator().run();
}

caf::scheduler::test_coordinator& world::coordinator() {
  return dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
}

world::life& world::begin(node_id node, role r, const std::string& name) {
  auto& l = lives_[node];
  l.wire = network_.make_bus(node);
  auto endpoint = l.wire->bind("");
  ENSURE(endpoint.has_value(), "the simulated bus does not bind");
  endpoints_[node] = *endpoint;
  hello self{node, epoch_id{last_epoch_ += 1000}, r, name, *endpoint, "sim", 0};
  l.links = std::make_unique<cluster::exchange>(*l.wire, self, cluster::exchange_options{});
  return l;
}

template <class Handle>
Handle world::keep(life& l, Handle actor) {
  l.actors.push_back(caf::actor_cast<caf::actor>(actor));
  return actor;
}

template <class Handle>
void world::tell_peers(life& l, Handle actor) {
  auto self = l.links->self().name;
  l.links->on_peer_up([this, self, actor](const hello& h) {
    spdlog::info("{:8.3f} {}: {} is up", seconds(), self, h.name);
    caf::anon_send(actor, actors::peer_up{h});
  });
  l.links->on_peer_down([this, self, actor](node_id n, epoch_id e, const std::string& why) {
    spdlog::info("{:8.3f} {}: node {} is down: {}", seconds(), self, n.value, why);
    caf::anon_send(actor, actors::peer_down{n, e, why});
  });
}

void world::start_head() {
  auto& l = begin(head_node, role::head, "head");
  auto& links = *l.links;
  actors::directory peers;
  peers.gateway =
      cluster::proxies<actors::gateway_actor>(*system_, links, actors::well_known::gateway);
  peers.stage = cluster::proxies<actors::stage_actor>(*system_, links, actors::well_known::stage);
  actors::scheduler_options o;
  o.limits.max_num_seqs = options_.slots;
  o.limits.max_num_batched_tokens = rows_max;
  o.limits.prefill_chunk = 8;
  o.limits.max_model_len = context_max;
  o.limits.vocabulary_size = toy_.vocabulary_size;
  o.limits.use_job_ticket = options_.use_job_ticket;
  o.limits.first_ticket = ticket_id{links.self().epoch.value};
  o.stages = options_.stages;
  o.first_epoch = links.self().epoch;
  o.detokenizer =
      keep(l, system_->spawn(actors::detokenizer, actors::detokenizer_config{peers, words_}));
  o.peers = peers;
  o.card.name = "toy";
  o.card.context_max = context_max;
  o.report = [this](const load_report& report) { load_ = report; };
  o.stands = [this](phase p, const std::string&) { stands_ = p; };
  o.now = [this] { return network_.now(); };
  auto scheduler = keep(l, system_->spawn(actors::scheduler, o));
  auto tokenizer = keep(
      l, system_->spawn(actors::tokenizer, actors::tokenizer_config{scheduler, peers, words_,
                                                                    std::nullopt, context_max}));
  cluster::deliver_to(links, actors::well_known::scheduler, scheduler);
  cluster::deliver_to(links, actors::well_known::tokenizer, tokenizer);
  tell_peers(l, scheduler);
  l.tick = [scheduler] { caf::anon_send(scheduler, actors::tick{}); };
  links.start(network_.now());
}

void world::start_gateway() {
  auto& l = begin(gateway_node, role::gateway, "gateway");
  gateway::gateway_config c;
  c.self = gateway_node;
  c.epoch = l.links->self().epoch;
  c.head = head_node;
  board_ = std::make_shared<gateway::board>(c);
  gateway::desk_config d;
  d.scheduler = cluster::make_proxy<actors::scheduler_actor>(*system_, *l.links, head_node,
                                                             actors::well_known::scheduler);
  d.tokenizer = cluster::make_proxy<actors::tokenizer_actor>(*system_, *l.links, head_node,
                                                             actors::well_known::tokenizer);
  d.board = board_;
  desk_ = keep(l, gateway::spawn_desk(*system_, d));
  cluster::deliver_to(*l.links, actors::well_known::gateway, actors::gateway_actor(*desk_));
  tell_peers(l, *desk_);
  l.tick = [desk = *desk_] { caf::anon_send(desk, actors::tick{}); };
  l.links->start(network_.now());
  (void)l.links->connect(head_node, endpoints_[head_node]);
}

void world::start_shard(stage_index stage) {
  auto node = shard_node(stage);
  auto& l = begin(node, role::shard, fmt::format("shard-{}", stage));
  auto& links = *l.links;
  engine::toy_memory memory{options_.blocks, block_positions, rows_max, context_max,
                            options_.swap_blocks};
  actors::stage_config c;
  c.stage = stage;
  c.stages = options_.stages;
  c.head = head_node;
  c.scheduler = cluster::make_proxy<actors::scheduler_actor>(*system_, links, head_node,
                                                             actors::well_known::scheduler);
  c.peers.stage = cluster::proxies<actors::stage_actor>(*system_, links, actors::well_known::stage);
  c.connect = [&links](const stage_address& other) {
    (void)links.connect(other.node, other.endpoint, other.node_epoch);
  };
  // Two of three lives find the memory of the one before, as after a kill; else it was lost.
  auto& kept = kept_[stage];
  if (!kept.engine || draw(3) == 0)
    kept = {std::make_shared<engine::toy_engine>(toy_, stage, memory), draw(UINT64_MAX) + 1};
  kept.engine->forget_swapped(); // no life finds that
  c.engine = kept.engine;
  c.announcement = {node,          links.self().epoch,  stage,     options_.stages,
                    memory.blocks, block_positions,     toy_.seed, "toy",
                    kept.life,     options_.swap_blocks};
  c.now_micros = [this] {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(network_.now().time_since_epoch())
            .count());
  };
  auto actor = keep(l, system_->spawn(actors::stage, c));
  cluster::deliver_to(links, actors::well_known::stage, actor);
  tell_peers(l, actor);
  links.start(network_.now());
  (void)links.connect(head_node, endpoints_[head_node]);
}

void world::crash(node_id node) {
  auto it = lives_.find(node);
  if (it == lives_.end())
    return;
  network_.crash(node);
  it->second.links->stop();
  for (auto& a : it->second.actors)
    caf::anon_send_exit(a, caf::exit_reason::kill);
  if (node == gateway_node) {
    for (auto& c : clients_)
      if (!c->was_left && !c->lose_gateway(draw(2) == 0, toy_))
        c->was_left = !c->has_ended(); // it was not told of a ticket: nothing was accepted
    desk_.reset();
  }
  it->second.actors.clear();
  coordinator().run(); // whatever it still had to do, nobody hears of
  lives_.erase(it);
}

void world::restart(node_id node) {
  if (is_alive(node))
    return;
  if (node == head_node) {
    start_head();
    // Survivors dial the head's stable name; here the name is told to them.
    for (auto& [other, l] : lives_)
      if (other != head_node)
        (void)l.links->connect(head_node, endpoints_[head_node],
                               lives_[head_node].links->self().epoch);
  } else if (node == gateway_node) {
    start_gateway();
  } else {
    start_shard(node.value - shard_node(0).value);
  }
}

client& world::open(ids_prompt input, std::uint32_t tokens_max, std::uint64_t seed) {
  clients_.push_back(
      std::make_unique<client>(board_->next_number(), std::move(input), tokens_max, seed));
  caf::anon_send(*desk_, clients_.back()->request());
  return *clients_.back();
}

void world::leave(client& c) {
  c.was_left = true;
  if (desk_)
    caf::anon_send(*desk_, gateway::close_request{c.number(), cancel_reason::client_gone});
}

bool world::step() {
  auto& jobs = coordinator().jobs;
  bool has_job = !jobs.empty();
  if (has_job && draw(2) == 0) {
    std::swap(jobs.front(), jobs[draw(jobs.size())]);
    return coordinator().try_run_once();
  }
  if (network_.step())
    return true;
  if (!has_job)
    return false;
  std::swap(jobs.front(), jobs[draw(jobs.size())]);
  return coordinator().try_run_once();
}

// Clients whose gateway died come back as soon as one serves.
void world::bring_back_clients() {
  if (!desk_ || standing_of(*board_->look()).phase != phase::ready)
    return;
  for (auto& c : clients_)
    if (c->is_orphan() && !c->was_left)
      caf::anon_send(*desk_, c->come_back(board_->next_number()));
}

void world::tick_all() {
  bring_back_clients();
  for (auto& [node, l] : lives_) {
    l.links->tick(network_.now());
    if (l.tick)
      l.tick();
  }
}

void world::run_for(std::chrono::milliseconds span) {
  auto until = network_.now() + span;
  auto tick_due = network_.now() + tick_interval;
  while (network_.now() < until) {
    while (step()) {
    }
    auto next = std::min(until, tick_due);
    if (auto due = network_.next_due())
      next = std::min(next, *due);
    auto by = std::chrono::ceil<std::chrono::milliseconds>(next - network_.now());
    network_.advance(std::max(by, std::chrono::milliseconds(1)));
    coordinator().advance_time(std::max(by, std::chrono::milliseconds(1)));
    if (network_.now() >= tick_due) {
      tick_all();
      tick_due = network_.now() + tick_interval;
    }
  }
  for (auto& c : clients_)
    if (!c->was_left && !c->is_orphan())
      c->read(toy_);
}

bool world::run_until_ended(std::chrono::milliseconds span) {
  auto all_ended = [this] {
    return std::all_of(clients_.begin(), clients_.end(),
                       [](const auto& c) { return c->was_left || c->has_ended(); });
  };
  for (auto until = network_.now() + span; network_.now() < until;) {
    run_for(std::chrono::milliseconds(50));
    if (all_ended())
      return true;
  }
  return all_ended();
}

std::vector<std::string> world::broken() {
  std::vector<std::string> all;
  for (auto& c : clients_)
    for (const auto& b : c->broken())
      all.push_back(fmt::format("client {}: {}", c->number(), b));
  return all;
}

} // namespace baton::sim
