// The terminal output of `cluster up`: each process as it starts, the URL with a command to paste,
// and errors with the end of the log. With --json it prints one object a line.
#pragma once

#include "cluster/roles/roles.hpp"
#include "cluster/roles/root/drain_watch.hpp"
#include "cluster/roles/root/root_end.hpp"
#include "schema/messages.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

namespace baton::cluster {

// Whether the next request is served: all processes are ready, and the gateways know that the
// heads' shards are.
bool takes_requests(const cluster_status& now);

class progress {
public:
  progress(const cluster_contexts& all, bool json);

  // Called by status_aggregator on every change.
  void show(const cluster_status& now);
  // Prints the error that prevented the start.
  static void failed(const error& e, bool json);
  void draining();
  void stopped(const root_end& how);

  // True when all are ready; false if one failed before, or if `interrupted` returns true.
  bool wait_ready(const std::function<bool()>& interrupted);
  // Returns when no gateway has an open stream, after `grace`, or when `interrupted` returns true.
  // The result says why streams were cut; empty: none was.
  std::string wait_drained(std::chrono::milliseconds grace,
                           const std::function<bool()>& interrupted);
  // Whether wait_drained has reported the loss of this gateway incarnation.
  bool was_lost_while_draining(process_id process, incarnation_id incarnation) const;
  // The processes that are given up, and why; empty if all is well.
  std::string failure() const;

private:
  void show_node(const status& s);
  void show_ready(const cluster_status& now);
  static void print(const std::string& text);
  std::string log_end(const std::string& name) const;

  const cluster_base& cluster_;
  bool json_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  cluster_status last_;
  std::map<std::string, std::string> shown_; // the last text shown for each process
  bool was_ready_ = false;
  bool was_shown_ready_ = false;
  drain_watch drain_;
};

} // namespace baton::cluster
