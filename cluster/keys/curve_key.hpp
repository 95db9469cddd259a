// Keys of the bus between machines: identity of listeners, and access. A machine has one pair
// (`cluster keygen`). A network endpoint contains the public key of its listener:
// tcp://10.0.0.1:8010#KEY. CurveZMQ (rfc.zeromq.org/spec/26); keys as 64 hex digits, so they need
// no quotes in a shell.
#pragma once

#include "cluster/keys/machine_keys.hpp"
#include "schema/result.hpp"

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

namespace baton::cluster {

inline constexpr std::size_t curve_key_bytes = 32;

struct key_pair {
  std::string public_key;
  std::string secret_key;
};

bool is_curve_key(std::string_view text) noexcept;

// $XDG_CONFIG_HOME/baton/key, else ~/.config/baton/key.
std::filesystem::path default_key_file();
// Errors: not_found, io_failed (also if others may read it), bad_config.
result<key_pair> read_key_file(const std::filesystem::path& file);
// Creates the file with mode 0600; never overwrites one. Errors: conflict, io_failed.
result<void> write_key_file(const std::filesystem::path& file, const key_pair& pair);

// 128 random bits, as hex.
std::string random_token();
// Constant-time comparison.
bool is_same_secret(std::string_view a, std::string_view b) noexcept;

// The 32 bytes of 64 hex digits, and back.
std::string key_bytes(std::string_view hex);
std::string key_text(std::string_view bytes);

// "tcp://HOST:PORT#KEY" split into address and key; the key may be empty.
struct keyed_endpoint {
  std::string address;
  std::string key;
};
keyed_endpoint split_key(const std::string& endpoint);

// The keys of accepted connections and of the peers we connect to. Thread-safe.
class trusted_keys {
public:
  using source = std::function<machine_keys()>;
  // `read`: reloads the stored keys; may be null.
  explicit trusted_keys(machine_keys keys = {}, source read = nullptr);
  // Reloads the stored keys if the key is unknown, since it may just have been added.
  bool holds(const std::string& public_key) const;
  // Whether it is or was a key of the cluster's machines. Cheap: called for every message.
  bool knows(const std::string& public_key) const;
  // As machine_keys, after reloading the stored keys.
  std::string next_after(const std::string& public_key) const;
  // Applies to the next handshake. Open connections with a retired key continue; messages of
  // machines removed from the cluster are dropped.
  void replace(machine_keys keys);

private:
  void take(machine_keys keys) const;

  mutable std::mutex mutex_;
  mutable machine_keys keys_;
  mutable std::unordered_set<std::string> known_;
  const source read_;
};

} // namespace baton::cluster
