// The processes of the simulated cluster: the parts that each one's main would assemble.
#include "actors/tokenizer.hpp"
#include "cluster/bus/proxies.hpp"
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/text/vocabulary/vocabulary_gguf.hpp"
#include "tests/sim/world.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <new>
#include <stdexcept>

namespace baton::sim {
namespace {

constexpr std::uint32_t block_positions = 4;
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

std::shared_ptr<grammar::masker> masker_of(const text::tokenizer& words) {
  return std::make_shared<grammar::masker>(grammar::texts_of(words));
}

std::string name_of_process(process_id process) {
  if (process == root_process)
    return "root";
  if (process == head_process)
    return "head";
  if (process == gateway_process)
    return "gateway";
  const auto generation = generation_of(process);
  return generation == 0 ? fmt::format("shard-{}", shard_of(process))
                         : fmt::format("shard-{}-{}", generation, shard_of(process));
}

} // namespace

world::world(const world_options& options)
    : options_(options), toy_{.seed = options.seed,
                              .layers = std::max<std::uint32_t>(layers_of_toy, options.stages),
                              .vocabulary_size = 259,
                              .has_states = options.state_slots > 0},
      random_(options.seed * 0x9E3779B97F4A7C15ull + 1), network_(options.seed),
      words_(tiny_words()) {
  ENSURE(options.shards() <= shards_max, "{} shards, of {} at most", options.shards(), shards_max);
  config_.set("scheduler.policy", caf::atom("testing"));
  system_ = std::make_unique<caf::actor_system>(config_);
  noted_.now.serving.stages = options_.stages;
  noted_.now.serving.width = layouts_[0].width = options_.width;
  for (stage_index stage = 0; stage < options_.stages; ++stage)
    layouts_[0].first_layers.push_back(stage * toy_.layers / options_.stages);
  if (options_.on_demand) { // its shards come with the first request
    loaded_ = std::exchange(layouts_[0], layout{{}, options_.width});
    noted_.now.serving.stages = 0;
  }
  auto all = planned_shards();
  all.insert(all.begin(), {head_process, gateway_process});
  if (options_.supervised)
    all = {root_process}; // the rest are its children
  for (auto process : all)
    if (!options_.late.contains(process))
      start(process);
}

void world::start(process_id process) {
  if (process == root_process)
    start_root();
  else if (process == head_process)
    start_head();
  else if (process == gateway_process)
    start_gateway();
  else
    start_shard(process);
}

world::running_process& world::begin(process_id process, role r, const std::string& name) {
  auto& l = running_[process];
  l.wire = network_.make_bus(process);
  // Shards announce their endpoint; the others have one name in all incarnations.
  auto endpoint = l.wire->bind(r == role::shard ? "" : name);
  ENSURE(endpoint.has_value(), "the simulated bus does not bind");
  const auto given = given_incarnations_.extract(process);
  const auto incarnation = given ? given.mapped() : incarnation_id{last_epoch_ += 1000};
  hello self{process, incarnation, r, name, *endpoint, "sim", 0};
  cluster::message_router_options o;
  o.link.window_bytes = options_.window_bytes;
  l.links = std::make_unique<cluster::message_router>(*l.wire, self, o);
  return l;
}

template <class Handle>
Handle world::keep(running_process& l, Handle actor) {
  auto plain = caf::actor_cast<caf::actor>(actor);
  const auto process = l.links->self().process;
  const auto incarnation = l.links->self().incarnation;
  // A process whose actor has ended ends with it.
  plain->attach_functor([this, process, incarnation](const caf::error& why) {
    const auto it = running_.find(process);
    if (why == caf::exit_reason::kill || it == running_.end() ||
        it->second.links->self().incarnation != incarnation)
      return;
    promises_.on_actor_end(it->second.links->self().name);
    doomed_.insert(process);
  });
  l.actors.push_back(plain);
  if (options_.dies_at_start && options_.dies_at_start())
    doomed_.insert(process);
  return actor;
}

template <class Handle>
void world::forward_peer_events(running_process& l, Handle actor) {
  auto& links = *l.links;
  links.on_peer_up([this, &links, actor](const hello& h) {
    const auto& self = links.self();
    spdlog::info("{:8.3f} {}: {} is up", seconds(), self.name, h.name);
    if (h.process == root_process)
      links.send(root_process, actors::well_known::supervisor,
                 message(status{self.process, self.incarnation, self.role, self.name, phase::ready,
                                "", 0, 0, 1}));
    caf::anon_send(actor, actors::peer_up{h});
    if (self.process == root_process && h.process == head_process)
      links.send(head_process, actors::well_known::scheduler, message(noted_.now));
  });
  links.on_peer_down([this, &links, actor](process_id n, incarnation_id e, const std::string& why) {
    spdlog::info("{:8.3f} {}: node {} is down: {}", seconds(), links.self().name, n.value, why);
    caf::anon_send(actor, actors::peer_down{n, e, why});
  });
  links.start(network_.now());
  if (options_.supervised && links.self().process != root_process)
    (void)links.connect(root_process, name_of_process(root_process));
}

void world::start_root() {
  auto& l = begin(root_process, role::root, "root");
  actors::supervisor_config c;
  c.name = "root";
  book_.emplace(noted_, now());
  const auto planned = planned_shards();
  for (const auto& [process, running] : running_) // the previous root has not seen them end
    if (running.links->self().role == role::shard &&
        std::find(planned.begin(), planned.end(), process) == planned.end())
      doomed_.insert(process);
  c.children = wanted().all;
  c.adopt = [this](const actors::child_spec& s) -> std::optional<actors::left_child> {
    const auto it = running_.find(s.process);
    if (it == running_.end())
      return std::nullopt;
    supervised_.push_back("adopt " + s.name);
    return actors::left_child{++last_pid_, it->second.links->self().incarnation};
  };
  c.start = [this](const actors::child_spec& s, incarnation_id e) -> result<std::int32_t> {
    promises_.on_start(s.process, is_alive(s.process));
    supervised_.push_back("start " + s.name);
    given_incarnations_[s.process] = e;
    revivals_[s.process] = now(); // not from within the actor that requests it
    return ++last_pid_;
  };
  c.stop = [this](const actors::child_spec& s, std::int32_t, bool force) {
    supervised_.push_back((force ? "kill " : "stop ") + s.name);
    if (force || !running_.contains(s.process) || !running_.at(s.process).is_frozen)
      doomed_.insert(s.process);
  };
  c.changed = [](const std::vector<status>&) {};
  c.escalate = [this](const status& s) {
    supervised_.push_back("escalate " + s.name);
    if (s.role == role::shard && book_->is_changing() &&
        generation_of(s.process) == noted_.now.coming->number && book_->give_up(s.reason))
      publish_plan();
  };
  c.retired = [this](const actors::child_spec& s) { supervised_.push_back("retire " + s.name); };
  c.stopped = [this] { supervised_.push_back("stopped"); };
  c.now = [this] { return network_.now(); };
  c.next_incarnation = [this](process_id) { return incarnation_id{last_epoch_ += 1000}; };
  auto supervisor = keep(l, system_->spawn(actors::supervisor, c));
  supervisor_ = supervisor;
  l.links->publish(
      actors::well_known::supervisor, [this, supervisor](const envelope&, message&& m) {
        if (auto* s = std::get_if<status>(&m))
          caf::anon_send(supervisor, *s);
        else if (auto* now = std::get_if<serves>(&m); now && book_->on_serves(now->generation))
          publish_plan();
        else if (auto* load = std::get_if<load_report>(&m); load && on_demand_) {
          on_demand_->on_load(0, load->running + load->waiting + load->in_flight, this->now());
          decide_loads();
        }
      });
  if (options_.on_demand)
    start_on_demand();
  forward_peer_events(l, supervisor);
  l.tick = [this, supervisor] {
    caf::anon_send(supervisor, actors::tick{});
    if (book_->tick(now()))
      publish_plan();
    if (on_demand_)
      decide_loads();
  };
}

void world::start_on_demand() {
  on_demand_.emplace(
      std::vector<cluster::on_demand_model>{{0, "toy", options_.idle_timeout, false}}, 1,
      cluster::on_demand_models::outside{
          [this](std::uint32_t) -> result<void> {
            if (refuses_load && refuses_load())
              return fail(errc::not_ready, "the file cannot be read");
            if (!begin_generation(loaded_, /*is_replacement=*/false))
              return fail(errc::conflict, "a change is in progress");
            return {};
          },
          [this](std::uint32_t) -> result<void> {
            if (!begin_generation({{}, options_.width}, /*is_replacement=*/true))
              return fail(errc::conflict, "a change is in progress");
            return {};
          },
          [this](std::uint32_t, const error& why) {
            running_.at(root_process)
                .links->send(head_process, actors::well_known::scheduler,
                             message(load_refused{why}));
          }});
}

void world::decide_loads() {
  on_demand_->observe(
      0, {noted_.now.serving.stages > 0, noted_.now.coming.has_value(), book_->outcome()}, now());
  const auto planned = planned_shards();
  if (std::none_of(running_.begin(), running_.end(), [&](const auto& one) {
        return one.second.links->self().role == role::shard &&
               std::find(planned.begin(), planned.end(), one.first) == planned.end();
      }))
    on_demand_->on_gone(0);
  on_demand_->decide(now());
}

actors::wanted_children world::wanted() const {
  actors::wanted_children w;
  for (auto [process, r] : {std::pair{gateway_process, role::gateway}, {head_process, role::head}})
    w.all.push_back({name_of_process(process), process, r, options_.intensity});
  for (const auto process : planned_shards())
    w.all.push_back({name_of_process(process), process, role::shard, options_.intensity});
  return w;
}

void world::publish_plan() {
  noted_ = book_->record();
  promises_.on_new_shard();
  spdlog::info("{:8.3f} plan: generation {} serves, {}", seconds(), noted_.now.serving.number,
               book_->outcome());
  running_.at(root_process)
      .links->send(head_process, actors::well_known::scheduler, message(noted_.now));
  caf::anon_send(*supervisor_, wanted());
}

bool world::repartition(layout next) {
  return begin_generation(std::move(next), /*is_replacement=*/false);
}

bool world::replace(layout next) {
  return begin_generation(std::move(next), /*is_replacement=*/true);
}

bool world::begin_generation(layout cut, bool is_replacement) {
  if (!supervisor_ || running_.at(root_process).is_frozen)
    return false;
  const generation next{
      book_->record().last + 1, static_cast<std::uint32_t>(cut.first_layers.size()), {}, cut.width};
  if (!(is_replacement ? book_->replace(next, now(), "a machine is gone")
                       : book_->begin(next, now())))
    return false;
  layouts_[next.number] = std::move(cut);
  publish_plan();
  return true;
}

void world::start_head() {
  auto& l = begin(head_process, role::head, "head");
  auto& links = *l.links;
  actors::directory peers;
  peers.gateway =
      cluster::proxies<actors::gateway_actor>(*system_, links, actors::well_known::gateway);
  peers.stage = cluster::proxies<actors::stage_actor>(*system_, links, actors::well_known::stage);
  actors::scheduler_options o;
  o.limits.max_num_seqs = options_.slots;
  o.limits.max_num_batched_tokens = rows_max;
  o.limits.max_batch_total_tokens = options_.token_budget;
  o.limits.prefill_chunk = 8;
  o.limits.max_model_len = max_model_len;
  o.limits.max_num_queued_reqs = options_.queue_max;
  o.limits.vocabulary_size = toy_.vocabulary_size;
  o.limits.use_job_ticket = options_.use_job_ticket;
  o.limits.enable_prefix_caching = options_.prefix_caching;
  o.limits.async_scheduling = options_.run_ahead;
  o.limits.num_speculative_tokens = options_.drafts;
  o.limits.lookup.ngram_min = 1;
  o.limits.scheduling_policy = options_.by_priority ? schedule::scheduling_policy::priority
                                                    : schedule::scheduling_policy::fcfs;
  o.limits.resume_window =
      std::chrono::seconds(20); // clients that left meanwhile are forgotten then
  o.limits.first_ticket = ticket_id{links.self().incarnation.value};
  o.plan = noted_.now;
  if (options_.on_demand) {
    o.card.loads_on_demand = true;
    o.limits.load_timeout = std::chrono::seconds(120);
    if (noted_.now.serving.stages == 0 && !noted_.now.coming)
      stands_ = phase::ready; // as its process reports
  }
  if (options_.supervised)
    o.serves = [&links](std::uint32_t generation) {
      links.send(root_process, actors::well_known::supervisor, message(serves{generation}));
    };
  o.first_epoch = epoch_id{links.self().incarnation.value};
  detokenizer_ =
      keep(l, system_->spawn(actors::detokenizer, actors::detokenizer_config{peers, words_}));
  o.detokenizer = *detokenizer_;
  o.peers = peers;
  o.card.name = "toy";
  o.card.max_model_len = max_model_len;
  o.report = [this, &links](const load_report& report) {
    load_ = report;
    if (options_.on_demand)
      links.send(root_process, actors::well_known::supervisor, message(report));
  };
  o.report_status = [this](phase p, const std::string&) { stands_ = p; };
  o.now = [this] { return network_.now(); };
  auto scheduler = keep(l, system_->spawn(actors::scheduler, o));
  scheduler_ = scheduler;
  auto tokenizer = keep(
      l, system_->spawn(actors::tokenizer, actors::tokenizer_config{scheduler, peers, words_,
                                                                    std::nullopt, max_model_len}));
  cluster::deliver_to(links, actors::well_known::scheduler, scheduler);
  cluster::deliver_to(links, actors::well_known::tokenizer, tokenizer);
  forward_peer_events(l, scheduler);
  l.tick = [scheduler] { caf::anon_send(scheduler, actors::tick{}); };
}

void world::start_gateway() {
  auto& l = begin(gateway_process, role::gateway, "gateway");
  gateway::gateway_config c;
  c.self = gateway_process;
  c.incarnation = l.links->self().incarnation;
  c.pipelines = {{head_process, "toy"}};
  gateway_state_ = std::make_shared<gateway::gateway_state>(c);
  gateway::pipeline_client_config d;
  d.scheduler = cluster::make_proxy<actors::scheduler_actor>(*system_, *l.links, head_process,
                                                             actors::well_known::scheduler);
  d.tokenizer = cluster::make_proxy<actors::tokenizer_actor>(*system_, *l.links, head_process,
                                                             actors::well_known::tokenizer);
  d.state = gateway_state_;
  d.next_key = [this] { return draw(UINT64_MAX) + 1; };
  pipeline_client_ = keep(l, gateway::spawn_pipeline_client(*system_, d));
  cluster::deliver_to(*l.links, actors::well_known::gateway,
                      actors::gateway_actor(*pipeline_client_));
  forward_peer_events(l, *pipeline_client_);
  l.tick = [pipeline_client = *pipeline_client_] {
    caf::anon_send(pipeline_client, actors::tick{});
  };
  (void)l.links->connect(head_process, name_of_process(head_process));
}

void world::start_shard(process_id process) {
  const auto shard = shard_of(process);
  const auto& [first_layers, width] = layouts_.at(generation_of(process));
  const auto stages = static_cast<stage_index>(first_layers.size());
  const sim_group::place where{shard / width, shard % width, width};
  auto& l = begin(process, role::shard, name_of_process(process));
  auto& links = *l.links;
  const engine::toy_memory memory{.blocks = options_.blocks,
                                  .block_positions = block_positions,
                                  .rows_max = rows_max,
                                  .max_model_len = max_model_len,
                                  .swap_blocks = options_.swap_blocks,
                                  .pools = options_.pools,
                                  .state_slots = options_.state_slots};
  actors::stage_config c;
  c.stage = where.stage;
  c.stages = stages;
  c.rank = where.rank;
  c.width = width;
  c.head = head_process;
  c.scheduler = cluster::make_proxy<actors::scheduler_actor>(*system_, links, head_process,
                                                             actors::well_known::scheduler);
  c.peers.stage = cluster::proxies<actors::stage_actor>(*system_, links, actors::well_known::stage);
  c.connect = [&links](const stage_address& other) {
    (void)links.connect(other.process, other.endpoint, other.incarnation);
  };
  // Two of three incarnations find the memory of a killed predecessor; otherwise it is lost.
  auto& kept = kept_[process];
  const auto first = first_layers[where.stage];
  const auto end = where.stage + 1 < stages ? first_layers[where.stage + 1] : toy_.layers;
  if (!kept.engine || kept.is_distrusted || draw(3) == 0)
    kept = {
        std::make_shared<engine::toy_engine>(toy_, first, memory, end - first, masker_of(*words_)),
        draw(UINT64_MAX) + 1, false};
  kept.engine->forget_swapped(); // no incarnation finds that
  c.take_over = [this, own = kept.engine](const kv_handover& takes) {
    std::vector<std::shared_ptr<engine::toy_engine>> from;
    for (const auto& [other, m] : kept_)
      if (std::find(takes.kv_incarnations.begin(), takes.kv_incarnations.end(), m.kv_incarnation) !=
          takes.kv_incarnations.end())
        from.push_back(m.engine);
    auto ok = own->take_over(from, takes.blocks, takes.states);
    takes_failed_ += ok ? 0 : 1;
    return ok;
  };
  const auto leader = process_id{process.value - where.rank};
  const auto group = width > 1 ? join_group(leader, where) : nullptr;
  c.group = group;
  c.engine = std::make_shared<sim_engine>(
      kept.engine,
      [this, process](const micro_batch& batch) { return before_step(process, batch); }, group,
      options_.engines_begin);
  c.announcement = {process,
                    links.self().incarnation,
                    where.stage,
                    stages,
                    memory.blocks,
                    block_positions,
                    toy_.seed,
                    "toy",
                    kept.kv_incarnation,
                    options_.swap_blocks,
                    where.rank,
                    width,
                    generation_of(process),
                    kept.engine->limits().pools,
                    kept.engine->limits().state_slots};
  c.now_micros = [this] {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(network_.now().time_since_epoch())
            .count());
  };
  promises_.on_new_shard();
  auto actor = keep(l, system_->spawn(actors::stage, c));
  cluster::deliver_to(links, actors::well_known::stage, actor);
  forward_peer_events(l, actor);
  (void)links.connect(head_process, name_of_process(head_process));
}

