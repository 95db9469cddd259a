#include "gateway/api/kserve/kserve_routes.hpp"

#include "gateway/api/kserve/calls/kserve_error.hpp"
#include "gateway/api/kserve/calls/kserve_response.hpp"
#include "gateway/api/kserve/kserve_openapi.hpp"
#include "gateway/api/kserve/models/kserve_model.hpp"
#include "gateway/api/kserve/models/kserve_repository.hpp"
#include "gateway/api/kserve/models/kserve_worker_model.hpp"
#include "gateway/api/kserve/workers/kserve_worker_reply.hpp"
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/metrics/kserve_metrics.hpp"
#include "gateway/request/json_reader.hpp"

#include <vector>

namespace baton::gateway {
namespace {

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at != path.npos;) {
    const auto end = path.find('/', at + 1);
    parts.push_back(path.substr(at + 1, end == path.npos ? end : end - at - 1));
    at = end;
  }
  return parts;
}

http_reply text_error(int status, std::string message) {
  http_reply r;
  r.status = status;
  const json body{{"error", std::move(message)}};
  r.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  return r;
}

// Triton's status for a server or a model that is not ready.
constexpr int not_ready_status = 400;

api_call ready_reply(bool is_ready, const std::string& name) {
  return is_ready ? json_reply(json_text(json({{"name", name}, {"ready", true}})))
                  : text_error(not_ready_status, "Model version not ready");
}

// The model that a path below /v2/models or /v2/repository/models names.
struct model_path {
  std::string model;
  std::string version; // empty: not in the path
};

model_path model_path_of(const http_call& call) {
  const auto parts = parts_of(path_of(call.target));
  const auto decoded = [](std::string_view part) {
    return percent_decoded(part).value_or(std::string(part));
  };
  const std::size_t at = parts[1] == "repository" ? 3 : 2;
  model_path out{decoded(parts[at]), {}};
  if (at + 2 < parts.size() && parts[at + 1] == "versions") {
    out.version = decoded(parts[at + 2]);
  }
  return out;
}

// Calls `of_worker` with a worker model of that name, else `of_model` with the pipelines' name of a
// language model.
template <class OfWorker, class OfModel>
api_call with_model(const model_path& where, const gateway_state& facts, OfWorker of_worker,
                    OfModel of_model) {
  if (const auto worker = kserve_worker_named(facts, where.model, where.version)) {
    return *worker ? api_call(of_worker(**worker)) : kserve_failure(worker->error());
  }
  const auto name =
      kserve_model_named(*facts.look(), facts.config().model_aliases, where.model, where.version);
  return name ? api_call(of_model(*name)) : kserve_failure(name.error());
}

api_call describe_kserve(const http_call& /*call*/, gateway_state& facts) {
  return json_reply(kserve_server_body(facts.config().build));
}

api_call live_kserve(const http_call& /*call*/, gateway_state& /*facts*/) {
  return json_reply(R"({"live":true})");
}

api_call server_ready(const http_call& /*call*/, gateway_state& facts) {
  const auto stand = standing_of(*facts.look());
  return stand.phase == phase::ready
             ? json_reply(R"({"ready":true})")
             : text_error(not_ready_status, "the server is not ready: " + stand.reason);
}

api_call statistics_of_all(const http_call& /*call*/, gateway_state& facts) {
  return json_reply(kserve_statistics_body(all_statistics(facts, *facts.look())));
}

api_call model_metadata(const http_call& call, gateway_state& facts) {
  const auto where = model_path_of(call);
  return with_model(
      where, facts,
      [&](const worker_view& of) { return json_reply(worker_metadata_body(facts, of)); },
      [&](const std::string&) { return json_reply(kserve_metadata_body(where.model)); });
}

api_call model_ready(const http_call& call, gateway_state& facts) {
  const auto where = model_path_of(call);
  const auto now = facts.look();
  return with_model(
      where, facts, [&](const worker_view& of) { return ready_reply(is_ready(of, *now), of.name); },
      [&](const std::string& name) {
        return ready_reply(kserve_is_ready(*now, name), where.model);
      });
}

api_call model_config(const http_call& call, gateway_state& facts) {
  const auto where = model_path_of(call);
  return with_model(
      where, facts, [](const worker_view& of) { return json_reply(worker_config_body(of)); },
      [&](const std::string& name) {
        auto body = kserve_config_of(*facts.look(), where.model, name);
        return body ? json_reply(*std::move(body)) : kserve_failure(body.error());
      });
}

api_call model_stats(const http_call& call, gateway_state& facts) {
  const auto where = model_path_of(call);
  return with_model(
      where, facts,
      [&](const worker_view& of) {
        return json_reply(
            kserve_statistics_body(statistics_of_worker(facts, of.name, where.version)));
      },
      [&](const std::string& name) {
        return json_reply(
            kserve_statistics_body(statistics_of(*facts.look(), facts.metrics(), name)));
      });
}

