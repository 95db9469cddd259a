// Metrics from the handlers of worker models, shown at /metrics under their own names. Sources that
// report the same name and labels share one series. Counters add up; a gauge has the last value
// set. Bounded, because handlers choose the names. Any thread.
//
//   a gauge:   (unknown) --reported--> known --every source has closed--> (unknown)
//   a counter: (unknown) --reported--> known --every source has closed--> left, still shown
//              left --reported again, counts on--> known
//              left --others need its room, the oldest first--> (unknown)
#pragma once

#include "schema/inference.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::gateway {

class metric_registry {
public:
  static constexpr std::size_t names_max = 1024, series_max = 16'384; // of the gateway
  static constexpr std::size_t source_names_max = 128, source_series_max = 2048;
  // Bytes of names, helps, labels and their values: the amount that a scrape copies.
  static constexpr std::size_t bytes_max = 8u << 20, source_bytes_max = 1u << 20;
  static constexpr std::size_t name_bytes_max = 256, value_bytes_max = 256; // of a label

  // One reporter: the pool of a model's version. The destructor closes it.
  class source {
  public:
    source() = default;
    source(std::shared_ptr<metric_registry> registry, const std::string& model,
           const std::string& version);
    source(source&& other) noexcept;
    source& operator=(source&& other) noexcept;
    ~source();
    // A metric with an error is refused alone, and counted. Returns a message for each new reason.
    std::vector<std::string> take(const std::vector<handler_metric>& all);

  private:
    std::shared_ptr<metric_registry> registry_;
    std::uint64_t number_ = 0;
  };

  // Prometheus' text format 0.0.4 of the wanted names; empty: there are none.
  std::string text(const std::function<bool(const std::string&)>& is_wanted) const;
  std::string text() const;

private:
  using label_set = std::map<std::string, std::string>;
  struct series {
    double value = 0;
    std::set<std::uint64_t> sources;
    std::uint64_t left = 0; // its number in left_; 0: it has sources
  };
  struct family {
    std::string help;
    metric_kind kind = metric_kind::counter;
    std::map<label_set, series> all;
  };
  struct source_state {
    std::string model, version;
    std::set<std::string, std::less<>> names;
    std::size_t series = 0, bytes = 0;
    std::map<std::string, std::uint64_t> refused; // by reason
  };
  struct contents {
    std::vector<std::pair<std::string, family>> families;
    std::map<std::array<std::string, 3>, std::uint64_t> refused; // by model, version, reason
  };

  std::uint64_t open(const std::string& model, const std::string& version);
  void close(std::uint64_t number);
  // Requires: the series has no sources.
  void forget(std::uint64_t left);
  void forget_left_of(const std::string& name);
  bool has_room(const handler_metric& m, const label_set& labels) const;
  std::string take(std::uint64_t number, const handler_metric& m);
  // Copies the data of a text, which is rendered without the lock: pools wait for it.
  contents copy(const std::function<bool(const std::string&)>& is_wanted) const;
  // Null: taken. Else the reason, as a label's value.
  const char* refusal_of(source_state& by, std::uint64_t number, const handler_metric& m);

  mutable std::mutex mutex_;
  std::map<std::string, family> families_;
  std::map<std::uint64_t, std::pair<std::string, label_set>> left_; // counters without a source
  std::uint64_t last_left_ = 0;
  std::map<std::array<std::string, 3>, std::uint64_t> refused_; // of closed sources
  std::size_t series_ = 0, bytes_ = 0;
  std::map<std::uint64_t, source_state> sources_;
  std::uint64_t last_source_ = 0;
};

// The server's own names: handlers may not use them.
bool is_reserved_metric(std::string_view name) noexcept;

} // namespace baton::gateway
