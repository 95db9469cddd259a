#include "gateway/grpc/grpc_health.hpp"

#include "gateway/api/kserve/models/kserve_worker_model.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/json_reader.hpp"

#include <array>

namespace baton::gateway {
namespace {

constexpr std::array<std::string_view, 3> status_names{"SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};

std::string_view status_name(health_status s) noexcept {
  return status_names[static_cast<std::size_t>(s)];
}

health_status status_if(bool is_serving) noexcept {
  return is_serving ? health_status::serving : health_status::not_serving;
}

// As for ModelReady: if keys are required, model names are visible only with a key.
bool may_see_models(const principal& who, gateway_state& facts) {
  const auto& authenticator = facts.authenticator();
  const auto now = authenticator.renew(who);
  return !authenticator.needs_key() || (now && now->account);
}

health_status health_of_model(std::string_view name, const snapshot& now, gateway_state& facts) {
  if (const auto worker = kserve_worker_named(facts, name, {})) {
    return status_if(!now.is_draining && *worker && is_ready(**worker, now));
  }
  const auto model = kserve_model_named(now, facts.config().model_aliases, name, {});
  return model ? status_if(!now.is_draining && kserve_is_ready(now, *model))
               : health_status::service_unknown;
}

std::string list_of(grpc_service service, const principal& who, gateway_state& facts) {
  const auto now = facts.look();
  auto all = json::object();
  const auto add = [&](std::string_view name) {
    all[std::string(name)] = {{"status", status_name(health_of(service, who, name, facts))}};
  };
  add({});
  add(gateway::name_of(service));
  add(gateway::name_of(grpc_service::health));
  if (may_see_models(who, facts)) {
    for (const auto& model : all_standings(facts, *now)) {
      add(model.name);
    }
  }
  return json_text(json({{"statuses", std::move(all)}}));
}

} // namespace

health_status health_of(grpc_service service, const principal& who, std::string_view name,
                        gateway_state& facts) {
  const auto now = facts.look();
  if (name.empty() || name == gateway::name_of(service) ||
      name == gateway::name_of(grpc_service::health)) {
    return status_if(standing_of(*now).phase == phase::ready);
  }
  return may_see_models(who, facts) ? health_of_model(name, *now, facts)
                                    : health_status::service_unknown;
}

std::string health_message(health_status now, const grpc_codec& codec) {
  return codec.message_of("grpc.health.v1.HealthCheckResponse",
                          json_text(json({{"status", status_name(now)}})));
}

result<std::string> health_question(std::string_view message, const grpc_codec& codec) {
  std::string asked;
  if (!codec.json_of("grpc.health.v1.HealthCheckRequest", message, asked)) {
    return fail(errc::invalid_request,
                "the message is not a valid grpc.health.v1.HealthCheckRequest");
  }
  return json::parse(asked).value("service", std::string());
}

result<std::string> answer_health(const grpc_method& method, grpc_service service,
                                  const principal& who, std::string_view message,
                                  const grpc_codec& codec, gateway_state& facts) {
  if (method.name == "List") {
    return codec.message_of(method.answers, list_of(service, who, facts));
  }
  const auto name = health_question(message, codec);
  if (!name) {
    return name.error();
  }
  const auto now = health_of(service, who, *name, facts);
  if (now == health_status::service_unknown) {
    return fail(errc::not_found, "there is no service or model '{}'", name->substr(0, 128));
  }
  return health_message(now, codec);
}

} // namespace baton::gateway
