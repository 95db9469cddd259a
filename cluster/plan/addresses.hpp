// Where the processes of a cluster listen and find one another: at sockets in the run directory
// while all are on one machine; between machines at ports, with keys. Root, head and agents have
// names that outlive them; a gateway's or shard's is that of one life
// (docs/decisions/0003-stable-and-fresh-endpoints.md).
#pragma once

#include "cluster/bus/bus_zmq.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/files/stable_name.hpp"
#include "cluster/plan/plan_note.hpp"

#include <memory>
#include <optional>
#include <string>

namespace baton::cluster {

// The keys of the machines of a cluster, by node, the root's machine "". Noted in the run
// directory, where the processes of that machine look again when it has changed.
result<void> note_keys(const run_dir& dir, const machine_keys& keys);
machine_keys noted_keys(const run_dir& dir);

class addresses {
public:
  // Errors: as read_key_file.
  static result<addresses> create(run_dir dir, std::optional<network_note> network);

  std::string listen(const stable_name& who) const;
  std::string listen(std::string_view name, epoch_id life) const;
  // Those of the root's machine from anywhere, an agent from its own machine.
  std::string find(const stable_name& who) const;

  // Not set on one machine.
  const curve_keys& keys() const noexcept { return keys_; }
  // Has the noted keys trusted from now on, if they have changed. Cheap: call it often.
  void refresh() const;
  // This machine's key, if its file holds another one than that, and a trusted one.
  std::optional<key_pair> changed_key(const std::string& in_use) const;
  // Which key a process listens with now: `cluster rotate-key` waits for it.
  void note_key(std::string_view name, const std::string& in_use) const;

private:
  addresses(run_dir dir, std::optional<network_note> network, curve_keys keys,
            std::shared_ptr<trusted_keys> trusted);

  run_dir dir_;
  std::optional<network_note> network_;
  curve_keys keys_;
  std::shared_ptr<trusted_keys> trusted_;
};

} // namespace baton::cluster
