// The keys by which the machines of a cluster identify one another. Pure.
//
//   unknown --add--> trusted --retire_older, with a newer one--> retired
//
// A machine has one trusted key, and two while it changes to the other. A retired key is
// never trusted again, but peers that know the machine by it can still find the next one.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::cluster {

inline constexpr std::size_t keys_of_machine_max = 8; // older retired ones are forgotten

class machine_keys {
public:
  machine_keys() = default;
  // Trusted keys, as pairs of machine and key.
  machine_keys(std::initializer_list<std::pair<std::string, std::string>> trusted);

  // False if the key belongs to another machine, is retired, or the machine has the maximum of
  // trusted keys. True if it was already present.
  bool add(const std::string& machine, const std::string& key);
  // Only the newest key stays trusted.
  void retire_older(const std::string& machine);
  // Removes machines that are not in `names`.
  void keep_only(const std::vector<std::string>& names);

  bool has(const std::string& machine) const { return all_.contains(machine); }
  bool trusts(std::string_view key) const;
  bool trusts(const std::string& machine, std::string_view key) const;
  // Keys of all machines, including retired ones.
  std::vector<std::string> all() const;
  // "" if there is none.
  std::string newest(const std::string& machine) const;
  // The machine that has or had this key; null: none.
  const std::string* owner(std::string_view key) const;
  // The key with which the machine that had `key` may listen instead: its next trusted key, in
  // rotation. `key` itself if there is no other.
  std::string next_after(const std::string& key) const;

  friend bool operator==(const machine_keys&, const machine_keys&) = default;

  // One line per key, oldest first: "KEY MACHINE", "retired KEY MACHINE". Invalid lines are
  // ignored.
  std::string text() const;
  static machine_keys from(const std::string& text);

private:
  struct one {
    std::string key;
    bool is_trusted = true;
    friend bool operator==(const one&, const one&) = default;
  };
  std::map<std::string, std::vector<one>> all_; // oldest first
};

} // namespace baton::cluster
