// The join registry behind a socket, where `cluster up` accepts machines. It persists keys in the
// run directory, from which this machine's processes read the trusted keys.
#pragma once

#include "cluster/bus/bus_zmq_rpc.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/join/join_registry.hpp"
#include "cluster/join/node_launcher.hpp"

#include <mutex>

namespace baton::cluster {

class join_server {
public:
  // Errors: address_in_use, io_failed, bad_config, unauthorized (our key was taken back).
  static result<std::unique_ptr<join_server>> open(const cluster_config& config, const run_dir& dir,
                                                   const key_pair& own, std::string build);

  // The command line for a machine that should join; `token` is empty if its key is known.
  struct invitation {
    std::string node;
    std::string host;
    std::string endpoint; // of this server, with our key
    std::string token;
    bool has_joined = false;
    std::string failed;
  };
  std::vector<invitation> invitations() const;
  std::optional<invitation> invitation_of(const std::string& node) const;

  // Runs the launch commands of nodes that have one. Call it a few times a second.
  void tick();
  bool is_complete() const;
  machines gathered() const;
  void remember(const machines& known);
  void grant(join_grant g);
  void change(const generations& now);
  // Adds new nodes; `now` has all nodes. Errors: io_failed.
  result<void> expect(const std::vector<node_config>& nodes, node_update now);
  // Removes a node and refuses it from now on. Its key is revoked by forget_removed, after its
  // agent has exited.
  void dismiss(const std::string& node, node_update now);
  void forget_removed();
  // Called on the server's thread when a granted machine reports that it cannot run.
  void on_failed(std::function<void(const std::string& node, const std::string& why)> callback);
  // Called on the server's thread when a machine's keys have changed.
  void on_keys(std::function<void()> callback);
  // The node's agent has persisted these keys.
  void on_keys_confirmed(const std::string& node, machine_keys keys);
  // Replaces this machine's key, and the server's.
  void use_key(const key_pair& own);
  // Called on the server's thread when a machine joins after the plan was made.
  void on_joined(std::function<void(const std::string& node, const machine_facts& facts)> callback);

private:
  join_server(const cluster_config& config, run_dir dir, const key_pair& own, std::string build);
  void failed(const std::string& node, const std::string& why);
  result<void> launch(const std::vector<node_config>& nodes);
  result<void> change_keys(const std::function<void()>& change);
  std::string answer(std::string_view request, const std::string& public_key);
  join_answer judge(const join_request& r, const std::string& public_key);
  join_answer look(const reach_request& r, const std::string& public_key) const;
  std::string measure(const link_request& r, const std::string& public_key) const;
  template <class Request>
  join_answer answer_and_record(const Request& q, const std::string& public_key);
  result<void> open_socket(const key_pair& own);

  run_dir dir_;
  std::string endpoint_;
  std::string public_key_;
  mutable std::mutex mutex_;
  join_registry registry_;
  std::function<void(const std::string&, const std::string&)> on_failed_;
  std::mutex callback_mutex_; // not `mutex_`: the callback of a join may call this object
  std::function<void(const std::string&, const machine_facts&)> on_joined_;
  std::function<void()> on_keys_;
  // Declared last: their threads use the registry.
  std::unique_ptr<node_launcher> launcher_;
  std::unique_ptr<rpc_server> socket_;
};

// Instructions for the machine of a node that has not joined.
std::string text_of(const join_server::invitation& i);

} // namespace baton::cluster
