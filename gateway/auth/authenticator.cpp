#include "gateway/auth/authenticator.hpp"

#include <set>

namespace baton::gateway {
namespace {

constexpr std::size_t former_names_max = 4096; // of removed keys

} // namespace

std::optional<quota_refusal> key_account::begin(instant now) {
  const std::lock_guard lock(mutex_);
  auto refusal = meter_.begin(now);
  if (refusal) {
    ++used_.refused[refusal->quota];
  } else {
    ++used_.requests;
  }
  return refusal;
}

key_usage key_account::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

void key_account::begin_resumed() {
  const std::lock_guard lock(mutex_);
  meter_.begin_resumed();
}

void key_account::end() {
  const std::lock_guard lock(mutex_);
  meter_.end();
}

void key_account::record_usage(std::uint64_t tokens, instant now) {
  const std::lock_guard lock(mutex_);
  used_.tokens += tokens;
  meter_.record_usage(tokens, now);
}

void key_account::change(const key_quotas& quotas, instant now) {
  const std::lock_guard lock(mutex_);
  meter_.change(quotas, now);
}

authenticator::authenticator(std::optional<key_ring> ring, instant now)
    : needs_key_(ring.has_value()),
      now_(std::make_shared<state>(state{key_ring(std::vector<api_key>{}), {}, {}})) {
  if (ring) {
    replace(*std::move(ring), now);
  }
}

std::shared_ptr<const authenticator::state> authenticator::look() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

result<principal> authenticator::find(const key_digest& digest) const {
  const auto now = look();
  const auto at = now->ring.find(digest);
  if (!at) {
    return fail(errc::unauthorized, "this API key is not known here");
  }
  return principal{now->accounts[*at], digest, now->ring.keys()[*at].role};
}

result<principal> authenticator::identify(std::string_view key) const {
  if (!needs_key_) {
    return principal{};
  }
  if (key.empty()) {
    return fail(errc::unauthorized, "this server needs an API key");
  }
  return find(digest_of_key(key));
}

result<principal> authenticator::renew(const principal& who) const {
  return who.account ? find(who.digest) : who;
}

void authenticator::replace(key_ring ring, instant now) {
  ENSURE(needs_key_, "keys for an authenticator that needs none");
  std::map<std::string_view, std::shared_ptr<key_account>> known;
  const auto before = look();
  for (const auto* accounts : {&before->accounts, &before->left}) {
    for (const auto& account : *accounts) {
      known.emplace(account->name(), account);
    }
  }
  auto next = std::make_shared<state>(state{std::move(ring), {}, {}});
  std::set<std::string_view> there;
  for (const auto& key : next->ring.keys()) {
    auto& account = known[key.name];
    if (account) {
      account->change(key.quotas, now);
    } else {
      account = std::make_shared<key_account>(key.name, key.quotas, now);
    }
    next->accounts.push_back(account);
    there.insert(key.name);
  }
  for (const auto& [name, account] : known) {
    if (!there.contains(name) && next->left.size() < former_names_max) {
      next->left.push_back(account);
    }
  }
  const std::lock_guard lock(mutex_);
  now_ = std::move(next);
}

std::vector<key_usage> authenticator::usage() const {
  std::vector<key_usage> all;
  for (const auto& account : look()->accounts) {
    all.push_back(account->used());
  }
  return all;
}

} // namespace baton::gateway
