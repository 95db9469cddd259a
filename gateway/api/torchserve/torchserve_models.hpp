// TorchServe's management API over what the gateway knows of the cluster: lists and describes
// models, and says which command does here what it would change. Pure.
//
// A worker that `cluster import` reads from minWorkers is a replica here, and so counts what the
// API scales; the processes that are listed as workers are the shards of all replicas.
#pragma once

#include "gateway/api/torchserve/torchserve_target.hpp"
#include "gateway/base/http_text.hpp"
#include "gateway/state/board.hpp"

#include <initializer_list>
#include <map>
#include <string>

namespace baton::gateway {

struct managed_model {
  std::string name;                   // of its card
  std::optional<std::string> version; // as asked for: "1.0", or not
};

// The model that a name means, whether it is served or still loads. Errors: model_not_found; with
// param torchserve_version_param if it has no such version.
result<managed_model> find_managed(const snapshot& s, const gateway_config& config,
                                   const std::string& model,
                                   const std::optional<std::string>& version);

// {"nextPageToken","models":[{"modelName","modelUrl"}]}. `limit` and `next_page_token` count as
// TorchServe's do: what is out of range is the default. Errors: invalid_value.
// `further`: names of models beside those of the pipelines, and where each is from.
using model_urls = std::map<std::string, std::string>;
result<http_reply> list_managed(const snapshot& s, const torchserve_target& asked,
                                model_urls further = {});
// [{"modelName",...,"workers","jobQueueStatus"}]
http_reply describe_managed(const snapshot& s, const gateway_config& config,
                            const managed_model& model, bool is_customized);
// Whether `min_worker` to `max_worker` replicas serve, as it is. Errors: invalid_value; conflict,
// naming the command that would change it.
result<http_reply> scale_managed(const snapshot& s, const managed_model& model,
                                 const torchserve_target& asked);
struct scale_range {
  std::int32_t least = 1, most = 1;
};
// Errors: unsupported_parameter, for the first parameter of the address that is none of these.
result<void> check_known(const torchserve_target& asked,
                         std::initializer_list<std::string_view> known);
// Errors: unsupported_parameter, invalid_value.
result<scale_range> read_scale(const torchserve_target& asked);
http_reply scaled_managed(std::int32_t workers, const managed_model& model);
// What is served is in nodes.toml, and no client changes it.
error refusal_to_register();
error refusal_to_unregister();
http_reply set_default_managed(const managed_model& model);
// KServe's {"name","ready"}.
http_reply ready_managed(const snapshot& s, const managed_model& model);

} // namespace baton::gateway
