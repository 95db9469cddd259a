#include "tests/sim/worker_world.hpp"

#include <algorithm>

namespace baton::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t worker_count = 3;
constexpr std::size_t small_buffer_bytes = 700; // two pieces unread, and it is cut

// The number of pieces in a handler's answer depends on the request alone.
std::uint32_t pieces_of(std::uint64_t request) {
  return 1 + static_cast<std::uint32_t>(request % 4);
}
std::string piece_of(std::uint64_t request, std::uint32_t index) {
  return fmt::format("{}/{}", request, index);
}

} // namespace

worker_world::worker_world(std::uint64_t seed, worker_faults faults)
    : random_(seed), faults_(faults) {
  options_.set("scheduler.policy", caf::atom("testing"));
  system_ = std::make_unique<caf::actor_system>(options_);
  time_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  facts_ = std::make_shared<gateway::gateway_state>(gateway::gateway_config{});
  limits_.batch_size = static_cast<std::uint32_t>(1 + draw(4));
  limits_.max_batch_delay = std::chrono::milliseconds(draw(50));
  limits_.max_queued = 1 + draw(12);
  limits_.response_timeout = 2s;
  limits_.absence_max = 5s;
  limits_.use_job_ticket = draw(5) == 0;
  draw_queue();
  gateway::worker_pool_config config;
  config.limits = limits_;
  config.facts = facts_;
  load_ = config.load;
  config.send = [this](incarnation to, message m) {
    if (auto* p = find(to))
      p->inbox.push_back(std::move(m));
  };
  config.report = [this](const status& s) { reports_.push_back(s); };
  for (std::uint32_t i = 0; i < worker_count; ++i)
    processes_.push_back({{process_id{100 + i}, {}}, false, false, false, {}, {}});
  pool_ = gateway::spawn_worker_pool(*system_, std::move(config));
}

worker_world::~worker_world() {
  caf::anon_send_exit(pool_, caf::exit_reason::kill);
  run();
  pool_ = nullptr;
  system_.reset();
}

std::uint64_t worker_world::draw(std::uint64_t below) {
  return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random_);
}

void worker_world::run() {
  time_->run();
}

// Parameters of Triton's dynamic batcher.
void worker_world::draw_queue() {
  for (std::uint32_t size = 1; size <= limits_.batch_size; ++size)
    if (draw(3) == 0)
      limits_.preferred_batch_sizes.push_back(size);
  limits_.preserve_ordering = draw(3) == 0;
  auto& policy = limits_.default_queue_policy;
  policy.timeout = std::chrono::milliseconds(draw(2) * draw(2000));
  policy.allow_timeout_override = draw(2) == 0;
  if (limits_.preserve_ordering)
    return;
  policy.is_delayed = draw(2) == 0;
  limits_.priority_levels = static_cast<std::uint32_t>(draw(4));
  limits_.default_priority_level = std::min(limits_.priority_levels, 1u);
}

// The queue parameters of a client; sometimes a priority that does not exist.
std::string worker_world::drawn_parameters() {
  const auto priority = draw(limits_.priority_levels + 2);
  const auto timeout_us = draw(3) == 0 ? draw(1'000'000) : 0;
  return fmt::format(R"({{"priority":{},"timeout":{}}})", priority, timeout_us);
}

template <class M>
void worker_world::deliver(M m) {
  caf::anon_send(pool_, std::move(m));
  run();
  if (limits_.preserve_ordering)
    look_at_order();
}

void worker_world::note(std::string what) {
  if (!broken_)
    broken_ = std::move(what);
}

worker_world::process* worker_world::find(incarnation who) {
  const auto p = std::find_if(processes_.begin(), processes_.end(),
                              [&](const process& one) { return one.is_alive && one.who == who; });
  return p == processes_.end() ? nullptr : &*p;
}

void worker_world::live(int steps) {
  for (int i = 0; i < steps; ++i)
    step();
}

void worker_world::step() {
  auto& p = processes_[draw(worker_count)];
  switch (draw(10)) {
  case 0:
  case 1:
    return ask();
  case 2:
    return leave();
  case 3:
    return strike();
  case 4:
    return obey_root();
  case 5:
    for (auto& worker : processes_) // no healthy worker is idle for longer than this
      act(worker);
    return pass(std::chrono::milliseconds(draw(300)));
  case 6:
    if (!p.is_alive)
      start(p);
    return;
  case 7:
    return read_all();
  default:
    return act(p);
  }
}

void worker_world::ask() {
  if (!facts_->enter())
    return;
  client c;
  c.reads = draw(8) != 0;
  c.out = std::make_shared<gateway::stream>(facts_->next_number(),
                                            c.reads ? 1 << 20 : small_buffer_bytes, nullptr);
  gateway::open_infer m;
  m.out = c.out;
  if (draw(6) == 0)
    m.request.deadline = std::chrono::milliseconds(1 + draw(3000));
  m.request.parameters = drawn_parameters();
  clients_.push_back(c);
  deliver(std::move(m));
}

void worker_world::leave() {
  if (clients_.empty())
    return;
  auto& c = clients_[draw(clients_.size())];
  if (c.has_left || c.ends > 0)
    return;
  c.has_left = true;
  c.out->detach();
  deliver(gateway::close_request{c.out->number()});
}

