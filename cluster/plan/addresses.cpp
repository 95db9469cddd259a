#include "cluster/plan/addresses.hpp"

namespace baton::cluster {
namespace {

constexpr std::string_view keys_name = "keys";

} // namespace

result<void> record_keys(const run_dir& dir, const machine_keys& keys) {
  return dir.write(keys_name, keys.text());
}

machine_keys recorded_keys(const run_dir& dir) {
  return machine_keys::from(dir.read(keys_name).value_or(""));
}

result<addresses> addresses::create(run_dir dir, std::optional<network_record> network) {
  if (!network)
    return addresses(std::move(dir), std::nullopt, {}, nullptr);
  auto own = read_key_file(network->key_file);
  if (!own)
    return own.error();
  auto trusted =
      std::make_shared<trusted_keys>(recorded_keys(dir), [dir] { return recorded_keys(dir); });
  return addresses(std::move(dir), std::move(network), {std::move(*own), trusted}, trusted);
}

addresses::addresses(run_dir dir, std::optional<network_record> network, curve_keys keys,
                     std::shared_ptr<trusted_keys> trusted)
    : dir_(std::move(dir)), network_(std::move(network)), keys_(std::move(keys)),
      trusted_(std::move(trusted)) {}

std::string addresses::listen(const stable_name& who) const {
  if (!network_)
    return dir_.endpoint(who.name);
  return fmt::format("tcp://{}:{}", network_->host, network_->port + who.port_offset);
}

std::string addresses::listen(std::string_view name, incarnation_id incarnation) const {
  return network_ ? fmt::format("tcp://{}:*", network_->host) : dir_.endpoint(name, incarnation);
}

std::string addresses::find(const stable_name& who) const {
  if (!network_)
    return dir_.endpoint(who.name);
  if (!who.is_on_root_machine)
    return listen(who) + "#" + keys_.own.public_key;
  const auto newest = recorded_keys(dir_).newest(root_machine);
  return fmt::format("tcp://{}:{}#{}", network_->root_host, network_->port + who.port_offset,
                     newest.empty() ? network_->root_key : newest);
}

void addresses::refresh() const {
  if (trusted_)
    trusted_->replace(recorded_keys(dir_));
}

std::optional<key_pair> addresses::changed_key(const std::string& in_use) const {
  if (!network_)
    return std::nullopt;
  auto own = read_key_file(network_->key_file);
  // An unreadable or untrusted key must not interrupt the communication.
  if (!own || own->public_key == in_use || !trusted_->holds(own->public_key))
    return std::nullopt;
  return std::move(*own);
}

void addresses::record_key(std::string_view name, const std::string& in_use) const {
  if (network_)
    dir_.record_key(name, in_use);
}

} // namespace baton::cluster
