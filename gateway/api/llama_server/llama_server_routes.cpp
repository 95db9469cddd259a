#include "gateway/api/llama_server/llama_server_routes.hpp"

#include "gateway/api/openai/openai_openapi.hpp"
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/json_reader.hpp"
#include "gateway/state/gateway_state.hpp"
#include "gateway/state/on_demand_order.hpp"
#include "schema/limits.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

// llama-server's word for the state of a model.
std::string_view status_of(const model_card& card) {
  switch (card.phase) {
  case phase::unloaded:
    return "unloaded";
  case phase::starting:
  case phase::loading:
    return "loading";
  default:
    return "loaded";
  }
}

api_call list_router_models(const http_call& /*call*/, gateway_state& facts) {
  auto all = ordered::array();
  for (const auto& card : models_of(*facts.look()))
    all.push_back({{"id", card.name},
                   {"object", "model"},
                   {"owned_by", "baton"},
                   {"created", card.created},
                   {"status", {{"value", status_of(card)}}}});
  return json_reply(json_text(ordered{{"object", "list"}, {"data", std::move(all)}}));
}

result<std::string> parse_router_model(const http_call& call, const gateway_state& facts) {
  const auto parsed = parse_body(call.body, facts.config().request.json_depth_max);
  if (!parsed)
    return parsed.error();
  field_reader fields(*parsed);
  fields.require("model");
  auto model = fields.text("model", "", limits::name_bytes_max);
  if (auto ok = fields.finish(); !ok)
    return ok.error();
  return model;
}

// The answer comes when the change has begun, as llama-server's does.
template <bool is_unload>
api_call change_router_model(const http_call& call, gateway_state& facts) {
  const auto model = parse_router_model(call, facts);
  if (!model)
    return error_reply(model.error());
  auto order = order_on_demand(facts, *model, is_unload);
  if (!order)
    return error_reply(order.error());
  message_call out;
  order->waits = false;
  out.request = *std::move(order);
  out.writer = write_message<model_changed>(
      [](const model_changed&) { return json_reply(R"({"success":true})"); });
  out.family = &openai_family;
  return out;
}

ordered router_model_schema(const gateway_config& /*config*/) {
  return {{"type", "object"},
          {"required", ordered::array({"model"})},
          {"properties", {{"model", type_schema("string")}}}};
}

} // namespace

std::span<const route_row> llama_server_routes() noexcept {
  using enum method_set;
  constexpr auto row = [](std::string_view path, method_set methods, auto handler, route_doc doc,
                          route_access access) {
    return route_row{.path = path,
                     .methods = methods,
                     .access = access,
                     .family = &openai_family,
                     .handler = handler,
                     .doc = doc};
  };
  static constexpr route_row rows[] = {
      row("/models", get, list_router_models,
          {"The models, and whether each is loaded, in llama-server's format"}, route_access::user),
      row("/models/load", post, change_router_model<false>,
          {"Loads a model on demand", router_model_schema}, route_access::admin),
      row("/models/unload", post, change_router_model<true>,
          {"Unloads a model on demand", router_model_schema}, route_access::admin),
  };
  return rows;
}

} // namespace baton::gateway
