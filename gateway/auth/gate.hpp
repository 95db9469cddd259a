// The one gate: who is it that asks, by the key, and may it ask for one more? In front of all doors
// and all routes. Any thread; the keys may be exchanged while requests are open.
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

// What a name has used since the gateway came up.
struct key_usage {
  std::string name;
  std::uint64_t requests = 0;
  std::uint64_t tokens = 0;
  std::map<std::string_view, std::uint64_t> refused; // by quota
};

// What the requests of one name use, under all its keys.
class key_account {
public:
  using instant = quota_meter::instant;
  key_account(std::string name, const key_quotas& quotas, instant now)
      : used_{std::move(name), 0, 0, {}}, meter_(quotas, now) {}
  const std::string& name() const noexcept { return used_.name; } // never changes
  key_usage used() const;

  // As quota_meter, from any thread.
  std::optional<quota_refusal> begin(instant now);
  void begin_again();
  void end();
  void spend(std::uint64_t tokens, instant now);
  void change(const key_quotas& quotas, instant now);

private:
  mutable std::mutex mutex_;
  key_usage used_;
  quota_meter meter_;
};

// One open request's place in its key's quotas, given back when it is dropped.
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

// Who asks, and in which trace. Without keys everybody is nobody, and may do everything.
struct caller {
  std::shared_ptr<key_account> account; // none: nobody
  key_digest digest{};                  // of the key that was shown
  key_role role = key_role::admin;
  std::optional<trace_parent> trace{}; // as its request says, if traces are exported

  std::string_view name() const noexcept { return account ? account->name() : std::string_view(); }
};

class gate {
public:
  using instant = quota_meter::instant;
  // No ring: nobody needs a key. An empty one: nobody comes in.
  gate(std::optional<key_ring> ring, instant now);

  bool needs_key() const noexcept { return needs_key_; }
  // Errors: unauthorized (no key, or an unknown one).
  result<caller> identify(std::string_view key) const;
  // The same caller as it stands now. Errors: unauthorized, if the key was taken away meanwhile.
  result<caller> renew(const caller& who) const;
  // Other keys from now on; who keeps its name, or has it again, keeps what it has used, so that
  // counters do not fall. Requires: needs_key().
  void replace(key_ring ring, instant now);
  // Of all names of the ring.
  std::vector<key_usage> usage() const;

private:
  struct state {
    key_ring ring;
    std::vector<std::shared_ptr<key_account>> accounts; // by index in the ring
    std::vector<std::shared_ptr<key_account>> left{};   // of names that it had before
  };
  std::shared_ptr<const state> look() const;
  result<caller> find(const key_digest& digest) const;

  const bool needs_key_;
  mutable std::mutex mutex_;
  std::shared_ptr<const state> now_;
};

} // namespace baton::gateway
