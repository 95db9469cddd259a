// The root's controller of worker models. It watches the model repository, reads archives of the
// model store, keeps the model registry, persists it, and publishes its changes. All events run in
// order on one thread, which alone reads the repository. A file system that hangs delays loads and
// scans, but nothing that is being served. archive_intake handles archives that take long.
#pragma once

#include "cluster/models/archive_intake.hpp"
#include "cluster/models/models_record.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace baton::cluster {

class model_controller {
public:
  using instant = model_registry::instant;

  struct outside { // called from the controller's thread, with no lock held
    // All models, whenever they change; called before the answers to what changed them.
    std::function<void(const served_models&)> publish;
    std::function<void()> changed; // the set of workers to run has changed; after `publish`
    // Also from the caller of `change`.
    std::function<void(process_id gateway, const model_changed&)> answer;
    child_watch* children = nullptr; // outlives the controller; watches the fetch processes
  };

  // Restores the persisted state and scans the repository once. Errors: io_failed, bad_config, of
  // the repository as a whole.
  static result<std::unique_ptr<model_controller>> create(const cluster_config& config,
                                                          const run_dir& dir);
  model_controller(const cluster_config& config, const run_dir& dir);
  ~model_controller(); // stops

  // Starts the thread that handles events.
  void begin(outside to);
  void stop(); // idempotent

  // From any thread; none of them blocks. While too many events wait, because the controller is
  // stuck, `change` is answered with overloaded, and other events of peers are dropped.
  void change(process_id gateway, change_model order);
  void on_gateway(); // a gateway has connected
  void on_ready(process_id worker);
  void on_end(process_id worker, std::string how);
  void on_given_up(process_id worker, std::string why);
  void on_gone(process_id worker);
  void on_drained(std::uint32_t gateway, std::uint64_t revision);

  // As last published.
  served_models snapshot() const;
  std::vector<worker_child> workers() const;

private:
  using event = std::function<void(model_registry&, instant)>;

  result<void> look(instant now);
  void post(event e);
  bool post_of_peer(event e); // false: too many wait
  void run();
  void publish();
  void note_missing(const served_models& now);
  void carry_out(process_id gateway, change_model order, instant now);
  void carry_out_store(process_id gateway, change_model order, instant now);
  result<void> register_model(process_id gateway, change_model order, instant now);
  result<void> enter(process_id gateway, change_model order, const result<model_archive>& archive,
                     instant now);
  void refuse(process_id gateway, const change_model& order, const error& why);
  result<void> load_store(instant now);
  void load(change_model order, instant now);
  void remove_unused();

  const cluster_config& config_;
  const run_dir dir_;
  outside to_;
  model_registry registry_;                              // used by the thread alone once it runs
  std::string last_failure_;                             // of the last scan
  std::string last_missing_;                             // models that the index has no room for
  std::map<std::string, std::filesystem::path> fetched_; // by URL: the file in the store
  std::vector<change_model> later_;                      // load_models that take long to read
  std::unique_ptr<archive_intake> intake_;
  mutable std::mutex mutex_;
  std::condition_variable bell_;
  std::deque<event> events_;
  served_models snapshot_;
  std::vector<worker_child> workers_;
  bool has_missed_gateway_ = false; // one connected while too many events waited
  bool is_stopping_ = false;
  std::thread thread_;
};

} // namespace baton::cluster
