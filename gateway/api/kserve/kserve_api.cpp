#include "gateway/api/kserve/kserve_api.hpp"

#include "gateway/api/kserve/kserve_error.hpp"
#include "gateway/api/kserve/kserve_model.hpp"
#include "gateway/api/kserve/kserve_repository.hpp"
#include "gateway/api/kserve/kserve_worker_model.hpp"
#include "gateway/api/kserve/kserve_worker_reply.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/base/json_reader.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/metrics/kserve_metrics.hpp"

#include <algorithm>
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

// A path below /v2/models or /v2/repository/models.
struct model_path {
  std::string model;
  std::string version; // empty: not in the path
  std::string action;  // empty: the model's metadata
};

model_path model_path_of(std::string_view path) {
  const auto parts = parts_of(path);
  model_path out;
  const std::size_t at = parts[1] == "repository" ? 3 : 2;
  out.model = percent_decoded(parts[at]).value_or(std::string(parts[at]));
  std::size_t next = at + 1;
  if (next + 1 < parts.size() && parts[next] == "versions") {
    out.version = percent_decoded(parts[next + 1]).value_or(std::string(parts[next + 1]));
    next += 2;
  }
  if (next < parts.size()) {
    out.action = parts[next];
  }
  return out;
}

class kserve_planner {
public:
  kserve_planner(const http_call& call, const gateway_state& facts)
      : call_(call), facts_(facts), now_(facts.look()) {}

  http_plan plan(std::string_view path) const {
    if (path == "/v2") {
      return json_reply(kserve_server_body(facts_.config().build));
    }
    if (path == "/v2/health/live") {
      return json_reply(R"({"live":true})");
    }
    if (path == "/v2/health/ready") {
      const auto stand = standing_of(*now_);
      return stand.phase == phase::ready
                 ? json_reply(R"({"ready":true})")
                 : text_error(not_ready_status, "the server is not ready: " + stand.reason);
    }
    if (path == "/v2/models/stats") {
      return json_reply(kserve_statistics_body(all_statistics(facts_, *now_)));
    }
    if (path == "/v2/repository/index") {
      return index();
    }
    const auto where = model_path_of(path);
    if (where.action == "load" || where.action == "unload") {
      if (auto change = change_of(where)) {
        return *std::move(change);
      }
    }
    if (const auto worker = kserve_worker_named(facts_, where.model, where.version)) {
      return *worker ? plan_worker(where, **worker) : kserve_failure(worker->error());
    }
    const auto name =
        kserve_model_named(*now_, facts_.config().model_aliases, where.model, where.version);
    if (!name) {
      return kserve_failure(name.error());
    }
    return plan_model(where, *name);
  }

private:
  http_plan plan_model(const model_path& where, const std::string& name) const {
    if (where.action == "infer") {
      return opened(kserve_route::infer, where.model);
    }
    if (where.action == "generate") {
      return opened(kserve_route::generate, where.model);
    }
    if (where.action == "generate_stream") {
      return opened(kserve_route::generate_stream, where.model);
    }
    if (where.action == "ready") {
      return kserve_is_ready(*now_, name)
                 ? json_reply(json_text(json({{"name", where.model}, {"ready", true}})))
                 : text_error(not_ready_status, "Model version not ready");
    }
    if (where.action == "config") {
      return config(where.model, name);
    }
    if (where.action == "stats") {
      return json_reply(kserve_statistics_body(statistics_of(*now_, facts_.metrics(), name)));
    }
    if (where.action == "load") {
      return load([&] { return check_loaded(*now_, name); });
    }
    if (where.action == "unload") {
      return kserve_failure(refusal_to_unload(where.model));
    }
    return json_reply(kserve_metadata_body(where.model));
  }

  http_plan plan_worker(const model_path& where, const worker_view& of) const {
    if (where.action == "infer") {
      return asked(kserve_route::infer, where, of);
    }
    if (where.action == "generate") {
      return asked(kserve_route::generate, where, of);
    }
    if (where.action == "generate_stream") {
      return asked(kserve_route::generate_stream, where, of);
    }
    if (where.action == "ready") {
      return is_ready(of, *now_) ? json_reply(json_text(json({{"name", of.name}, {"ready", true}})))
                                 : text_error(not_ready_status, "Model version not ready");
    }
    if (where.action == "config") {
      return json_reply(worker_config_body(of));
    }
    if (where.action == "stats") {
      return json_reply(
          kserve_statistics_body(statistics_of_worker(facts_, of.name, where.version)));
    }
    if (where.action == "load") {
      return load([&] { return check_worker_loaded(of, *now_); });
    }
    if (where.action == "unload") {
      return kserve_failure(refusal_to_unload(of.name));
    }
    return json_reply(worker_metadata_body(facts_, of));
  }

