// Decides which of the models that are loaded on demand are in memory. The first request of a model
// loads it; idle_timeout unloads it; where there is no room, the one that was used least recently
// and is idle makes room. Pure: time is an argument. Not thread-safe.
//
//              a request: ask_to_load
//   unloaded ---------------------------> loading --it serves--> loaded
//      ^  ^                                 |                      |
//      |  +-------- given up: refuse -------+                      |
//      |                                        idle, or evicted:  |
//      +------ its processes have ended ------ unloading <---------+
//
// A model that could not be loaded is not tried again before its pause is over. Meanwhile its
// requests are refused with the reason.
#pragma once

#include "runtime/schedule/tickets/retry_policy.hpp"
#include "schema/membership.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// Pauses after failed loads: 0, 1, 1, 2, 3, 5, 8 and 13 s.
inline constexpr schedule::retry_intensity load_intensity{8, std::chrono::minutes(10)};
// The shortest time without a request until a model is unloaded: a client's request for it may be
// on its way.
inline constexpr std::chrono::milliseconds keep_alive_min{500};
inline constexpr std::size_t orders_waiting_max = 256; // of one model
// The processes of an unloaded model end within this time; then its memory counts as free.
inline constexpr std::chrono::seconds unload_patience{10};

// A model that is loaded on demand.
struct on_demand_model {
  std::uint32_t pipeline = 0;
  std::string name;
  std::chrono::milliseconds idle_timeout{0}; // 0: never unloaded for idleness
  bool is_pinned = false;                    // never unloaded
};

// Clients' `keep_alive`, by model.
using kept_models = std::map<std::string, std::chrono::milliseconds>;

class on_demand_models {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using done_callback = std::function<void(const result<void>&)>;
  // Orders. `load` begins to load. Errors: does_not_fit, if the models that are loaded leave no
  // room; others are final.
  struct outside {
    std::function<result<void>(std::uint32_t pipeline)> load;
    std::function<result<void>(std::uint32_t pipeline)> unload;
    std::function<void(std::uint32_t pipeline, const error& why)> refuse;
  };
  // The plan of a pipeline.
  struct observed {
    bool is_serving = false; // with shards
    bool is_coming = false;
    std::string outcome; // of the last change
  };
  on_demand_models(std::vector<on_demand_model> models, std::uint32_t loaded_max, outside to);

  // A client's order; `done` is called once, when the model is loaded or unloaded, or with the
  // reason why not. Errors: conflict (pinned, or it has open requests), overloaded (too many orders
  // wait).
  void order_load(std::uint32_t pipeline, done_callback done, time_point now);
  void order_unload(std::uint32_t pipeline, done_callback done, time_point now);
  // A client's `keep_alive`, until the model is unloaded: it takes the place of idle_timeout. Below
  // 0: never unloaded for idleness.
  void keep(std::uint32_t pipeline, std::chrono::milliseconds keep_alive, time_point now);
  // The models that are loaded or loading, and have one.
  kept_models kept() const;
  // The times that an earlier root kept: they count for the models that it has loaded.
  void restore(const kept_models& kept);
  // The head's report of its open requests.
  void on_load(std::uint32_t pipeline, std::uint32_t open_requests, time_point now);
  void observe(std::uint32_t pipeline, const observed& plan, time_point now);
  // All processes of the unloaded model have ended.
  void on_gone(std::uint32_t pipeline);
  // Call it after each event, and a few times a second.
  void decide(time_point now);

  bool is_empty() const noexcept { return all_.empty(); }
  std::optional<std::uint32_t> find(const std::string& name) const; // -> its pipeline
  bool has(std::uint32_t pipeline) const { return all_.contains(pipeline); }
  const model_loads& loads_of(std::uint32_t pipeline) const { return all_.at(pipeline).loads; }
  // By pipeline. `wall_clock`: what to add to a time point for Unix time, always the same.
  std::map<std::uint32_t, model_loads> snapshot(std::chrono::milliseconds wall_clock) const;

private:
  struct entry {
    on_demand_model model;
    model_loads loads{}; // with its state
    std::uint32_t open_requests = 0;
    std::vector<done_callback> loads_waiting, unloads_waiting; // orders
    time_point used_at{}; // when it had requests, or was loaded
    std::optional<std::chrono::milliseconds> keep_alive;
    std::optional<std::chrono::milliseconds> restored; // until this root loads the model itself
    std::optional<time_point> wanted_since;
    time_point since{}; // of this state
    std::optional<time_point> paused_until;
    std::string failure; // why the last load failed
    schedule::retry_policy retries{load_intensity};
  };

  // How long it stays loaded without a request; none: without end.
  static std::optional<std::chrono::milliseconds> keep_alive_of(const entry& e);
  static bool is_due(const entry& e, time_point now); // to be unloaded for idleness
  static void enter(entry& e, phase next, time_point now);
  void try_load(entry& e, time_point now);
  void fail_load(entry& e, error why, time_point now);
  void refuse(entry& e, const error& why);
  static void finish_orders(entry& e);
  bool unload(entry& e, time_point now);
  entry* victim();
  bool may_get_room() const;
  bool is_any(phase now) const;
  std::size_t in_memory() const;

  std::map<std::uint32_t, entry> all_; // by pipeline
  std::uint32_t loaded_max_;
  outside to_;
};

} // namespace baton::cluster
