#include "tests/support/sim_bus.hpp"

#include <algorithm>
#include <cstring>

namespace baton::testing {
namespace {

using namespace std::chrono_literals;
using cluster::sent;

constexpr std::chrono::milliseconds handshake_time = 1ms;
constexpr std::chrono::milliseconds reconnect_time = 1ms;
constexpr std::chrono::milliseconds retry_time = 50ms; // no listener, or the path is cut
// A silently cut connection falls when the transport's heartbeats are missed.
constexpr std::chrono::milliseconds transport_timeout = 4000ms;

payload copy(const payload& p) {
  if (p.size_bytes == 0)
    return {};
  constexpr std::size_t alignment = 64;
  auto bytes = std::make_shared<std::vector<std::byte>>(p.size_bytes + alignment);
  auto at = reinterpret_cast<std::uintptr_t>(bytes->data());
  auto* start = bytes->data() + (alignment - at % alignment) % alignment;
  std::memcpy(start, p.data, p.size_bytes);
  return {bytes, start, p.size_bytes};
}

// The root offset points beyond the buffer: no verifier takes it.
payload spoil(const payload& p) {
  auto spoiled = copy(p);
  std::memset(const_cast<std::byte*>(spoiled.data), 0xff, std::min<std::size_t>(4, p.size_bytes));
  return spoiled;
}

} // namespace

struct sim_network::process {
  process_id id;
  bool is_alive = true;
  bool is_started = false;
  cluster::bus_events events;
  std::vector<std::string> endpoints;
  std::map<process_id, std::shared_ptr<connection>> out;
};

struct sim_network::connection {
  std::weak_ptr<process> owner;
  process_id from;
  process_id to;
  std::string endpoint;
  std::shared_ptr<lane> facts;    // connected and disconnected events for the owner
  std::shared_ptr<lane> messages; // since the last connect; older ones may still be in flight
  std::weak_ptr<process> target;
  bool is_open = false;
  bool is_reported = false; // the owner has received connected
  bool is_cut = false;      // silently: sent messages vanish
  bool is_closed = false;
};

class sim_bus final : public cluster::bus {
public:
  sim_bus(sim_network& network, std::shared_ptr<sim_network::process> self)
      : network_(network), self_(std::move(self)) {}
  ~sim_bus() override { network_.end(self_); }

  result<std::string> bind(const std::string& endpoint) override {
    auto name = endpoint.empty()
                    ? fmt::format("sim://{}/{}", self_->id.value, ++network_.endpoints_made_)
                    : endpoint;
    auto& at = network_.bound_[name];
    if (auto other = at.lock(); other && other->is_alive)
      return fail(errc::address_in_use, "'{}' is bound", name);
    at = self_;
    self_->endpoints.push_back(name);
    return name;
  }

  result<void> connect(process_id peer, const std::string& endpoint) override {
    disconnect(peer);
    if (!self_->is_alive)
      return fail(errc::link_down, "the process has ended");
    auto c = std::make_shared<sim_network::connection>();
    c->owner = self_;
    c->from = self_->id;
    c->to = peer;
    c->endpoint = endpoint;
    c->facts = network_.make_lane(self_->id);
    self_->out[peer] = c;
    network_.open_later(c, handshake_time);
    return {};
  }

  void disconnect(process_id peer) override {
    auto it = self_->out.find(peer);
    if (it == self_->out.end())
      return;
    it->second->is_closed = true;
    it->second->is_open = false;
    it->second->facts->events.clear();
    self_->out.erase(it);
  }

  sent send(process_id peer, const frames& f) override {
    auto it = self_->out.find(peer);
    if (it == self_->out.end())
      return sent::unknown_peer;
    return network_.send(it->second, f);
  }

