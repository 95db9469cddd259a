// TorchServe's management API for the cluster's language models. It lists and describes them; for a
// change it names the command that makes it. Pure.
//
// minWorkers in `cluster import` becomes the number of replicas, and the API scales replicas. The
// processes listed as workers are the shards of all replicas.
#pragma once

#include "gateway/api/torchserve/torchserve_target.hpp"
#include "gateway/base/http_text.hpp"
#include "gateway/state/gateway_state.hpp"

#include <initializer_list>
#include <map>
#include <string>

namespace baton::gateway {

struct managed_model {
  std::string name;                   // of its model card
  std::optional<std::string> version; // as requested: "1.0", or not given
};

// Resolves a model that serves or still loads. Errors: model_not_found; with param
// torchserve_version_param if it lacks the version.
result<managed_model> find_managed(const snapshot& s, const gateway_config& config,
                                   const std::string& model,
                                   const std::optional<std::string>& version);

// {"nextPageToken","models":[{"modelName","modelUrl"}]}. As in TorchServe, `limit` and
// `next_page_token` out of range become their defaults. Errors: invalid_value. `further`: names and
// sources of models other than the pipelines'.
using model_urls = std::map<std::string, std::string>;
result<http_reply> list_managed(const snapshot& s, const torchserve_target& asked,
                                model_urls further = {});
// [{"modelName",...,"workers","jobQueueStatus"}]
http_reply describe_managed(const snapshot& s, const gateway_config& config,
                            const managed_model& model, bool is_customized);
// Checks that `min_worker` to `max_worker` replicas serve now. Errors: invalid_value; conflict,
// with the command that changes it.
result<http_reply> scale_managed(const snapshot& s, const managed_model& model,
                                 const torchserve_target& asked);
struct scale_range {
  std::int32_t least = 1, most = 1;
};
// Errors: unsupported_parameter, for the first query parameter that is not in `known`.
result<void> check_known(const torchserve_target& asked,
                         std::initializer_list<std::string_view> known);
// Errors: unsupported_parameter, invalid_value.
result<scale_range> read_scale(const torchserve_target& asked);
http_reply scaled_managed(std::int32_t workers, const managed_model& model);
// nodes.toml defines the served models; clients cannot change them.
error refusal_to_register();
error refusal_to_unregister();
http_reply set_default_managed(const managed_model& model);
// KServe's {"name","ready"}.
http_reply ready_managed(const snapshot& s, const managed_model& model);

} // namespace baton::gateway
