// Whose keys are whose: by which the machines of a cluster know one another. Pure.
//
//   unknown --add--> trusted --retire_older, asked with a newer one--> retired
//
// A machine has one trusted key, and two while it changes to the other. A retired one is
// remembered: it is not trusted again, and who still knows its machine by it finds the next.
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
  // Trusted ones, as pairs of machine and key.
  machine_keys(std::initializer_list<std::pair<std::string, std::string>> trusted);

  // False: it is another machine's, it was retired, or the machine has as many trusted ones as
  // there may be. True as well if it was there.
  bool add(const std::string& machine, const std::string& key);
  // From now on only the newest is trusted.
  void retire_older(const std::string& machine);
  // Without machines that are not in `names`.
  void keep_only(const std::vector<std::string>& names);

  bool has(const std::string& machine) const { return all_.contains(machine); }
  bool trusts(std::string_view key) const;
  bool trusts(const std::string& machine, std::string_view key) const;
  // Of all machines, retired ones too.
  std::vector<std::string> all() const;
  // "" if there is none.
  std::string newest(const std::string& machine) const;
  // Whose key it is or was; null: nobody's.
  const std::string* owner(std::string_view key) const;
  // What the machine that had `key` may listen with instead: its next trusted key in turn. `key`
  // itself if there is no other.
  std::string next_after(const std::string& key) const;

  friend bool operator==(const machine_keys&, const machine_keys&) = default;

  // A line each, oldest first: "KEY MACHINE", "retired KEY MACHINE". What is no key is left out.
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
