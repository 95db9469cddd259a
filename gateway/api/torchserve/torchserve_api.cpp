#include "gateway/api/torchserve/torchserve_api.hpp"

#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/api/openai/request/openai_tools.hpp"
#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/api/torchserve/torchserve_models.hpp"
#include "gateway/api/torchserve/torchserve_openapi.hpp"
#include "gateway/api/torchserve/torchserve_response.hpp"
#include "gateway/api/torchserve/torchserve_store.hpp"
#include "gateway/api/torchserve/torchserve_worker.hpp"
#include "gateway/base/http_header.hpp"

#include <utility>

namespace baton::gateway {
namespace {

using operation = torchserve_operation;

http_reply refuse(const error& e) {
  return torchserve_failure(e);
}

api_call plan_of(result<http_reply> made) {
  return made ? *std::move(made) : refuse(made.error());
}

api_call plan_of(result<change_model> order) {
  if (!order) {
    return refuse(order.error());
  }
  message_call call;
  call.writer = write_message<model_changed>(
      [asked = *order](const model_changed& done) { return store_reply(asked, done); });
  call.request = *std::move(order);
  call.family = &torchserve_family;
  return call;
}

// Counts so many predictions, now and when the call ends well.
void count_predictions(generation_call& call, gateway_state& facts, bool has_version,
                       std::size_t count) {
  const auto& model = call.requests.front().model;
  for (std::size_t i = 0; i < count; ++i) {
    facts.torchserve().asked(model, has_version);
  }
  call.reword = [model](error e) { return torchserve_busy(std::move(e), model); };
  call.ended_well = [&facts, model, has_version, count](const reply_times& when) {
    for (std::size_t i = 0; i < count; ++i) {
      facts.torchserve().predicted(model, has_version, when.granted - when.read,
                                   when.ended - when.read);
    }
  };
  call.family = &torchserve_family;
}

// Its clients cannot resume a stream.
generation_call answer_of(torchserve_generate asked, const http_call& call, gateway_state& facts) {
  auto out = open_prompts(asked.call);
  count_predictions(out, facts, asked.has_version, 1);
  out.event_type = media_type_of(asked.speaks);
  out.frames_itself = true;
  const auto& shape = asked.call.shape;
  if (asked.speaks == torchserve_format::openai) {
    out.whole = [shape](const std::string&) { return std::make_unique<openai_unary>(shape); };
    out.events = [shape, is_chunked = !call.is_http_1_0](const std::string&,
                                                         const reply_identity& who) {
      return std::make_unique<torchserve_events>(shape, who, is_chunked);
    };
    return out;
  }
  const torchserve_shape as{asked.speaks, shape.echo.empty() ? std::string() : shape.echo.front(),
                            shape.has_logprobs};
  out.whole = [as](const std::string&) { return std::make_unique<torchserve_unary>(as); };
  out.events = [as](const std::string&, const reply_identity&) {
    return std::make_unique<torchserve_pieces>(as);
  };
  return out;
}

generation_call answer_of(torchserve_batch asked, gateway_state& facts) {
  generation_call out;
  out.requests = std::move(asked.requests);
  out.client_names = std::move(asked.client_names);
  const auto count = out.requests.size();
  out.whole = [count](const std::string&) {
    return std::make_unique<torchserve_predictions>(count);
  };
  count_predictions(out, facts, /*has_version=*/false, count);
  return out;
}

torchserve_body body_of(const http_call& call) {
  return {call.content_type, call.accept, call.body, !call.is_http_1_0};
}

http_reply ping_reply(const snapshot& s) {
  const bool is_well = standing_of(s).phase == phase::ready;
  return torchserve_reply(is_well ? "{\n  \"status\": \"Healthy\"\n}"
                                  : "{\n  \"status\": \"Unhealthy\"\n}",
                          is_well ? 200 : 500);
}

std::optional<http_reply> refuse_head(const http_call& call, const torchserve_route& route) {
  if (route.is == operation::none) {
    return refuse(
        fail(errc::not_found, "Requested resource is not found, please refer to API document."));
  }
  if (!route.takes(call.method)) {
    auto reply = refuse(fail(errc::method_not_allowed,
                             "Requested method is not allowed, please refer to API document."));
    reply.headers.emplace_back("Allow", std::string(route.methods) + ", OPTIONS");
    return reply;
  }
  const bool is_read = call.method == "GET" || call.method == "HEAD" || call.method == "OPTIONS";
  if (!is_read && is_foreign(call.origin, call.host)) {
    return refuse(fail(errc::forbidden, "requests from pages of other sites are refused"));
  }
  if (!call.content_encoding.empty() && lower(call.content_encoding) != "identity") {
    return refuse(fail(errc::unsupported_media_type, "the body must not be compressed"));
  }
  return std::nullopt;
}

result<principal> identify(const http_call& call, const torchserve_route* route,
                           gateway_state& facts) {
  const bool is_open =
      route && (route->is == operation::describe_api || route->is == operation::ping);
  const bool is_metrics = call.listener == listener_kind::torchserve_metrics;
  const auto& authenticator = facts.authenticator();
  const bool is_local_metrics = is_metrics && is_local_name(facts.config().torchserve.metrics);
  if (is_open || is_local_metrics) {
    return principal{};
  }
  auto who = authenticator.identify(bearer_key(call.authorization));
  const bool is_admins = is_metrics || call.listener == listener_kind::torchserve_management;
  if (who && is_admins && who->role != key_role::admin) {
    return fail(errc::unauthorized, "this address needs the API key of an admin");
  }
  return who;
}

// Resolves the model from the path or the body; both may not name one.
result<std::string> model_for(const torchserve_route& route, const std::string& named,
                              gateway_state& facts) {
  const auto now = facts.look();
  const auto& config = facts.config();
  const auto& asked = route.name == "/invocations" && route.model.empty() ? named : route.model;
  if (route.name == "/invocations" && asked.empty()) {
    const bool is_alone =
        !now->pipelines.empty() &&
        pipelines_of(*now, model_of(now->pipelines.front())).size() == now->pipelines.size();
    return is_alone ? result<std::string>(model_of(now->pipelines.front()))
                    : fail(errc::invalid_request, "Parameter model_name is required.");
  }
  auto model = find_managed(*now, config, asked, route.version);
  if (!model) {
    return model.error();
  }
  if (!named.empty()) {
    const auto other = find_managed(*now, config, named, {});
    if (!other) {
      return other.error();
    }
    if (other->name != model->name) {
      return fail_param(errc::invalid_value, "model",
                        "the address names the model '{}' and the body the model '{}'", model->name,
                        other->name);
    }
  }
  return model->name;
}

api_call predict_worker(const worker_view& of, const http_call& call, const torchserve_route& route,
                        const torchserve_target& target, gateway_state& facts) {
  if (!route.suffix.empty()) {
    return refuse(fail(errc::not_found, "Unknown API endpoint: {}", route.suffix.substr(0, 256)));
  }
  auto asked = read_worker_prediction(of, call, route, target);
  if (!asked) {
    return refuse(asked.error());
  }
  asked->ended_well = begin_prediction(facts, of.name, route.version.value_or(std::string()));
  return *std::move(asked);
}

api_call predict_openai(const http_call& call, const torchserve_route& route,
                        gateway_state& facts) {
  if (const auto model = model_for(route, {}, facts); !model) {
    return refuse(model.error());
  }
  const auto& config = facts.config();
  if (route.suffix == "v1/models") {
    return torchserve_reply(models_body(models_of(*facts.look()), config.model_aliases));
  }
  const bool is_chat = route.suffix == "v1/chat/completions";
  if (!is_chat && route.suffix != "v1/completions") {
    return refuse(fail(errc::not_found, "Unknown API endpoint: {}", route.suffix.substr(0, 256)));
  }
  auto parsed = parse_openai_prediction(is_chat ? openai_api::chat : openai_api::completions,
                                        body_of(call), config.request);
  if (!parsed) {
    return refuse(parsed.error());
  }
  auto& asked = parsed->call;
  const auto model = model_for(route, asked.request.model, facts);
  if (!model) {
    return refuse(model.error());
  }
  if (is_chat) {
    const auto card = find_model(*facts.look(), config.model_aliases, *model);
    if (!card && asked.tools) {
      return refuse(card.error());
    }
    if (card) {
      if (auto ok = settle_answer(asked, *card); !ok) {
        return refuse(ok.error());
      }
    }
  }
  asked.shape.model = asked.request.model.empty() ? *model : asked.request.model;
  asked.request.model = *model;
  for (auto& further : asked.further) {
    further.model = *model;
  }
  parsed->has_version = true;
  return answer_of(*std::move(parsed), call, facts);
}

api_call predict(const http_call& call, const torchserve_route& route,
                 const torchserve_target& target, gateway_state& facts) {
  if (const auto worker = find_managed_worker(facts, route.model, route.version)) {
    return *worker ? predict_worker(**worker, call, route, target, facts) : refuse(worker->error());
  }
  if (!route.suffix.empty()) {
    return predict_openai(call, route, facts);
  }
  if (route.name != "/invocations") { // an unknown model is reported before an invalid body
    if (const auto model = model_for(route, {}, facts); !model) {
      return refuse(model.error());
    }
  }
  auto parsed = parse_prediction(body_of(call), facts.config().request);
  if (!parsed) {
    return refuse(parsed.error());
  }
  const auto model = model_for(route, parsed->call.request.model, facts);
  if (!model) {
    return refuse(model.error());
  }
  parsed->call.request.model = *model;
  parsed->has_version = route.version.has_value();
  return answer_of(*std::move(parsed), call, facts);
}

api_call predict_kserve(const http_call& call, const torchserve_route& route,
                        const torchserve_target& target, gateway_state& facts) {
  // A handler's service envelope unpacks the instances itself.
  if (const auto worker = find_managed_worker(facts, route.model, route.version)) {
    return *worker ? predict_worker(**worker, call, route, target, facts) : refuse(worker->error());
  }
  const auto model = model_for(route, {}, facts);
  if (!model) {
    return refuse(model.error());
  }
  auto parsed = parse_instances(call.body, facts.config().request);
  if (!parsed) {
    return refuse(parsed.error());
  }
  for (auto& request : parsed->requests) {
    if (const auto same = model_for(route, request.model, facts); !same) {
      return refuse(same.error());
    }
    request.model = *model;
  }
  return answer_of(*std::move(parsed), facts);
}

api_call manage_stored(const http_call& call, const torchserve_route& route,
                       const torchserve_target& target) {
  if (route.is == operation::set_default) {
    return plan_of(order_of(model_order::set_default, route.model, route.version));
  }
  return call.method == "PUT"
             ? plan_of(read_scaling(route.model, route.version, target))
             : plan_of(order_of(model_order::unregister_model, route.model, route.version));
}

api_call manage_worker(const worker_view& of, const http_call& call, const torchserve_route& route,
                       const torchserve_target& target, gateway_state& facts) {
  const auto now = facts.look();
  const managed_model model{of.name, route.version};
  const auto versions = versions_of_worker(facts, of.name);
  if (route.is == operation::set_default) {
    return plan_of(set_default_worker(versions.empty() ? of : versions.front(), model));
  }
  if (route.is == operation::kserve_ready) {
    return ready_worker(of, *now);
  }
  if (call.method == "PUT") {
    return plan_of(scale_worker(of, model, target));
  }
  if (call.method == "DELETE") {
    return refuse(refusal_to_unregister());
  }
  const auto wanted = target.find("customized");
  const bool is_customized = wanted && lower(*wanted) == "true";
  return describe_worker(*now, route.version == "all" ? versions : std::vector{of}, is_customized);
}

api_call manage_model(const http_call& call, const torchserve_route& route,
                      const torchserve_target& target, gateway_state& facts) {
  const auto now = facts.look();
  const auto& config = facts.config();
  const bool is_read = call.method == "GET" || call.method == "HEAD";
  auto version = route.version;
  if (route.is == operation::manage_model && is_read && version == "all") {
    version.reset();
  }
  if (!is_read && is_stored(facts, route.model)) {
    return manage_stored(call, route, target);
  }
  if (const auto worker = find_managed_worker(facts, route.model, version)) {
    return *worker ? manage_worker(**worker, call, route, target, facts) : refuse(worker->error());
  }
  const auto model = find_managed(*now, config, route.model, version);
  if (!model) {
    return refuse(model.error());
  }
  if (route.is == operation::set_default) {
    return set_default_managed(*model);
  }
  if (route.is == operation::kserve_ready) {
    return ready_managed(*now, *model);
  }
  if (call.method == "PUT") {
    return plan_of(scale_managed(*now, *model, target));
  }
  if (call.method == "DELETE") {
    return refuse(refusal_to_unregister());
  }
  const auto wanted = target.find("customized");
  return describe_managed(*now, config, *model, wanted && lower(*wanted) == "true");
}

api_call manage(const http_call& call, const torchserve_route& route,
                const torchserve_target& target, gateway_state& facts) {
  if (route.is == operation::renew_token) {
    return refuse(fail(errc::method_not_allowed,
                       "tokens are API keys here: `cluster keygen --api NAME FILE` makes them"));
  }
  if (route.is != operation::list_models) {
    return manage_model(call, route, target, facts);
  }
  if (call.method == "POST") {
    return has_store(facts) ? plan_of(read_registration(target)) : refuse(refusal_to_register());
  }
  return plan_of(list_managed(*facts.look(), target, worker_urls(facts)));
}

} // namespace

http_admission admit_torchserve(const http_call& call, const torchserve_found& found,
                                gateway_state& facts) {
  // DNS rebinding: no keyless route is read through a name that resolves to this machine.
  const auto& addresses = facts.config().torchserve;
  const auto& own =
      call.listener == listener_kind::torchserve_metrics ? addresses.metrics : addresses.management;
  const bool is_keyless =
      call.listener == listener_kind::torchserve_metrics ||
      (call.listener == listener_kind::torchserve_management && !facts.authenticator().needs_key());
  if (is_keyless && is_local_name(own) && !is_local_name(call.host)) {
    return {{}, refuse(fail(errc::forbidden, "this address is only served as localhost"))};
  }
  const auto& [target, route] = found;
  auto who = identify(call, &route, facts);
  if (!who) {
    return {{}, refuse(who.error())};
  }
  if (!target) {
    return {{}, refuse(target.error())};
  }
  return {*std::move(who), refuse_head(call, route)};
}

api_call plan_torchserve(const http_call& call, const torchserve_found& found,
                         gateway_state& facts) {
  const auto& [target, route] = found;
  if (!target) {
    return refuse(target.error());
  }
  if (route.is == operation::describe_api || call.method == "OPTIONS") {
    return torchserve_reply(torchserve_openapi(call.listener, facts.config(), has_store(facts)));
  }
  switch (route.is) {
  case operation::ping:
    return ping_reply(*facts.look());
  case operation::predict:
    return predict(call, route, *target, facts);
  case operation::predict_kserve:
    return predict_kserve(call, route, *target, facts);
  case operation::explain:
    if (is_worker_model(facts, route.model)) { // the handler distinguishes it by a header
      return predict(call, route, *target, facts);
    }
    return refuse(fail(errc::not_found, "Requested resource is not found: language models have "
                                        "no explanations."));
  case operation::metrics: {
    http_reply reply;
    reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    const auto workers = facts.worker_views();
    for (const auto& card : models_of(*facts.look())) {
      facts.torchserve().know(card.name);
    }
    for (const auto& worker : workers) {
      facts.torchserve().know(worker.name);
    }
    reply.body = facts.torchserve().text(target->all("name[]"), *facts.handler_metrics(), workers);
    return reply;
  }
  default:
    return manage(call, route, *target, facts);
  }
}

} // namespace baton::gateway
