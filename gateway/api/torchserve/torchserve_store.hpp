// The model store in the words of TorchServe's management API: what registering, unregistering and
// scaling a model ask of the root, and how its answer is told. Pure but for the board.
// https://pytorch.org/serve/management_api.html
#pragma once

#include "gateway/api/torchserve/torchserve_target.hpp"
#include "gateway/base/http_text.hpp"
#include "gateway/state/board.hpp"

#include <optional>
#include <string>

namespace baton::gateway {

// Whether clients may register models.
bool has_store(const board& facts) noexcept;
// Whether it is one of the store, however it stands.
bool is_stored(const board& facts, const std::string& model);

// `asked`: the query of a call, or the message of one of gRPC in its words. Errors:
// invalid_request, invalid_value, unsupported_parameter (each by name); forbidden, model_not_found
// (`url` is not the name of an archive in the store: nothing is downloaded).
result<change_model> read_registration(const torchserve_target& asked);
result<change_model> read_scaling(const std::string& model,
                                  const std::optional<std::string>& version,
                                  const torchserve_target& asked);
change_model order_of(model_order what, const std::string& model,
                      const std::optional<std::string>& version);

// Requires: done.failure is nothing.
http_reply tell_store(const change_model& asked, const model_changed& done);

} // namespace baton::gateway
