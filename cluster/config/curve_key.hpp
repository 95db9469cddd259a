// Keys of the bus beyond a machine: who listens, and who may come in. A machine has one pair
// (`cluster keygen`); an endpoint on a network says the public key of who listens there:
// tcp://10.0.0.1:8010#KEY. CurveZMQ (rfc.zeromq.org/spec/26); keys as 64 hex digits, so that they
// need no quotes in a shell.
#pragma once

#include "cluster/config/machine_keys.hpp"
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
// Mode 0600; never over a file that is there. Errors: conflict, io_failed.
result<void> write_key_file(const std::filesystem::path& file, const key_pair& pair);

// 128 bits that nobody guesses, as hex.
std::string random_token();
// In a time that does not depend on where they differ.
bool is_same_secret(std::string_view a, std::string_view b) noexcept;

// The 32 bytes behind 64 hex digits, and back.
std::string key_bytes(std::string_view hex);
std::string key_text(std::string_view bytes);

// "tcp://HOST:PORT#KEY" without and with its key; no key: none.
struct keyed_endpoint {
  std::string address;
  std::string key;
};
keyed_endpoint split_key(const std::string& endpoint);

// Whose connections are taken, and by which key whoever we connect to is known. Any thread.
class trusted_keys {
public:
  using source = std::function<machine_keys()>;
  // `read`: where they are noted; null: nowhere.
  explicit trusted_keys(machine_keys keys = {}, source read = nullptr);
  // What is not known is looked for where they are noted: it may have come there just now.
  bool holds(const std::string& public_key) const;
  // Whether it is or was a machine's of the cluster. Cheap: it is asked of every message.
  bool knows(const std::string& public_key) const;
  // As machine_keys, of what is noted now.
  std::string next_after(const std::string& public_key) const;
  // The next handshake is judged by these. Of connections that stand, those with a retired key go
  // on, and those of a machine that is the cluster's no more are not heard any more.
  void replace(machine_keys keys);

private:
  void take(machine_keys keys) const;

  mutable std::mutex mutex_;
  mutable machine_keys keys_;
  mutable std::unordered_set<std::string> known_;
  const source read_;
};

} // namespace baton::cluster