template <kserve_route route>
api_call infer_by_worker(const http_call& call, const gateway_state& facts,
                         const std::string& version, const worker_view& of) {
  const auto& limits = facts.config().request;
  auto read = route == kserve_route::infer
                  ? read_worker_infer(of, call.body, call.infer_header_length, limits)
                  : read_worker_generate(of, route, call.body, limits);
  if (!read) {
    return kserve_failure(read.error());
  }
  worker_call out;
  out.request = std::move(read->request);
  out.request.version = version;
  if (call.headers_for_handlers) {
    out.request.headers = call.headers_for_handlers();
  }
  if (route == kserve_route::generate_stream) {
    out.writer = std::make_unique<kserve_worker_events>(std::move(read->shape));
  } else {
    out.writer = std::make_unique<kserve_worker_unary>(std::move(read->shape));
  }
  out.family = &kserve_family;
  return out;
}

template <kserve_route route>
api_call infer_by_model(const http_call& call, const gateway_state& facts,
                        const std::string& model) {
  const auto& config = facts.config();
  auto parsed = route == kserve_route::infer
                    ? parse_infer(call.body, call.infer_header_length, config.request)
                    : parse_generate(call.body, config.request);
  if (!parsed) {
    return kserve_failure(parsed.error());
  }
  return with_parsed(read_kserve(route, *std::move(parsed), model, config), kserve_family,
                     [](kserve_generate asked) {
                       generation_call out;
                       out.requests.push_back(std::move(asked.request));
                       out.client_names.push_back(std::move(asked.client_names));
                       out.is_stream = route == kserve_route::generate_stream;
                       out.whole = [shape = asked.shape](const std::string&) {
                         return std::make_unique<kserve_unary>(shape);
                       };
                       out.events = [shape = asked.shape](const std::string&,
                                                          const reply_identity&) {
                         return std::make_unique<kserve_events>(shape);
                       };
                       out.family = &kserve_family;
                       return out;
                     });
}

template <kserve_route route>
api_call model_infer(const http_call& call, gateway_state& facts) {
  const auto where = model_path_of(call);
  const auto is_new = check_is_new(call);
  return with_model(
      where, facts,
      [&](const worker_view& of) {
        return is_new ? infer_by_worker<route>(call, facts, where.version, of)
                      : kserve_failure(is_new.error());
      },
      [&](const std::string&) {
        return is_new ? infer_by_model<route>(call, facts, where.model)
                      : kserve_failure(is_new.error());
      });
}

// Reads the members of a body by `read`; an empty body has none.
template <class Read>
result<void> read_members(const http_call& call, const gateway_state& facts, Read read) {
  if (call.body.empty()) {
    return {};
  }
  const auto parsed = parse_body(call.body, facts.config().request.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  read(fields);
  return fields.finish();
}

// An empty body lists all models.
api_call repository_index(const http_call& call, gateway_state& facts) {
  bool ready_only = false;
  const auto ok = read_members(
      call, facts, [&](field_reader& fields) { ready_only = fields.boolean("ready", false); });
  return ok ? json_reply(kserve_index_body(all_standings(facts, *facts.look()), ready_only))
            : kserve_failure(ok.error());
}

// The parameters of a load or unload: an object, or null.
result<json> repository_parameters(const http_call& call, const gateway_state& facts) {
  json parameters;
  const auto ok = read_members(call, facts, [&](field_reader& fields) {
    if (const auto* given = fields.find("parameters"); given && !given->is_object()) {
      fields.refuse_type("parameters", "an object", *given);
    } else if (given) {
      parameters = *given;
    }
  });
  return ok ? result<json>(std::move(parameters)) : ok.error();
}

// Nothing: the model is not in a model repository.
std::optional<api_call> change_repository(const gateway_state& facts, const std::string& model,
                                          bool is_unload, const json& parameters) {
  auto change = plan_model_change(facts, model, is_unload, parameters);
  if (!change) {
    return std::nullopt;
  }
  return with_parsed(*std::move(change), kserve_family, [](change_model asked) {
    message_call out;
    out.request = std::move(asked);
    out.writer =
        write_message<model_changed>([](const model_changed&) { return json_reply("{}"); });
    out.family = &kserve_family;
    return out;
  });
}

// A model of nodes.toml is loaded, or not yet.
http_reply load_reply(const result<void>& loaded) {
  return loaded ? json_reply("{}") : kserve_failure(loaded.error());
}

api_call load_model(const http_call& call, gateway_state& facts) {
  const auto where = model_path_of(call);
  const auto parameters = repository_parameters(call, facts);
  if (!parameters) {
    return kserve_failure(parameters.error());
  }
  if (auto change = change_repository(facts, where.model, /*is_unload=*/false, *parameters)) {
    return *std::move(change);
  }
  if (auto ok = check_load_parameters(*parameters); !ok) {
    return kserve_failure(ok.error());
  }
  const auto now = facts.look();
  return with_model(
      where, facts,
      [&](const worker_view& of) { return load_reply(check_worker_loaded(of, *now)); },
      [&](const std::string& name) { return load_reply(check_loaded(*now, name)); });
}

api_call unload_model(const http_call& call, gateway_state& facts) {
  const auto where = model_path_of(call);
  const auto parameters = repository_parameters(call, facts);
  if (!parameters) {
    return kserve_failure(parameters.error());
  }
  if (auto change = change_repository(facts, where.model, /*is_unload=*/true, *parameters)) {
    return *std::move(change);
  }
  return with_model(
      where, facts,
      [](const worker_view& of) { return kserve_failure(refusal_to_unload(of.name)); },
      [&](const std::string&) { return kserve_failure(refusal_to_unload(where.model)); });
}

} // namespace

