#include "cluster/addresses.hpp"

#include <sstream>

namespace baton::cluster {
namespace {

constexpr std::string_view keys_name = "keys";

std::set<std::string> all_of(const machine_keys& keys) {
  std::set<std::string> all;
  for (const auto& [machine, some] : keys)
    all.insert(some.begin(), some.end());
  return all;
}

} // namespace

std::string text_of(const machine_keys& keys) {
  std::string text;
  for (const auto& [machine, some] : keys)
    for (const auto& key : some)
      text += fmt::format("{} {}\n", key, machine);
  return text;
}

machine_keys machine_keys_from(const std::string& text) {
  machine_keys keys;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto key = line.substr(0, line.find(' '));
    if (is_curve_key(key) && line.size() > key.size())
      keys[line.substr(key.size() + 1)].insert(key);
  }
  return keys;
}

result<void> note_keys(const run_dir& dir, const machine_keys& keys) {
  return dir.write(keys_name, text_of(keys));
}

machine_keys noted_keys(const run_dir& dir) {
  return machine_keys_from(dir.read(keys_name).value_or(""));
}

result<addresses> addresses::create(run_dir dir, std::optional<network_note> network) {
  if (!network)
    return addresses(std::move(dir), std::nullopt, {}, nullptr);
  auto own = read_key_file(network->key_file);
  if (!own)
    return own.error();
  auto trusted = std::make_shared<trusted_keys>(all_of(noted_keys(dir)),
                                                [dir] { return all_of(noted_keys(dir)); });
  return addresses(std::move(dir), std::move(network), {std::move(*own), trusted}, trusted);
}

addresses::addresses(run_dir dir, std::optional<network_note> network, curve_keys keys,
                     std::shared_ptr<trusted_keys> trusted)
    : dir_(std::move(dir)), network_(std::move(network)), keys_(std::move(keys)),
      trusted_(std::move(trusted)) {}

std::string addresses::listen(const stable_name& who) const {
  if (!network_)
    return dir_.endpoint(who.name);
  return fmt::format("tcp://{}:{}", network_->host, network_->port + who.port_offset);
}

std::string addresses::listen(std::string_view name, epoch_id life) const {
  return network_ ? fmt::format("tcp://{}:*", network_->host) : dir_.endpoint(name, life);
}

std::string addresses::find(const stable_name& who) const {
  if (!network_)
    return dir_.endpoint(who.name);
  if (!who.is_on_root_machine)
    return listen(who) + "#" + keys_.own.public_key;
  return fmt::format("tcp://{}:{}#{}", network_->root_host, network_->port + who.port_offset,
                     network_->root_key);
}

void addresses::refresh() const {
  if (trusted_)
    trusted_->replace(all_of(noted_keys(dir_)));
}

} // namespace baton::cluster
