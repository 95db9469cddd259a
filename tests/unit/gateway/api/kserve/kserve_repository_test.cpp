// Loads, unloads and the index of a model repository: operations for the root, and those refused
// before. No sockets, no actors.
#include "gateway/api/kserve/models/kserve_repository.hpp"
#include "gateway/grpc/grpc_api.hpp"
#include "gateway/routes/http_api.hpp"
#include "gateway/workers/repository_client.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;

namespace {

served_model model(std::string name, model_state state, std::string reason = "") {
  served_model m;
  m.name = std::move(name);
  m.version = "1";
  m.revision = 1;
  m.state = state;
  m.reason = std::move(reason);
  m.is_of_repository = true;
  return m;
}

struct kserve_repository_world {
  std::shared_ptr<gateway_state> facts = std::make_shared<gateway_state>(config());
  http_api api{facts};

  explicit kserve_repository_world(model_control control, std::vector<served_model> all = {}) {
    facts->set_repository(std::make_shared<const repository_link>());
    auto fixed = model("fixed", model_state::ready);
    fixed.is_of_repository = false;
    all.push_back(fixed);
    facts->set_workers(nullptr, {}, {control, std::move(all)});
    facts->change([](snapshot& s) { s.pipelines[0].card.emplace().name = "smol"; });
  }
  static gateway_config config() {
    gateway_config c;
    c.pipelines = {{process_id{2}, "smol"}};
    c.model_aliases = {"vllm_model"};
    return c;
  }
  api_call post(const std::string& path, std::string_view body = {}) const {
    http_call c;
    c.method = "POST";
    c.target = path;
    c.host = "localhost";
    c.body = body;
    const auto admitted = api.admit(c);
    REQUIRE_FALSE(admitted.refusal);
    return api.plan(c);
  }
  api_call change(std::string_view verb, std::string_view name, std::string_view body = {}) const {
    return post(fmt::format("/v2/repository/models/{}/{}", name, verb), body);
  }
};

std::string repository_refusal(const api_call& plan, int status) {
  REQUIRE(std::holds_alternative<http_reply>(plan));
  const auto& reply = std::get<http_reply>(plan);
  CHECK(reply.status == status);
  return json::parse(reply.body).at("error").get<std::string>();
}

} // namespace

TEST_CASE("with explicit control, a load or unload of any name goes to the root") {
  const kserve_repository_world w(model_control::clients);
  for (const auto* body : {"", "{}", R"({"parameters": {}})", R"({"parameters": null})"}) {
    const auto load = w.change("load", "m%20x", body);
    REQUIRE(std::holds_alternative<message_call>(load));
    CHECK(std::get<change_model>(std::get<message_call>(load).request).model == "m x");
    CHECK(std::get<change_model>(std::get<message_call>(load).request).what == model_order::load);
  }
  const auto unload = w.change("unload", "m", R"({"parameters": {"unload_dependents": true}})");
  REQUIRE(std::holds_alternative<message_call>(unload));
  CHECK(std::get<change_model>(std::get<message_call>(unload).request).what == model_order::unload);
}

TEST_CASE("unsupported load parameters are refused by name") {
  const kserve_repository_world w(model_control::clients);
  const auto of = [&](const char* verb, const char* body) {
    return repository_refusal(w.change(verb, "m", body), 400);
  };
  CHECK(of("load", R"({"parameters": {"config": "{}"}})").find("'config'") != std::string::npos);
  CHECK(of("load", R"({"parameters": {"file:1/model.py": "eA=="}})").find("'file:1/model.py'") !=
        std::string::npos);
  CHECK(of("load", R"({"parameters": {"config": "{}"}})").find("config.pbtxt") !=
        std::string::npos);
  CHECK(of("load", R"({"parameters": {"unload_dependents": true}})").find("'unload_dependents'") !=
        std::string::npos);
  CHECK(of("unload", R"({"parameters": {"unload_dependents": 1}})").find("'unload_dependents'") !=
        std::string::npos);
  CHECK(of("load", R"({"parameters": 7})").find("'parameters'") != std::string::npos);
  CHECK(of("load", R"({"more": 7})").find("'more'") != std::string::npos);
  CHECK_FALSE(of("load", "{").empty());
}