constinit const api_family kserve_family{"KserveError", kserve_error_schema, kserve_refusal,
                                         [](const error& e) { return kserve_failure(e); }};

std::span<const route_row> kserve_routes() noexcept {
  using enum method_set;
  using enum route_access;
  constexpr auto row = [](std::string_view path, method_set methods, auto handler, route_doc doc,
                          route_access access = user, body_media takes = body_media::json_only) {
    return route_row{.path = path,
                     .methods = methods,
                     .access = access,
                     .family = &kserve_family,
                     .handler = handler,
                     .doc = doc,
                     .takes = takes};
  };
  constexpr auto tensors = body_media::json_and_bytes;
  constexpr auto infer = model_infer<kserve_route::infer>;
  constexpr auto generate = model_infer<kserve_route::generate>;
  constexpr auto generate_stream = model_infer<kserve_route::generate_stream>;
  constexpr route_doc of_model{"The model's tensors"};
  constexpr route_doc of_ready{"Whether the model is served"};
  constexpr route_doc of_config{"The model as Triton's config.pbtxt has it"};
  constexpr route_doc of_stats{"The model's statistics"};
  constexpr route_doc of_infer{"The continuation of a text, as tensors", kserve_infer_schema,
                               json_media, bytes_media};
  constexpr route_doc of_generate{"The same as members", kserve_generate_schema};
  constexpr route_doc of_stream{"The same as events", kserve_generate_schema, event_media};
  constexpr route_doc of_load{
      .summary = "Whether the model is loaded", .body = kserve_load_schema, .may_be_empty = true};
  constexpr route_doc of_unload{.summary = "Refused: nodes.toml says what is served",
                                .body = kserve_load_schema,
                                .may_be_empty = true};
  static constexpr route_row rows[] = {
      row("/v2", get, describe_kserve, {"The server, in the words of KServe v2"}),
      row("/v2/health/live", get, live_kserve, {"Whether the server answers"}, open),
      row("/v2/health/ready", get, server_ready, {"As /health"}, open),
      row("/v2/models/stats", get, statistics_of_all,
          {"Statistics of all models"}), // not a {model}
      row("/v2/models/{model}", get, model_metadata, of_model),
      row("/v2/models/{model}/ready", get, model_ready, of_ready),
      row("/v2/models/{model}/config", get, model_config, of_config),
      row("/v2/models/{model}/stats", get, model_stats, of_stats),
      row("/v2/models/{model}/infer", post, infer, of_infer, user, tensors),
      row("/v2/models/{model}/generate", post, generate, of_generate),
      row("/v2/models/{model}/generate_stream", post, generate_stream, of_stream),
      row("/v2/models/{model}/versions/{version}", get, model_metadata, of_model),
      row("/v2/models/{model}/versions/{version}/ready", get, model_ready, of_ready),
      row("/v2/models/{model}/versions/{version}/config", get, model_config, of_config),
      row("/v2/models/{model}/versions/{version}/stats", get, model_stats, of_stats),
      row("/v2/models/{model}/versions/{version}/infer", post, infer, of_infer, user, tensors),
      row("/v2/models/{model}/versions/{version}/generate", post, generate, of_generate),
      row("/v2/models/{model}/versions/{version}/generate_stream", post, generate_stream,
          of_stream),
      row("/v2/repository/index", post, repository_index,
          {.summary = "The models", .body = kserve_index_schema, .may_be_empty = true}),
      row("/v2/repository/models/{model}/load", post, load_model, of_load, admin),
      row("/v2/repository/models/{model}/unload", post, unload_model, of_unload, admin),
  };
  return rows;
}

} // namespace baton::gateway
