// The server's and models' metadata in the format of the KServe v2 protocol and Triton: JSON, which
// is also the JSON of gRPC messages. Pure.
#pragma once

#include "gateway/base/snapshot.hpp"
#include "gateway/metrics/metrics.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

inline constexpr std::size_t name_bytes_shown = 128; // of a client's name, in messages

std::string kserve_server_body(std::string_view build);
// `name`: as in the client's request.
std::string kserve_metadata_body(std::string_view name);
std::string kserve_config_body(const snapshot& now, std::string_view name, const model_card& card);

// All language models that this server is configured to serve, by their names.
struct kserve_standing {
  std::string name;
  bool is_ready = false;
  std::string_view state; // Triton's name of the state
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
  std::map<std::uint32_t, batch_tally> batches{}; // of a worker model, by batch size
};
// {"model_stats":[...]}
std::string kserve_statistics_body(const std::vector<model_statistics>& models);

// Resolves a client's name: a model's own or an alias of the first model, with the version of every
// model or none. Errors: model_not_found.
result<std::string> kserve_model_named(const snapshot& now, const std::vector<std::string>& aliases,
                                       std::string_view name, std::string_view version);
// True if the pipelines' model of this name is ready.
bool kserve_is_ready(const snapshot& now, std::string_view model);
// kserve_config_body of the pipelines' model `model`, under the client's `name`. Errors: not_ready
// (its card is unknown yet).
result<std::string> kserve_config_of(const snapshot& now, std::string_view name,
                                     std::string_view model);
// Served models are loaded, and a client cannot change them. Errors: not_ready; conflict.
result<void> check_loaded(const snapshot& now, std::string_view model);
error refusal_to_unload(std::string_view model);

} // namespace baton::gateway