TEST_CASE("load parameters are refused alike for models of nodes.toml and over gRPC") {
  const kserve_repository_world w(model_control::clients);
  const auto& method = *find_grpc_method(
      grpc_service::kserve, fmt::format("/{}/RepositoryModelLoad", name_of(grpc_service::kserve)));
  for (const auto* parameter : {"config", "file:1/model.onnx", "other"}) {
    const auto parameters = fmt::format(R"({{"{}": {{"string_param": "x"}}}})", parameter);
    const auto named = fmt::format("the parameter '{}' is not supported", parameter);
    for (const auto* name : {"smol", "m"}) {
      CAPTURE(name);
      const auto body = fmt::format(R"({{"parameters": {}}})", parameters);
      const auto over_http = repository_refusal(w.change("load", name, body), 400);
      CHECK(over_http.starts_with(named));
      const auto asked =
          fmt::format(R"({{"model_name": "{}", "parameters": {}}})", name, parameters);
      const auto order = plan_repository_change(method, asked, *w.facts);
      const auto over_grpc =
          order ? order->error() : answer_kserve(method, asked, *w.facts).error();
      CHECK(over_grpc.message == over_http);
      CHECK(over_grpc.code == errc::unsupported_parameter);
    }
  }
}

TEST_CASE("without explicit control, loads are refused") {
  for (const auto* verb : {"load", "unload"}) {
    const auto polled =
        repository_refusal(kserve_repository_world(model_control::poll).change(verb, "m"), 503);
    CHECK(polled.find("is not allowed if polling is enabled") != std::string::npos);
    const auto none =
        repository_refusal(kserve_repository_world(model_control::none).change(verb, "m"), 503);
    CHECK(none.find("explicit model load / unload is not allowed") != std::string::npos);
  }
}

TEST_CASE("models of nodes.toml are not part of the repository") {
  const kserve_repository_world w(model_control::clients);
  for (const auto* name : {"smol", "vllm_model", "fixed"})
    CHECK_FALSE(plan_model_change(*w.facts, name, false, nullptr));
  CHECK(plan_model_change(*w.facts, "m", false, nullptr));
  const gateway_state without(kserve_repository_world::config());
  CHECK_FALSE(plan_model_change(without, "m", false, nullptr));
}

TEST_CASE("the index has models that are not served, with state and reason") {
  auto unknown = model("cold", model_state::unavailable, "not loaded");
  unknown.version.clear();
  const kserve_repository_world w(model_control::clients,
                                  {model("broken", model_state::unavailable, "no weights"),
                                   model("comes", model_state::loading),
                                   model("goes", model_state::unloading), unknown});
  const auto reply = std::get<http_reply>(w.post("/v2/repository/index"));
  json by_name;
  for (const auto& m : json::parse(reply.body))
    by_name[m.at("name").get<std::string>()] = m;
  CHECK(by_name["broken"] == json{{"name", "broken"},
                                  {"version", "1"},
                                  {"state", "UNAVAILABLE"},
                                  {"reason", "no weights"}});
  CHECK(by_name["comes"]["state"] == "LOADING");
  CHECK(by_name["goes"]["state"] == "UNLOADING");
  CHECK_FALSE(by_name["cold"].contains("version"));
  const auto ready = std::get<http_reply>(w.post("/v2/repository/index", R"({"ready": true})"));
  for (const auto& m : json::parse(ready.body))
    CHECK(m["state"] == "READY");
}

TEST_CASE("a served model reports that its newer files cannot be served") {
  std::vector<kserve_standing> all{{"m", true, "READY", "", "1"}};
  served_models served;
  served.all.push_back(model("m", model_state::ready, "its files have changed, and ..."));
  served.all.push_back(model("m", model_state::unloading));
  add_repository(all, served, snapshot{});
  REQUIRE(all.size() == 1);
  CHECK(all[0].reason == "its files have changed, and ...");
}
