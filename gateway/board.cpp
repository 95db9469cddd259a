#include "gateway/board.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

// Request numbers of two lives of a gateway must not meet at the head: the epoch is their upper
// half.
constexpr unsigned number_bits = 40;

} // namespace

std::string_view name_of(role r) noexcept {
  switch (r) {
  case role::root:
    return "root";
  case role::gateway:
    return "gateway";
  case role::head:
    return "head";
  case role::agent:
    return "agent";
  case role::shard:
    return "shard";
  case role::client:
    return "client";
  }
  return "unknown";
}

std::string_view name_of(phase p) noexcept {
  switch (p) {
  case phase::starting:
    return "starting";
  case phase::loading:
    return "loading";
  case phase::ready:
    return "ready";
  case phase::recovering:
    return "recovering";
  case phase::draining:
    return "draining";
  case phase::stopped:
    return "stopped";
  case phase::failed:
    return "failed";
  }
  return "unknown";
}

standing standing_of(const snapshot& s) {
  if (s.is_draining) {
    return {phase::draining, "the gateway is draining: no new requests"};
  }
  if (s.is_head_lost) {
    return {phase::recovering, "the head is down: " + s.head_lost_why};
  }
  if (s.cluster && s.cluster->phase == phase::failed) { // a supervisor gave up: nothing will serve
    return {phase::failed, s.cluster->reason};
  }
  const auto ready = std::any_of(s.cards.begin(), s.cards.end(),
                                 [](const model_card& c) { return c.phase == phase::ready; });
  if (ready) {
    return {phase::ready, {}};
  }
  if (!s.cards.empty()) {
    return {s.cards.front().phase, s.cards.front().reason};
  }
  if (s.cluster && s.cluster->phase != phase::ready) {
    return {s.cluster->phase, s.cluster->reason};
  }
  if (s.head && s.head->phase != phase::ready) {
    return {s.head->phase, s.head->reason};
  }
  return {phase::starting, "waiting for the head to say what it serves"};
}

result<model_card> find_model(const snapshot& s, const std::vector<std::string>& aliases,
                              std::string_view model) {
  if (s.is_draining) {
    return fail(errc::draining, "the server is draining: it takes no new requests");
  }
  if (s.cards.empty() || s.is_head_lost) {
    const auto stand = standing_of(s);
    return fail(errc::not_ready, "the server is {}: {}", name_of(stand.phase), stand.reason);
  }
  auto card = std::find_if(s.cards.begin(), s.cards.end(),
                           [&](const model_card& c) { return c.name == model; });
  if (card == s.cards.end()) {
    const bool is_alias = std::find(aliases.begin(), aliases.end(), model) != aliases.end();
    if (!model.empty() && !is_alias) {
      return fail_param(errc::model_not_found, "model",
                        "the model '{}' does not exist; this server has '{}'", model,
                        s.cards.front().name);
    }
    card = s.cards.begin();
  }
  const bool serves = card->phase == phase::ready || card->phase == phase::recovering;
  if (!serves) {
    return fail(errc::not_ready, "the model is {}: {}", name_of(card->phase), card->reason);
  }
  return *card;
}

namespace {

std::optional<key_ring> ring_of(const gateway_config& config) {
  return config.keys ? std::optional<key_ring>(*config.keys) : std::nullopt;
}

} // namespace

board::board(gateway_config config)
    : config_(std::move(config)), gate_(ring_of(config_), gate::instant::clock::now()),
      now_(std::make_shared<snapshot>()), last_number_(config_.epoch.value << number_bits) {}

std::shared_ptr<const snapshot> board::look() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void board::change(const std::function<void(snapshot&)>& edit) {
  auto next = std::make_shared<snapshot>(*look());
  edit(*next);
  const std::lock_guard lock(mutex_);
  now_ = std::move(next);
}

bool board::enter() noexcept {
  auto open = requests_open_.load();
  do {
    if (open >= config_.requests_max) {
      return false;
    }
  } while (!requests_open_.compare_exchange_weak(open, open + 1));
  return true;
}

void board::leave() noexcept {
  requests_open_.fetch_sub(1);
}

} // namespace baton::gateway
