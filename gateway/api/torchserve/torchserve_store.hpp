// The model store in TorchServe's management API: converts registering, unregistering and scaling
// to orders for the root, and its results to replies. Pure except that it reads the gateway state.
// https://pytorch.org/serve/management_api.html
#pragma once

#include "gateway/api/torchserve/torchserve_target.hpp"
#include "gateway/base/http_text.hpp"
#include "gateway/state/gateway_state.hpp"

#include <optional>
#include <string>

namespace baton::gateway {

// True if clients may register models.
bool has_store(const gateway_state& facts) noexcept;
// True if the model is in the store, in any state.
bool is_stored(const gateway_state& facts, const std::string& model);

// `asked`: the query of a call, or a gRPC message as one. Errors: invalid_request, invalid_value,
// unsupported_parameter (each with the name); forbidden, model_not_found (`url` is neither an
// archive in the store nor a URL).
result<change_model> read_registration(const torchserve_target& asked);
result<change_model> read_scaling(const std::string& model,
                                  const std::optional<std::string>& version,
                                  const torchserve_target& asked);
change_model order_of(model_order what, const std::string& model,
                      const std::optional<std::string>& version);

// Requires: done.failure is nothing.
http_reply store_reply(const change_model& asked, const model_changed& done);

} // namespace baton::gateway
