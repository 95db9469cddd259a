// What `cluster up` shows at the terminal: each process as it comes up, the URL and a line to
// paste, what goes wrong with the end of its log; with --json one object a line.
#pragma once

#include "cluster/roles/roles.hpp"
#include "cluster/roles/root_end.hpp"
#include "schema/messages.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>

namespace baton::cluster {

class progress {
public:
  progress(const cluster_contexts& all, bool json);

  // From the overview actor, on every change.
  void show(const cluster_status& now);
  // Instead of all that: what kept it from beginning.
  static void failed(const error& e, bool json);
  void draining();
  void stopped(const root_end& how);

  // True when all are ready; false if one failed before, or `interrupted` says so.
  bool wait_ready(const std::function<bool()>& interrupted);
  // Returns when no gateway has an open stream, after `grace`, or when `interrupted` says so: why
  // streams were cut, or nothing if none was.
  std::string wait_drained(std::chrono::milliseconds grace,
                           const std::function<bool()>& interrupted);
  // Of a gateway's life that wait_drained has told of.
  bool was_lost_while_draining(node_id node, epoch_id life) const;
  // What has been given up, and why; nothing if all is well.
  std::string failure() const;

private:
  void show_node(const status& s);
  void show_ready(const cluster_status& now);
  static void line(const std::string& text);
  std::string log_end(const std::string& name) const;

  const cluster_base& cluster_;
  bool json_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  cluster_status last_;
  std::map<std::string, std::string> shown_; // the last line for each process
  bool was_ready_ = false;
  bool is_draining_ = false;
  std::string lost_while_draining_; // a gateway; it may be back, without the streams that it had
  std::set<std::pair<node_id, epoch_id>> lost_lives_; // of gateways, while they drained
};

} // namespace baton::cluster
