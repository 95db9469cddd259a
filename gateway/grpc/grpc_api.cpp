#include "gateway/grpc/grpc_api.hpp"

#include "gateway/api/kserve/calls/kserve_error.hpp"
#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/api/torchserve/torchserve_store.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/json_reader.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

result<principal> identify(const grpc_method* method, const grpc_head& head,
                           const gateway_state& facts, const authenticator& at) {
  const auto access = method ? method->access : route_access::user;
  const auto key = bearer_key(metadata_of(head, "authorization"));
  // At the health service a valid key makes models visible.
  if (access == route_access::open && (key.empty() || method->service != grpc_service::health)) {
    return principal{};
  }
  const bool is_kserves = method && method->service == grpc_service::kserve;
  if (is_kserves && access == route_access::admin && !at.needs_key() &&
      !facts.config().admin.empty()) { // as over HTTP
    return fail(errc::forbidden, "'{}' is served at the operator's address (gateway.admin)",
                method->name);
  }
  auto who = at.identify(key);
  if (who && access == route_access::admin && who->role != key_role::admin) {
    return fail(errc::forbidden, "'{}' needs the API key of an admin", method->name);
  }
  return who;
}

} // namespace

std::string_view metadata_of(const grpc_head& head, std::string_view name) noexcept {
  std::string_view found;
  for (const auto& [key, value] : head.metadata) {
    if (key == name) {
      if (!found.empty()) {
        return {};
      }
      found = value;
    }
  }
  return found;
}

grpc_status grpc_failure(grpc_service service, const error& e,
                         std::chrono::milliseconds retry_after) {
  return grpc_failure(e.code,
                      service == grpc_service::kserve ? kserve_message(e) : torchserve_message(e),
                      retry_after);
}

std::optional<trace_parent> trace_of(const grpc_head& head) {
  auto parent = parse_traceparent(metadata_of(head, "traceparent"));
  if (parent) {
    parent->state = parse_tracestate(metadata_of(head, "tracestate"));
  }
  return parent;
}

result<principal> admit_grpc(grpc_service service, const grpc_head& head, gateway_state& facts) {
  const auto* method = find_grpc_method(service, head.method);
  auto who = identify(method, head, facts, facts.authenticator());
  if (!who) {
    return who;
  }
  if (!method) {
    return fail(errc::method_not_allowed, "there is no method '{}' at this address",
                head.method.substr(0, 128));
  }
  if (!method->instead.empty()) {
    return fail(errc::method_not_allowed, "{} is not supported by this server: {}", method->name,
                method->instead);
  }
  if (facts.tracer()) {
    who->trace = trace_of(head);
  }
  return who;
}

grpc_plan plan_grpc(const grpc_method& method, std::string_view message, const grpc_codec& codec,
                    gateway_state& facts) {
  const bool is_kserves = method.service == grpc_service::kserve;
  if (method.asks.empty()) {
    return is_kserves ? plan_kserve_infer(method, message, codec, facts)
                      : plan_torchserve_prediction(method, message, codec, facts);
  }
  std::string asked;
  if (!codec.json_of(method.asks, message, asked)) {
    return fail(errc::invalid_request, "the message is not a valid {}", method.asks);
  }
  if (const auto change = is_kserves ? plan_repository_change(method, asked, facts)
                                     : plan_store_change(method, asked, facts)) {
    if (!*change) {
      return change->error();
    }
    return grpc_root_request{
        **change,
        [type = method.answers, is_kserves, order = **change, &codec](const model_changed& done) {
          const json reply{{"msg", is_kserves ? std::string() : store_reply(order, done).body}};
          return codec.message_of(type, is_kserves ? "{}" : json_text(reply));
        }};
  }
  const auto answer =
      is_kserves ? answer_kserve(method, asked, facts) : answer_torchserve(method, asked, facts);
  if (!answer) {
    return answer.error();
  }
  return grpc_reply{codec.message_of(method.answers, *answer)};
}

} // namespace baton::gateway