  void start(cluster::bus_events events) override {
    self_->events = std::move(events);
    self_->is_started = true;
  }
  void stop() override { network_.end(self_); }

private:
  sim_network& network_;
  std::shared_ptr<sim_network::process> self_;
};

sim_network::sim_network(std::uint64_t seed) : random_(seed) {}
sim_network::~sim_network() {
  for (auto& l : lanes_)
    l->events.clear();
}

std::unique_ptr<cluster::bus> sim_network::make_bus(process_id id) {
  auto p = std::make_shared<process>();
  p->id = id;
  processes_.push_back(p);
  return std::make_unique<sim_bus>(*this, p);
}

std::uint64_t sim_network::draw(std::uint64_t below) {
  return random_() % below;
}

// FNV-1a, a word at a time.
void sim_network::note(std::uint64_t what) {
  trace_ = (trace_ ^ what) * 0x100000001B3ull;
}

bool sim_network::strikes(double chance) {
  constexpr std::uint64_t scale = 1u << 24;
  return chance > 0 && static_cast<double>(draw(scale)) < chance * static_cast<double>(scale);
}

// -- Lanes --

std::shared_ptr<sim_network::lane> sim_network::make_lane(process_id target) {
  auto l = std::make_shared<lane>();
  l->number = ++lanes_made_;
  l->target = target;
  std::erase_if(lanes_, [](const auto& x) { return x.use_count() == 1 && x->events.empty(); });
  lanes_.push_back(l);
  return l;
}

void sim_network::put(lane& l, std::chrono::milliseconds after, std::function<void()> happen) {
  auto due = now_ + after;
  if (!l.events.empty())
    due = std::max(due, l.events.back().due);
  l.events.push_back({due, std::move(happen)});
}

std::vector<sim_network::lane*> sim_network::due_lanes() {
  std::vector<lane*> due;
  for (const auto& l : lanes_)
    if (!l->events.empty() && l->events.front().due <= now_ && !frozen_.contains(l->target))
      due.push_back(l.get());
  return due;
}

bool sim_network::step() {
  auto due = due_lanes();
  if (due.empty())
    return false;
  auto* chosen = due[draw(due.size())];
  note(chosen->number);
  auto happen = std::move(chosen->events.front().happen);
  chosen->events.pop_front();
  happen();
  return true;
}

std::optional<cluster::instant> sim_network::next_due() const {
  std::optional<cluster::instant> next;
  for (const auto& l : lanes_)
    if (!l->events.empty() && !frozen_.contains(l->target))
      next = std::min(next.value_or(l->events.front().due), l->events.front().due);
  return next;
}

void sim_network::advance(std::chrono::milliseconds by) {
  now_ += by;
}

void sim_network::run_for(std::chrono::milliseconds by) {
  const auto end = now_ + by;
  for (;;) {
    while (step()) {
    }
    auto next = next_due();
    if (!next || *next > end)
      break;
    now_ = std::max(now_, *next);
  }
  now_ = end;
}

// -- Connections --

void sim_network::open_later(const std::shared_ptr<connection>& c,
                             std::chrono::milliseconds after) {
  put(*c->facts, after, [this, c] { try_to_open(c); });
}

void sim_network::try_to_open(const std::shared_ptr<connection>& c) {
  auto owner = c->owner.lock();
  if (!owner || !owner->is_alive || c->is_closed)
    return;
  auto at = bound_.find(c->endpoint);
  auto target = at == bound_.end() ? nullptr : at->second.lock();
  if (!target || !target->is_alive || !owner->is_started || is_cut(c->from, target->id) ||
      is_cut(target->id, c->from)) {
    open_later(c, retry_time);
    return;
  }
  c->target = target;
  c->messages = make_lane(target->id);
  c->is_open = c->is_reported = true;
  c->is_cut = false;
  owner->events.connected(c->to);
}

void sim_network::fall(const std::shared_ptr<connection>& c,
                       std::chrono::milliseconds noticed_after) {
  if (!c->is_open)
    return;
  ++counts_.disconnects;
  c->is_open = false;
  // Messages that the receiver's side has accepted still arrive, the rest is lost.
  auto& events = c->messages->events;
  const auto kept = draw(events.size() + 1);
  counts_.lost += events.size() - kept;
  events.resize(kept);
  put(*c->facts, noticed_after, [this, c] {
    auto owner = c->owner.lock();
    if (!owner || !owner->is_alive || c->is_closed)
      return;
    c->is_reported = false;
    open_later(c, reconnect_time);
    owner->events.disconnected(c->to, "the connection was lost");
  });
}

sent sim_network::send(const std::shared_ptr<connection>& c, const frames& f) {
  auto owner = c->owner.lock();
  if (!owner || !owner->is_alive)
    return sent::down;
  if (!c->is_open) // as with ZeroMQ, it is unknown whether it is full until the owner has received
                   // connected
    return c->is_reported ? sent::back_pressure : sent::down;
  if (c->messages->events.size() >= messages_queued_max)
    return sent::back_pressure;
  const auto fault = on_send ? on_send(c->from, c->to) : sim_fault::none;
  note(std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(f.body.data), f.body.size_bytes}));
  if (c->is_cut || fault == sim_fault::lose || strikes(faults.loss)) {
    ++counts_.lost;
    return sent::ok;
  }
  auto copied = std::make_shared<frames>(frames{copy(f.head), copy(f.body), copy(f.bulk)});
  if (fault == sim_fault::corrupt || strikes(faults.corrupt)) {
    ++counts_.corrupted;
    auto& part = draw(2) == 0 ? copied->head : copied->body;
    part = spoil(part);
  }
  const bool is_twice = fault == sim_fault::duplicate || strikes(faults.duplicate);
  counts_.duplicated += is_twice ? 1 : 0;
  for (int i = 0; i < (is_twice ? 2 : 1); ++i) {
    const auto delay =
        std::chrono::milliseconds(draw(static_cast<std::uint64_t>(faults.delay_max.count()) + 1));
    put(*c->messages, delay, [this, target = c->target, copied] {
      auto to = target.lock();
      if (!to || !to->is_alive || !to->is_started)
        return;
      ++counts_.delivered;
      to->events.received(frames(*copied));
    });
  }
  auto& line = c->messages->events;
  if (line.size() >= 2 && strikes(faults.reorder)) {
    ++counts_.reordered;
    std::swap(line[line.size() - 1].happen, line[line.size() - 2].happen);
  }
  if (fault == sim_fault::disconnect || strikes(faults.disconnect))
    fall(c, handshake_time);
  return sent::ok;
}

