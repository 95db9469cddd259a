// The registry of worker models: those of nodes.toml, those of a model repository (from its files
// and client requests), and those that clients register from a model store. Pure: callers pass the
// time, scan results and process events in, and take the processes to run and the answers out.
// The states of one revision (one version of a repository model with certain files):
// One revision of a version of a model of the repository:
//
//   wanted --start--> loading --all its workers ready--> ready
//                      |  |                               | | |
//                      |  +--a worker ended: its reason   | | +--each worker was given up
//                      |  |  not wanted any more          | |            |
//                      |  v                               | |            v
//                      | unavailable <--------------------|-|------ unavailable
//                      |  ^                               | |
//                      |  | every gateway has drained,    | +--not wanted any more
//                      |  | or drain_max                  +----the ready one of now replaces it
//                      |  +------------ unloading <---------+
//                      +--no worker can be had: unavailable
//
// `unavailable` has no processes: the old ones are leaving until the supervisor reports them gone,
// and their names stay reserved until then. A revision is forgotten once its files are no longer
// wanted. Changed files or a client's repeated load start a new revision; the old one serves until
// the new one is ready, and stays if it never is.
//
// A version of a store's model (registered_models.cpp) may have no workers: it is then ready with
// none. Scaling up loads more workers beside those that serve. Scaling down removes the last ones,
// each after its pending requests. A version that fails before it was ready is unregistered.
#pragma once

#include "cluster/models/repository_scan.hpp"
#include "cluster/models/store_models.hpp"
#include "schema/served_models.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace baton::cluster {

// A persisted revision, which a later root restores.
struct recorded_model {
  served_model model;
  std::uint64_t digest = 0;
  std::vector<std::string> notes{}; // scanned_version's
};
// A requested model that cannot be registered: a bad archive, or an unknown name.
struct rejected_model {
  std::string name;    // the model's name if given, else the name as requested
  std::string archive; // of a store; else empty
  std::string why;
  std::uint64_t revision = 0;
};
struct recorded_models {
  std::uint64_t last_revision = 0;
  std::uint32_t next_worker = 0;
  std::vector<recorded_model>
      all; // of the repository or a store; includes workers that are leaving
  std::vector<rejected_model> rejected{};
};

// Whether processes of it run, or start.
inline bool is_active(const served_model& m) {
  return m.state == model_state::loading || m.state == model_state::ready;
}

// Stands at the end of a list of models that is too long for a message; its reason says how many
// are missing.
inline constexpr const char* more_models_name = "...";

class model_registry {
public:
  using instant = std::chrono::steady_clock::time_point;

  struct options {
    model_control control = model_control::none;
    std::vector<std::string> load_models; // at the start, if clients control the rest; "*": all
    std::uint32_t gateways = 1;
    std::chrono::milliseconds drain_max{30'000};
  };
  // `config`: its [[workers]] take the first process ids.
  model_registry(options how, const cluster_config& config);

  // Restores the state of an earlier root; called before any other event.
  void restore(const recorded_models& left, instant now);
  // Applies a scan of the files.
  void take(scanned_models found, instant now);
  // A client's request through a gateway; it refers to the files of the last scan.
  void load(process_id gateway, std::uint64_t request, const std::string& model, instant now);
  void unload(process_id gateway, std::uint64_t request, const std::string& model, instant now);

  // Requests for a model store, from a client through a gateway. `order`: model, version, settings
  // and whether the client waits. Without `order.request` there is no answer.
  void register_model(process_id gateway, const change_model& order, stored_model what,
                      instant now);
  void unregister_model(process_id gateway, const change_model& order, instant now);
  void scale(process_id gateway, const change_model& order, instant now);
  void set_default(process_id gateway, const change_model& order);
  std::set<std::string> registered() const; // names of registered models
  std::set<std::string> archives() const;   // their archives, as clients named them
  // Shows it as UNAVAILABLE for this reason until a model of that name or archive is registered.
  // `archive`: of a store; else empty.
  void reject(const std::string& name, const std::string& archive, const std::string& why);

