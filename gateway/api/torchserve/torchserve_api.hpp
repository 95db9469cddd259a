// The routes of TorchServe's REST API (v0.12) for inference, management and metrics, each at its
// own address (gateway.torchserve_*). A part of http_api.
//
// A key is sent as `Authorization: Bearer`. Inference accepts any key. Management, and metrics
// unless on loopback, require an admin's. /ping and the API description require none.
#pragma once

#include "gateway/api/torchserve/torchserve_target.hpp"
#include "gateway/routes/http_api.hpp"

#include <memory>
#include <string_view>

namespace baton::gateway {

class torchserve_api {
public:
  explicit torchserve_api(std::shared_ptr<gateway_state> facts) : facts_(std::move(facts)) {}

  http_api::access_result admit(const http_call& call) const;
  // Requires: admit(call) has accepted the call.
  http_plan plan(const http_call& call) const;
  static std::string_view route_name(const http_call& call);

private:
  result<principal> identify(const http_call& call, const torchserve_route* route) const;
  http_plan predict(const http_call& call, const torchserve_route& route) const;
  http_plan predict_openai(const http_call& call, const torchserve_route& route) const;
  http_plan predict_kserve(const http_call& call, const torchserve_route& route) const;
  http_plan predict_worker(const worker_view& of, const http_call& call,
                           const torchserve_route& route) const;
  http_plan manage(const http_call& call, const torchserve_route& route,
                   const torchserve_target& target) const;
  http_plan manage_model(const http_call& call, const torchserve_route& route,
                         const torchserve_target& target) const;
  http_plan manage_stored(const http_call& call, const torchserve_route& route,
                          const torchserve_target& target) const;
  http_plan manage_worker(const worker_view& of, const http_call& call,
                          const torchserve_route& route, const torchserve_target& target) const;
  result<std::string> model_for(const torchserve_route& route, const std::string& named) const;

  std::shared_ptr<gateway_state> facts_;
};

} // namespace baton::gateway
