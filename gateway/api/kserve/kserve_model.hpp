// What this server says of itself and its models in the words of the KServe v2 protocol and of
// Triton: JSON that is also the JSON of the messages of gRPC. Pure.
#pragma once

#include "gateway/base/snapshot.hpp"
#include "gateway/metrics/metrics.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

inline constexpr std::size_t name_bytes_shown = 128; // of a name from a client, in messages

std::string kserve_server_body(std::string_view build);
// `name`: as the client said it.
std::string kserve_metadata_body(std::string_view name);
std::string kserve_config_body(const snapshot& now, std::string_view name, const model_card& card);

// Of all models that this server was told to serve, by their names.
struct kserve_standing {
  std::string name;
  bool is_ready = false;
  std::string_view state; // Triton's word
  std::string reason;
  std::string version = "1";
};
std::vector<kserve_standing> kserve_standings(const snapshot& now);
// [{"name","version","state","reason"}]
std::string kserve_index_body(const std::vector<kserve_standing>& all, bool ready_only);

struct model_statistics {
  std::string name;
  model_tally tally;
  std::uint64_t steps = 0; // executions
  std::string version = "1";
  std::map<std::uint32_t, batch_tally> batches{}; // of a worker model, by their sizes
};
// {"model_stats":[...]}
std::string kserve_statistics_body(const std::vector<model_statistics>& models);

// The pipelines' name for a model as a client may call it: by itself or an alias of the first one,
// and by the version that every model has or none.
// Errors: model_not_found.
result<std::string> kserve_model_named(const snapshot& now, const std::vector<std::string>& aliases,
                                       std::string_view name, std::string_view version);
// Whether the pipelines' model of this name is ready.
bool kserve_is_ready(const snapshot& now, std::string_view model);
// kserve_config_body of the pipelines' model `model`, which the client calls `name`.
// Errors: not_ready (nothing is known of it yet).
result<std::string> kserve_config_of(const snapshot& now, std::string_view name,
                                     std::string_view model);
// What is served is loaded, and nothing about it can be changed by a client.
// Errors: not_ready; conflict.
result<void> check_loaded(const snapshot& now, std::string_view model);
error refusal_to_unload(std::string_view model);

} // namespace baton::gateway
