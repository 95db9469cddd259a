// Reports of a worker model's pool to the root, about its processes. The root's supervisor ends
// and restarts a worker that is reported as failed.
#pragma once

#include "runtime/schedule/workers/worker_queue.hpp"
#include "schema/messages.hpp"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace baton::gateway {

using schedule::worker_incarnation;

// A worker process of the cluster.
struct worker_process {
  process_id process;
  std::string name; // "worker-echo-0"
};

class worker_reports {
public:
  worker_reports(std::function<void(const status&)> report, std::vector<worker_process> processes);

  void set_processes(std::vector<worker_process> all) { processes_ = std::move(all); }
  std::string name_of(process_id process) const;

  // True if the root is about to end it; reports that again.
  bool repeat_if_condemned(worker_incarnation w) const;
  void ready(worker_incarnation w);
  // The root is to end this worker. Repeated until it has ended.
  void condemn(worker_incarnation w, const std::string& why);
  void ended(worker_incarnation w);
  // For a new root, which may have adopted workers without knowing their state.
  void repeat_all(const std::vector<worker_incarnation>& linked) const;

private:
  void report(worker_incarnation w, phase p, std::string reason) const;

  std::function<void(const status&)> report_;
  std::vector<worker_process> processes_;
  // The incarnation that the root is to end, and why.
  std::map<process_id, std::pair<worker_incarnation, std::string>> condemned_;
};

} // namespace baton::gateway
