// Endpoints of the processes of a cluster. On one machine they are sockets in the run directory;
// between machines they are ports, with keys. Root, head and agents have endpoints that outlive
// them; a gateway or shard has one per incarnation
// (docs/decisions/0003-stable-and-fresh-endpoints.md).
#pragma once

#include "cluster/bus/bus_zmq.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/files/stable_name.hpp"
#include "cluster/plan/plan_record.hpp"

#include <memory>
#include <optional>
#include <string>

namespace baton::cluster {

// The keys of the cluster's machines by node; the root's machine is "". Stored in the run
// directory; the processes of the machine read them again after a change.
result<void> record_keys(const run_dir& dir, const machine_keys& keys);
machine_keys recorded_keys(const run_dir& dir);

class addresses {
public:
  // Errors: as read_key_file.
  static result<addresses> create(run_dir dir, std::optional<network_record> network);

  std::string listen(const stable_name& who) const;
  std::string listen(std::string_view name, incarnation_id incarnation) const;
  // The endpoint of a process: on the root's machine from anywhere, an agent from its own machine.
  std::string find(const stable_name& who) const;

  // Not set on a single machine.
  const curve_keys& keys() const noexcept { return keys_; }
  // Trusts the stored keys from now on. Cheap: call it often.
  void refresh() const;
  // This machine's key, if its file holds a trusted key other than `in_use`.
  std::optional<key_pair> changed_key(const std::string& in_use) const;
  // Records the key in use of a process: `cluster rotate-key` waits for it.
  void record_key(std::string_view name, const std::string& in_use) const;

private:
  addresses(run_dir dir, std::optional<network_record> network, curve_keys keys,
            std::shared_ptr<trusted_keys> trusted);

  run_dir dir_;
  std::optional<network_record> network_;
  curve_keys keys_;
  std::shared_ptr<trusted_keys> trusted_;
};

} // namespace baton::cluster