// -- Faults of nodes --

void sim_network::partition(process_id from, process_id to) {
  cuts_.insert({from, to});
  for (const auto& w : processes_)
    if (auto p = w.lock(); p && p->id == from)
      if (auto it = p->out.find(to); it != p->out.end() && it->second->is_open) {
        auto c = it->second;
        c->is_cut = true;
        put(*c->facts, transport_timeout, [this, c, opening = std::weak_ptr(c->messages)] {
          if (c->messages == opening.lock())
            fall(c, 0ms);
        });
      }
}

void sim_network::heal(process_id from, process_id to) {
  cuts_.erase({from, to});
}

void sim_network::heal_all() {
  cuts_.clear();
}

void sim_network::disconnect(process_id from, process_id to) {
  for (const auto& w : processes_)
    if (auto p = w.lock(); p && p->id == from)
      if (auto it = p->out.find(to); it != p->out.end())
        fall(it->second, handshake_time);
}

void sim_network::crash(process_id id) {
  for (const auto& w : std::vector(processes_))
    if (auto p = w.lock(); p && p->id == id && p->is_alive)
      end(p);
}

void sim_network::end(const std::shared_ptr<process>& p) {
  if (!p->is_alive)
    return;
  p->is_alive = false;
  for (const auto& name : p->endpoints)
    bound_.erase(name);
  for (auto& [id, c] : p->out) {
    if (c->messages && c->is_open)
      c->messages->events.resize(draw(c->messages->events.size() + 1));
    c->is_closed = true;
    c->is_open = false;
    c->facts->events.clear();
  }
  p->out.clear();
  p->events = {};
  fall_to(p);
  std::erase_if(processes_, [&](const auto& w) { return w.expired() || w.lock() == p; });
}

void sim_network::fall_to(const std::shared_ptr<process>& p) {
  for (const auto& w : processes_)
    if (auto other = w.lock(); other && other != p)
      for (auto& [id, c] : other->out)
        if (c->is_open && c->target.lock() == p)
          fall(c, handshake_time);
}

void sim_network::freeze(process_id id) {
  frozen_.insert(id);
}

void sim_network::thaw(process_id id) {
  frozen_.erase(id);
}

} // namespace baton::testing