void worker_world::strike() {
  auto& p = processes_[draw(worker_count)];
  if (!p.is_alive || draw(3) != 0)
    return;
  if (faults_.kills && draw(2) == 0)
    end(p);
  else if (faults_.hangs && draw(2) == 0)
    p.hangs = true;
  else if (faults_.raves && draw(4) == 0)
    p.is_mad = true;
}

void worker_world::start(process& p) {
  p = {{p.who.process, {++epochs_}}, true, false, false, {}, {}};
  deliver(gateway::worker_greeted{p.who});
}

// The gateway detects it by the pidfd.
void worker_world::end(process& p) {
  p.is_alive = false;
  deliver(gateway::worker_lost{p.who, "its process has ended", /*has_ended=*/true});
}

void worker_world::act(process& p) {
  if (!p.is_alive || p.hangs)
    return;
  if (p.inbox.empty())
    return work(p);
  auto m = std::move(p.inbox.front());
  p.inbox.pop_front();
  if (const auto* batch = std::get_if<infer_batch>(&m)) {
    if (!p.jobs.empty())
      note("a worker has two batches at once");
    if (batch->items.empty() || batch->items.size() > limits_.batch_size)
      note(fmt::format("a batch of {}", batch->items.size()));
    for (const auto& item : batch->items)
      p.jobs.push_back({item.request});
    if (std::any_of(p.jobs.begin(), p.jobs.end(),
                    [](const job& j) { return is_poison(j.request); }))
      end(p);
  } else if (const auto* gone = std::get_if<cancel_infer>(&m)) {
    for (auto& j : p.jobs)
      j.is_cancelled = j.is_cancelled || j.request == gone->request;
  }
}

void worker_world::work(process& p) {
  if (p.jobs.empty())
    return;
  auto& j = p.jobs[draw(p.jobs.size())];
  inferred piece;
  piece.request = j.request;
  piece.index = p.is_mad ? j.next + 1 : j.next;
  piece.body = piece_of(j.request, j.next);
  piece.is_last = ++j.next == pieces_of(j.request) || j.is_cancelled;
  if (piece.is_last)
    std::erase_if(p.jobs, [&](const job& one) { return one.request == piece.request; });
  deliver(gateway::worker_replied{p.who, std::move(piece)});
}

// The root ends processes that the gateway reports as failed; the next incarnation starts later.
void worker_world::obey_root() {
  if (reports_.empty())
    return;
  const auto s = reports_.front();
  reports_.pop_front();
  auto* p = s.phase == phase::failed ? find({s.process, s.incarnation}) : nullptr;
  if (p == nullptr)
    return;
  if (!p->hangs && !p->is_mad)
    note(fmt::format("a worker that is well was to be ended: {}", s.reason));
  end(*p);
}

void worker_world::read(client& c) {
  while (auto e = c.has_left ? std::nullopt : c.out->next()) {
    if (c.ends > 0)
      note("a stream goes on behind its end");
    if (const auto* p = std::get_if<inferred>(&*e)) {
      if (p->body != piece_of(c.out->number(), c.next++))
        note(fmt::format("a piece '{}' came in place of {}", p->body, c.next - 1));
      c.ends += p->is_last ? 1 : 0;
      if (p->is_last && c.next != pieces_of(c.out->number()))
        note("an answer ends before it is whole");
      continue;
    }
    ++c.ends;
    const auto* no = std::get_if<rejected>(&*e);
    c.failure = no ? no->reason.code : std::get<gateway::failed>(*e).reason.code;
  }
}

// With preserved order, no client gets a piece while the answer to an earlier request is open.
void worker_world::look_at_order() {
  bool is_one_open = false;
  for (auto& c : clients_) {
    if (!c.reads || c.has_left)
      continue;
    const auto before = c.next;
    read(c);
    if (is_one_open && c.next > before)
      note(fmt::format("the answer to request {} overtakes another", c.out->number()));
    is_one_open = is_one_open || c.ends == 0;
  }
}

void worker_world::read_all() {
  for (auto& c : clients_)
    if (c.reads)
      read(c);
}

void worker_world::pass(std::chrono::milliseconds time) {
  time_->advance_time(time);
  run();
  deliver(actors::tick{});
}

void worker_world::settle() {
  for (int round = 0; round < 4000 && (load_->waiting + load_->running) > 0; ++round) {
    for (auto& p : processes_) {
      if (!p.is_alive && draw(4) == 0)
        start(p);
      act(p);
    }
    obey_root();
    pass(20ms);
  }
  for (auto& c : clients_)
    read(c);
}

std::optional<std::string> worker_world::broken() const {
  if (broken_)
    return broken_;
  if (load_->waiting + load_->running > 0)
    return "requests are open for ever";
  if (facts_->requests_open() != 0)
    return fmt::format("{} requests are counted as open", facts_->requests_open());
  for (const auto& c : clients_) {
    const auto request = c.out->number();
    if (!c.has_left && c.ends != 1)
      return fmt::format("request {} has {} ends", request, c.ends);
    if (c.failure == errc::quarantined && !is_poison(request) && !faults_.kills)
      return fmt::format("request {} is quarantined for what another did", request);
    if (is_poison(request) && !c.has_left && !c.failure)
      return fmt::format("request {} was answered", request);
  }
  return std::nullopt;
}

} // namespace baton::sim
