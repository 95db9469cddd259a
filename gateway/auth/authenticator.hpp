// Authentication and quotas: who sends a request, by its API key, and whether it may open one more.
// All servers and routes use it. Any thread; keys may be exchanged while requests are open.
#pragma once

#include "gateway/auth/key_ring.hpp"
#include "gateway/auth/quota.hpp"
#include "gateway/tracing/trace_context.hpp"
#include "schema/result.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace baton::gateway {

// The usage of a name since the gateway started.
struct key_usage {
  std::string name;
  std::uint64_t requests = 0;
  std::uint64_t tokens = 0;
  std::map<std::string_view, std::uint64_t> refused; // by quota
};

// The usage of one name, over all its keys.
class key_account {
public:
  using instant = quota_meter::instant;
  key_account(std::string name, const key_quotas& quotas, instant now)
      : used_{std::move(name), 0, 0, {}}, meter_(quotas, now) {}
  const std::string& name() const noexcept { return used_.name; } // never changes
  key_usage used() const;

  // As quota_meter, from any thread.
  std::optional<quota_refusal> begin(instant now);
  void begin_resumed();
  void end();
  void record_usage(std::uint64_t tokens, instant now);
  void change(const key_quotas& quotas, instant now);

private:
  mutable std::mutex mutex_;
  key_usage used_;
  quota_meter meter_;
};

// One open request in its key's quotas; returned when it is dropped.
class quota_lease {
public:
  explicit quota_lease(std::shared_ptr<key_account> account) : account_(std::move(account)) {}
  ~quota_lease() { account_->end(); }
  quota_lease(const quota_lease&) = delete;
  quota_lease& operator=(const quota_lease&) = delete;
  key_account& account() const noexcept { return *account_; }

private:
  std::shared_ptr<key_account> account_;
};

// The sender of a request, and its trace. Without keys all are anonymous and may do everything.
struct principal {
  std::shared_ptr<key_account> account; // null: anonymous
  key_digest digest{};                  // of the key in the request
  key_role role = key_role::admin;
  std::optional<trace_parent> trace{}; // from the request, if traces are exported

  std::string_view name() const noexcept { return account ? account->name() : std::string_view(); }
};

class authenticator {
public:
  using instant = quota_meter::instant;
  // No ring: no key is needed. An empty one: no key is valid.
  authenticator(std::optional<key_ring> ring, instant now);

  bool needs_key() const noexcept { return needs_key_; }
  // Errors: unauthorized (no key, or an unknown one).
  result<principal> identify(std::string_view key) const;
  // The same principal with its current rights. Errors: unauthorized, if the key was revoked.
  result<principal> renew(const principal& who) const;
  // Replaces all keys. A name that stays or returns keeps its usage, so that counters do not fall.
  // Requires: needs_key().
  void replace(key_ring ring, instant now);
  // For all names of the ring.
  std::vector<key_usage> usage() const;

private:
  struct state {
    key_ring ring;
    std::vector<std::shared_ptr<key_account>> accounts; // by index in the ring
    std::vector<std::shared_ptr<key_account>> left{};   // of former names
  };
  std::shared_ptr<const state> look() const;
  result<principal> find(const key_digest& digest) const;

  const bool needs_key_;
  mutable std::mutex mutex_;
  std::shared_ptr<const state> now_;
};

} // namespace baton::gateway