  // Events of these routes have no ids, so a stream cannot be resumed.
  result<void> check_is_new() const {
    return call_.last_event_id.empty() ? result<void>()
                                       : fail_param(errc::unsupported_parameter, "Last-Event-ID",
                                                    "only streams of /v1 can be resumed");
  }

  http_plan asked(kserve_route route, const model_path& where, const worker_view& of) const {
    if (auto ok = check_is_new(); !ok) {
      return kserve_failure(ok.error());
    }
    const auto& limits = facts_.config().request;
    auto read = route == kserve_route::infer
                    ? read_worker_infer(of, call_.body, call_.infer_header_length, limits)
                    : read_worker_generate(of, route, call_.body, limits);
    if (!read) {
      return kserve_failure(read.error());
    }
    worker_call out;
    out.request = std::move(read->request);
    out.request.version = where.version;
    if (call_.headers_for_handlers) {
      out.request.headers = call_.headers_for_handlers();
    }
    out.speaks = api_family::kserve;
    if (route == kserve_route::generate_stream) {
      out.how = std::make_unique<kserve_worker_events>(std::move(read->shape));
    } else {
      out.how = std::make_unique<kserve_worker_unary>(std::move(read->shape));
    }
    return out;
  }

  http_plan opened(kserve_route route, const std::string& model) const {
    const auto& config = facts_.config();
    if (auto ok = check_is_new(); !ok) {
      return kserve_failure(ok.error());
    }
    auto call = route == kserve_route::infer
                    ? parse_infer(call_.body, call_.infer_header_length, config.request)
                    : parse_generate(call_.body, config.request);
    if (!call) {
      return kserve_failure(call.error());
    }
    auto read = read_kserve(route, *std::move(call), model, config);
    if (!read) {
      return kserve_failure(read.error());
    }
    return *std::move(read);
  }

  http_reply config(const std::string& model, const std::string& name) const {
    auto body = kserve_config_of(*now_, model, name);
    return body ? json_reply(*std::move(body)) : kserve_failure(body.error());
  }

  // An empty body lists all models.
  http_reply index() const {
    bool ready_only = false;
    if (!call_.body.empty()) {
      const auto parsed = parse_body(call_.body, facts_.config().request.json_depth_max);
      if (!parsed) {
        return kserve_failure(parsed.error());
      }
      field_reader fields(*parsed);
      ready_only = fields.boolean("ready", false);
      if (auto ok = fields.finish(); !ok) {
        return kserve_failure(ok.error());
      }
    }
    return json_reply(kserve_index_body(all_standings(facts_, *now_), ready_only));
  }

  // Nothing: the model is not in a model repository.
  std::optional<http_plan> change_of(const model_path& where) const {
    json parameters;
    if (!call_.body.empty()) {
      const auto parsed = parse_body(call_.body, facts_.config().request.json_depth_max);
      if (!parsed) {
        return kserve_failure(parsed.error());
      }
      field_reader fields(*parsed);
      if (const auto* given = fields.find("parameters"); given && !given->is_object()) {
        fields.refuse_type("parameters", "an object", *given);
      } else if (given) {
        parameters = *given;
      }
      if (auto ok = fields.finish(); !ok) {
        return kserve_failure(ok.error());
      }
    }
    const auto change =
        plan_model_change(facts_, where.model, where.action == "unload", parameters);
    if (!change) {
      return std::nullopt;
    }
    return *change ? http_plan(repository_call{**change}) : kserve_failure(change->error());
  }

  // Accepts no parameters.
  template <class Check>
  http_reply load(Check check) const {
    if (!call_.body.empty()) {
      const auto parsed = parse_body(call_.body, facts_.config().request.json_depth_max);
      if (!parsed) {
        return kserve_failure(parsed.error());
      }
      field_reader fields(*parsed);
      fields.object(
          "parameters", [](field_reader&) {}, unsupported_of_load);
      if (auto ok = fields.finish(); !ok) {
        return kserve_failure(ok.error());
      }
    }
    if (auto ok = check(); !ok) {
      return kserve_failure(ok.error());
    }
    return json_reply("{}");
  }

  static constexpr unsupported_field unsupported_of_load[] = {{"config", "", "nodes.toml"}};

  const http_call& call_;
  const gateway_state& facts_;
  std::shared_ptr<const snapshot> now_;
};

} // namespace

http_plan plan_kserve(std::string_view path, const http_call& call, const gateway_state& facts) {
  return kserve_planner(call, facts).plan(path);
}

} // namespace baton::gateway
