// The routes of TorchServe's REST API (v0.12) for inference, management and metrics, each at its
// own address (gateway.torchserve_*). A part of http_api.
//
// A key is sent as `Authorization: Bearer`. Inference accepts any key. Management, and metrics
// unless on loopback, require an admin's. /ping and the API description require none.
#pragma once

#include "gateway/api/torchserve/torchserve_target.hpp"
#include "gateway/request/api_call.hpp"
#include "gateway/state/refusal.hpp"

namespace baton::gateway {

// Both require: `found` is find_torchserve(call).
http_admission admit_torchserve(const http_call& call, const torchserve_found& found,
                                gateway_state& facts);
// Requires: admit_torchserve refused nothing.
api_call plan_torchserve(const http_call& call, const torchserve_found& found,
                         gateway_state& facts);

} // namespace baton::gateway