  // Events of a worker process.
  void on_ready(process_id worker, instant now);
  void on_end(process_id worker, const std::string& how, instant now);
  void on_given_up(process_id worker, const std::string& why, instant now);
  void on_gone(process_id worker, instant now); // the supervisor has released it
  void on_drained(std::uint32_t gateway, std::uint64_t number, instant now);
  void tick(instant now);

  // All models to publish, those of nodes.toml first. Exactly those with workers should run; the
  // others are only shown.
  served_models snapshot() const;
  recorded_models record() const;
  bool takes_changes() const noexcept { return how_.control == model_control::clients; }

  struct answer {
    process_id gateway;
    model_changed what;
  };
  std::vector<answer> take_answers() { return std::exchange(answers_, {}); }
  // Log lines.
  std::vector<std::string> take_remarks() { return std::exchange(remarks_, {}); }
  // Whether `snapshot` has changed since the last call.
  bool take_change() { return std::exchange(has_changed_, false); }

private:
  struct revision {
    served_model model; // its workers are those that should run
    std::uint64_t digest = 0;
    std::chrono::milliseconds startup_timeout{0};
    instant since; // start of its current state
    std::set<process_id> ready;
    std::set<process_id> given_up;
    std::set<std::uint32_t> drained;     // indices of gateways
    std::vector<model_worker> leaving{}; // stopped, but not gone yet
    bool is_void = false;                // superseded: the same files would start another revision
    std::set<process_id> starting{};     // added while it is ready, and not ready themselves
  };
  struct pending_request {
    process_id gateway;
    std::uint64_t request = 0;
    std::string model;
    std::optional<std::string> version{}; // of a store; none: a repository load
  };
  struct registered_model {
    std::vector<scanned_version> versions; // in order of registration
    std::string default_version;
  };

  void settle(instant now);
  void settle(const std::string& name, instant now);
  revision* find(const std::string& name, const scanned_version& wanted);
  void start(const std::string& name, const scanned_version& wanted, instant now);
  // Appended to the workers that the model has.
  std::vector<model_worker> workers_for(const std::string& name, std::uint32_t count,
                                        std::uint32_t before = 0);
  std::uint32_t count_for(const scanned_version& v) const;
  void replace(const std::string& name, instant now);
  void answer_loads(const std::string& name);
  void set_state(revision& r, model_state to, std::string reason, instant now);
  void stop(revision& r, std::string reason, instant now);
  void reply(const pending_request& to, std::optional<error> failure);
  // For a model store.
  void check_ready(revision& r, instant now);
  void answer_registrations(const std::string& name);
  void drop_failed(const std::string& name);
  void forget(const std::string& name, const std::string& version);
  void grow(revision& r, std::uint32_t count);
  void shrink(const revision& of, const std::vector<model_worker>& removed);
  void drop_starting(revision& r, const std::string& why, instant now);
  scanned_version* find_registered(const std::string& name, const std::string& version);
  revision* serving(const std::string& name, const std::string& version);
  result<scanned_version*> named(const change_model& order);
  void answer_change(process_id gateway, const change_model& order, const scanned_version& of,
                     std::optional<error> failure);
  served_model published(const revision& r) const;
  served_model published(const rejected_model& p) const;
  void reject_missing();
  std::vector<std::string> notes_of(const revision& r) const;
  revision* revision_of(process_id worker);
  served_model* static_of(process_id worker);
  std::vector<served_model> not_loaded() const;
  std::size_t worker_count() const;
  const std::vector<scanned_version>& wanted(const std::string& name) const;
  bool is_wanted(const revision& r) const;

  options how_;
  std::vector<served_model> static_; // of nodes.toml
  std::map<process_id, std::string> static_lost_;
  bool has_begun_ = false;
  scanned_models scanned_; // at the last scan
  scanned_models targets_; // those to be served
  std::vector<revision> revisions_;
  std::map<std::string, registered_model, std::less<>> registered_;
  std::vector<rejected_model> rejected_;
  std::vector<pending_request> waiting_; // for a load
  std::set<std::string, std::less<>> unloaded_;
  std::uint64_t last_revision_ = 0;
  std::uint32_t next_worker_ = 0;
  std::vector<answer> answers_;
  std::vector<std::string> remarks_;
  bool has_changed_ = true;
};

} // namespace baton::cluster
