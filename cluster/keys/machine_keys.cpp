#include "cluster/keys/machine_keys.hpp"

#include "cluster/keys/curve_key.hpp"

#include <algorithm>
#include <sstream>

namespace baton::cluster {
namespace {

constexpr std::string_view retired_label = "retired ";

} // namespace

machine_keys::machine_keys(std::initializer_list<std::pair<std::string, std::string>> trusted) {
  for (const auto& [machine, key] : trusted)
    add(machine, key);
}

bool machine_keys::add(const std::string& machine, const std::string& key) {
  if (const auto* of = owner(key))
    return *of == machine && trusts(machine, key);
  auto& keys = all_[machine];
  if (keys.size() == keys_of_machine_max) {
    const auto retired =
        std::find_if(keys.begin(), keys.end(), [](const one& k) { return !k.is_trusted; });
    if (retired == keys.end())
      return false;
    keys.erase(retired);
  }
  keys.push_back({key});
  return true;
}

void machine_keys::retire_older(const std::string& machine) {
  if (const auto it = all_.find(machine); it != all_.end())
    for (std::size_t i = 0; i + 1 < it->second.size(); ++i)
      it->second[i].is_trusted = false;
}

void machine_keys::keep_only(const std::vector<std::string>& names) {
  std::erase_if(all_, [&](const auto& of) {
    return std::find(names.begin(), names.end(), of.first) == names.end();
  });
}

bool machine_keys::trusts(std::string_view key) const {
  const auto* machine = owner(key);
  return machine != nullptr && trusts(*machine, key);
}

bool machine_keys::trusts(const std::string& machine, std::string_view key) const {
  const auto it = all_.find(machine);
  return it != all_.end() && std::any_of(it->second.begin(), it->second.end(), [&](const one& k) {
           return k.is_trusted && k.key == key;
         });
}

std::vector<std::string> machine_keys::all() const {
  std::vector<std::string> keys;
  for (const auto& [machine, of] : all_)
    for (const auto& k : of)
      keys.push_back(k.key);
  return keys;
}

std::string machine_keys::newest(const std::string& machine) const {
  const auto it = all_.find(machine);
  return it == all_.end() ? "" : it->second.back().key;
}

const std::string* machine_keys::owner(std::string_view key) const {
  for (const auto& [machine, keys] : all_)
    if (std::any_of(keys.begin(), keys.end(), [&](const one& k) { return k.key == key; }))
      return &machine;
  return nullptr;
}

std::string machine_keys::next_after(const std::string& key) const {
  const auto* machine = owner(key);
  if (machine == nullptr)
    return key;
  const auto& keys = all_.at(*machine);
  const auto at = static_cast<std::size_t>(
      std::find_if(keys.begin(), keys.end(), [&](const one& k) { return k.key == key; }) -
      keys.begin());
  for (std::size_t step = 1; step < keys.size(); ++step)
    if (const auto& k = keys[(at + step) % keys.size()]; k.is_trusted)
      return k.key;
  return key;
}

std::string machine_keys::text() const {
  std::string text;
  for (const auto& [machine, keys] : all_)
    for (const auto& k : keys)
      text += fmt::format("{}{} {}\n", k.is_trusted ? "" : retired_label, k.key, machine);
  return text;
}

machine_keys machine_keys::from(const std::string& text) {
  machine_keys keys;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_retired = line.starts_with(retired_label);
    if (is_retired)
      line.erase(0, retired_label.size());
    const auto key = line.substr(0, line.find(' '));
    if (!is_curve_key(key) || line.size() == key.size())
      continue;
    const auto machine = line.substr(key.size() + 1);
    if (keys.add(machine, key))
      keys.all_.at(machine).back().is_trusted = !is_retired;
  }
  return keys;
}

} // namespace baton::cluster