std::shared_ptr<sim_group> world::join_group(process_id leader, const sim_group::place& where) {
  auto& shared = groups_[leader];
  if (!shared)
    shared = std::make_shared<stage_group>();
  return std::make_shared<sim_group>(*this, promises_, shared, where,
                                     [this, leader](std::uint32_t rank) {
                                       const process_id process{leader.value + rank};
                                       return !is_alive(process) || doomed_.contains(process);
                                     });
}

result<void> world::before_step(process_id shard, const micro_batch& batch) {
  promises_.before_step(shard, batch);
  switch (on_step ? on_step(shard_of(shard), batch) : step_fault::none) {
  case step_fault::none:
    return {};
  case step_fault::error:
    return fail(errc::internal, "the engine failed");
  case step_fault::group:
    return fail(errc::link_down, "the communicator is refused");
  case step_fault::no_memory:
    kept_[shard].is_distrusted |= options_.width > 1; // then the process ends
    throw std::bad_alloc();
  case step_fault::exception:
    kept_[shard].is_distrusted = true;
    throw std::runtime_error("the engine throws");
  case step_fault::death:
    kept_[shard].is_distrusted = true;
    [[fallthrough]];
  case step_fault::kill:
    network_.crash(shard); // this step is never reported
    doomed_.insert(shard);
    return fail(errc::internal, "the process dies");
  }
  return {};
}

} // namespace baton::sim
