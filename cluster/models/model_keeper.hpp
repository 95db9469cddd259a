// The root's hand on the worker models: looks at the model repository, reads archives of the model
// store, keeps the book of what is served, notes it, and tells whoever has to do it. All that it
// hears is done one after the other on a thread of its own, which alone reads the repository: a
// file system that hangs costs loads and looks, and nothing that is served. What takes a while to
// be read of the store, or is fetched, is the intake's.
#pragma once

#include "cluster/models/archive_intake.hpp"
#include "cluster/models/models_note.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace baton::cluster {

class model_keeper {
public:
  using instant = repository_book::instant;

  struct outside { // from the keeper's thread, no lock held
    // All that there is, whenever it changes; ahead of answers to what changed it.
    std::function<void(const served_models&)> say;
    std::function<void()> changed; // other workers are to run; behind `say`
    std::function<void(node_id gateway, const model_changed&)> answer;
    child_watch* children = nullptr; // of this process: who fetches archives is one; outlives it
  };

  // Takes up what is noted, and looks at the repository for the first time. Errors: io_failed,
  // bad_config, of the repository as a whole.
  static result<std::unique_ptr<model_keeper>> create(const cluster_config& config,
                                                      const run_dir& dir);
  model_keeper(const cluster_config& config, const run_dir& dir);
  ~model_keeper(); // stops

  // From here on it acts.
  void begin(outside to);
  void stop(); // idempotent

  // Any thread; none of them waits.
  void change(node_id gateway, change_model order);
  void on_gateway(); // one is linked
  void on_ready(node_id worker);
  void on_end(node_id worker, std::string how);
  void on_given_up(node_id worker, std::string why);
  void on_gone(node_id worker);
  void on_drained(std::uint32_t gateway, std::uint64_t revision);

  // As it was said last.
  served_models standing() const;
  std::vector<worker_child> workers() const;

private:
  using event = std::function<void(repository_book&, instant)>;

  result<void> look(instant now);
  void post(event e);
  void run();
  void publish();
  void carry_out(node_id gateway, change_model order, instant now);
  void carry_out_store(node_id gateway, change_model order, instant now);
  result<void> enlist(node_id gateway, change_model order, instant now);
  result<void> enter(node_id gateway, change_model order, const result<model_archive>& archive,
                     instant now);
  void refuse(node_id gateway, const change_model& order, const error& why);
  result<void> load_store(instant now);
  void load(change_model order, instant now);
  void remove_unused();

  const cluster_config& config_;
  const run_dir dir_;
  outside to_;
  repository_book book_;                                 // of the thread alone, once it runs
  std::string last_failure_;                             // of a look
  std::map<std::string, std::filesystem::path> fetched_; // by URL: files of the store
  std::vector<change_model> later_; // of load_models, that are not read in a moment
  std::unique_ptr<archive_intake> intake_;
  mutable std::mutex mutex_;
  std::condition_variable bell_;
  std::deque<event> events_;
  served_models standing_;
  std::vector<worker_child> workers_;
  bool is_stopping_ = false;
  std::thread thread_;
};

} // namespace baton::cluster
