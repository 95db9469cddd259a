// Calls to TorchServe's three listeners: authorisation, operation, and the management API's view of
// the cluster. No sockets.
#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/api/torchserve/torchserve_response.hpp"
#include "gateway/api/torchserve/torchserve_target.hpp"
#include "gateway/routes/http_api.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

constexpr auto inference_listener = listener_kind::torchserve_inference;
constexpr auto management = listener_kind::torchserve_management;
constexpr auto metrics_listener = listener_kind::torchserve_metrics;

gateway_config config_of(bool has_keys = false) {
  gateway_config config;
  config.torchserve = {"127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082"};
  config.pipelines = {{process_id{2}, "smol", 100, false},
                      {process_id{3}, "smol", 50, false},
                      {process_id{4}, "other/one", 10, true}};
  if (has_keys) {
    config.keys = {{"u", {digest_of_key("secret")}, key_role::user, {}},
                   {"a", {digest_of_key("other")}, key_role::admin, {}}};
  }
  return config;
}

std::shared_ptr<gateway_state> torchserve_facts(gateway_config config) {
  auto facts = std::make_shared<gateway_state>(std::move(config));
  facts->change([](snapshot& s) {
    for (auto& p : s.pipelines) {
      p.card.emplace();
      p.card->name = p.model;
      p.card->sequences_max = 8;
      p.card->phase = phase::ready;
      p.load.emplace();
      p.load->waiting = 3;
    }
    s.cluster.emplace();
    for (const auto* name : {"shard-0", "shard-1-g2", "shard-1.0", "shard-1.1-g4", "shard-2.0"}) {
      status shard;
      shard.role = role::shard;
      shard.name = name;
      shard.pid = 7;
      shard.phase = std::string_view(name) == "shard-1.0" ? phase::loading : phase::ready;
      s.cluster->nodes.push_back(shard);
    }
    status head;
    head.role = role::head;
    head.name = "head";
    s.cluster->nodes.push_back(head);
  });
  return facts;
}

http_call torchserve_call_of(listener_kind listener, std::string_view method,
                             std::string_view target) {
  http_call c;
  c.listener = listener;
  c.method = method;
  c.target = target;
  c.host = "localhost:8080";
  return c;
}

struct plan_reply {
  int status = 0;
  json body;
};

// The reply to a call, refused or not.
plan_reply ask(const http_api& api, const http_call& call) {
  auto admitted = api.admit(call);
  http_reply reply;
  if (admitted.refusal) {
    reply = *std::move(admitted.refusal);
  } else {
    auto plan = api.plan(call);
    REQUIRE(std::holds_alternative<http_reply>(plan));
    reply = std::get<http_reply>(std::move(plan));
  }
  return {reply.status, json::parse(reply.body)};
}

plan_reply ask(const http_api& api, listener_kind listener, std::string_view method,
               std::string_view target) {
  return ask(api, torchserve_call_of(listener, method, target));
}

api_call post(const http_api& api, std::string_view target, std::string_view body) {
  auto call = torchserve_call_of(inference_listener, "POST", target);
  call.content_type = "application/json";
  call.body = body;
  REQUIRE_FALSE(api.admit(call).refusal);
  return api.plan(call);
}

torchserve_route route_of(listener_kind listener, std::string_view target) {
  const auto read = read_torchserve_target(target);
  REQUIRE(read);
  return find_torchserve_route(listener, *read);
}

} // namespace

TEST_CASE("a target is its decoded segments and its parameters") {
  const auto t = read_torchserve_target("/models/a%2Fb/1.0/?limit=3&name%5B%5D=x+y&name[]=z&&flag");
  REQUIRE(t);
  CHECK(t->path == std::vector<std::string>{"models", "a/b", "1.0"});
  CHECK(t->all("name[]") == std::vector<std::string>{"x y", "z"});
  CHECK(t->find("flag") == "");
  CHECK(*t->integer("limit", 7) == 3);
  CHECK(*t->integer("none", 7) == 7);
  CHECK(read_torchserve_target("/")->path.empty());
  CHECK(read_torchserve_target("")->path.empty());
  CHECK(read_torchserve_target("/a//b")->path == std::vector<std::string>{"a", "", "b"});
  std::string deep, wide = "/?";
  for (int i = 0; i < 100; ++i) {
    deep += "/a";
    wide += "a=1&";
  }
  for (const auto& wrong :
       {std::string("/%"), std::string("/a%2"), std::string("/a?b=%zz"), deep, wide}) {
    CAPTURE(wrong);
    CHECK_FALSE(read_torchserve_target(wrong));
  }
  for (const auto* number : {"x", "", "1.5", "1e3", "99999999999", " 1", "1 "}) {
    CAPTURE(number);
    CHECK_FALSE(read_torchserve_target(std::string("/?limit=") + number)->integer("limit", 1));
  }
}

TEST_CASE("each listener has its own operations") {
  CHECK(route_of(inference_listener, "/ping").is == torchserve_operation::ping);
  CHECK(route_of(management, "/ping").is == torchserve_operation::none);
  CHECK(route_of(metrics_listener, "/metrics").is == torchserve_operation::metrics);
  CHECK(route_of(inference_listener, "/metrics").is == torchserve_operation::none);
  CHECK(route_of(inference_listener, "/models").is == torchserve_operation::none);
  CHECK(route_of(metrics_listener, "/").is == torchserve_operation::describe_api);
  const auto r = route_of(inference_listener, "/predictions/m/1.0/v1/chat/completions");
  CHECK(r.is == torchserve_operation::predict);
  CHECK(r.model == "m");
  CHECK(r.version == "1.0");
  CHECK(r.suffix == "v1/chat/completions");
  CHECK_FALSE(r.takes("GET"));
  CHECK(r.takes("PUT"));
  CHECK(route_of(inference_listener, "/predictions/m/1.0/v1/models").takes("GET"));
  CHECK(route_of(inference_listener, "/predictions").is == torchserve_operation::none);
  CHECK(route_of(inference_listener, "/v1/models/a:b:predict").model == "a:b");
  CHECK(route_of(inference_listener, "/v1/models/m").is == torchserve_operation::none);
  CHECK(route_of(management, "/v1/models/m").is == torchserve_operation::kserve_ready);
  CHECK(route_of(management, "/models/m/1.0/set-default").takes("PUT"));
  CHECK(route_of(management, "/models/m/1.0/other").is == torchserve_operation::none);
  CHECK(route_of(management, "/models/m?model_version=2.0").version == "2.0");
}

TEST_CASE("tokens are API keys: any for inference, an admin's for management") {
  const http_api api(torchserve_facts(config_of(true)));
  auto call = torchserve_call_of(inference_listener, "POST", "/predictions/smol");
  const auto refused = ask(api, call);
  CHECK(refused.status == 400);
  CHECK(refused.body["type"] == "InvalidKeyException");
  CHECK(refused.body["message"].get<std::string>().starts_with("Token Authorization failed."));
  for (const auto* target : {"/no/such/thing", "/%zz", "/models"}) {
    CAPTURE(target); // and learns no routes
    CHECK(ask(api, inference_listener, "GET", target).body["type"] == "InvalidKeyException");
  }
  call.authorization = "Bearer secret";
  CHECK_FALSE(api.admit(call).refusal);
  CHECK(api.admit(call).who.name() == "u");
  auto list = torchserve_call_of(management, "GET", "/models");
  list.authorization = "Bearer secret";
  CHECK(ask(api, list).body["type"] == "InvalidKeyException");
  list.authorization = "Bearer other";
  CHECK(ask(api, list).status == 200);
  CHECK(ask(api, inference_listener, "GET", "/ping").status == 200);
  CHECK(ask(api, management, "OPTIONS", "/").status == 200);
  CHECK_FALSE(api.admit(torchserve_call_of(metrics_listener, "GET", "/metrics"))
                  .refusal); // it is on loopback
  auto config = config_of(true);
  config.torchserve.metrics = "10.0.0.1:8082";
  const http_api far(torchserve_facts(config));
  CHECK(far.admit(torchserve_call_of(metrics_listener, "GET", "/metrics")).refusal->status == 400);
}

TEST_CASE("without keys, only this machine's names and its own pages are accepted") {
  const http_api api(torchserve_facts(config_of()));
  for (const auto listener : {management, metrics_listener}) {
    auto call =
        torchserve_call_of(listener, "GET", listener == metrics_listener ? "/metrics" : "/models");
    CHECK_FALSE(api.admit(call).refusal);
    call.host = "evil.example";
    CHECK(api.admit(call).refusal->status == 403);
  }
  auto call = torchserve_call_of(inference_listener, "POST", "/predictions/smol");
  call.origin = "http://evil.example";
  CHECK(api.admit(call).refusal->status == 403);
  call.origin = "";
  call.content_encoding = "gzip";
  CHECK(api.admit(call).refusal->status == 415);
}

TEST_CASE("a prediction is a typed request of the model in the address") {
  const auto facts = torchserve_facts(config_of());
  const http_api api(facts);
  const auto model_of_call = [](const api_call& plan) {
    REQUIRE(std::holds_alternative<generation_call>(plan));
    return std::get<generation_call>(plan).requests.front().model;
  };
  const auto plan = post(api, "/predictions/smol/1.0", R"({"prompt":"P","max_new_tokens":3})");
  CHECK(model_of_call(plan) == "smol");
  const auto counted = facts->torchserve().text({}, *facts->handler_metrics());
  CHECK(counted.find(R"(model_version="1.0")") != counted.npos); // the address has a version
  CHECK(model_of_call(post(api, "/predictions/other%2Fone", R"({"prompt":"P"})")) == "other/one");
  const auto openai = post(api, "/predictions/smol/1.0/v1/completions",
                           R"({"model":"smol","prompt":"P","max_tokens":3})");
  CHECK(std::get<generation_call>(openai).event_type == media_type_of(torchserve_format::openai));
  const auto batch = post(api, "/v1/models/smol:predict", R"({"instances":["a","b"]})");
  CHECK(std::get<generation_call>(batch).requests.size() == 2);
  CHECK(std::get<generation_call>(batch).requests[1].model == "smol");
  CHECK(model_of_call(post(api, "/invocations?model_name=smol", R"({"prompt":"P"})")) == "smol");
  const auto list = post(api, "/predictions/smol/1.0/v1/models", "");
  CHECK(json::parse(std::get<http_reply>(list).body)["data"][0]["id"] == "smol");
}

TEST_CASE("unknown paths and models are 404, and contradicting names are 400") {
  const http_api api(torchserve_facts(config_of()));
  struct row {
    const char* target;
    const char* body;
    int status;
    const char* type;
  };
  for (const auto& r :
       {row{"/predictions/none", "", 404, "ModelNotFoundException"},
        {"/predictions//1.0", "", 404, "ModelNotFoundException"},
        {"/predictions/smol/2.0", "", 404, "ModelVersionNotFoundException"},
        {"/predictions/smol/v1/completions", "", 404, "ModelVersionNotFoundException"},
        {"/predictions/smol/-1", "", 404, "ModelVersionNotFoundException"},
        {"/predictions/smol/1.0/v1/embeddings", "", 404, "ResourceNotFoundException"},
        {"/predictions/smol", R"({"model":"other/one","prompt":"P"})", 400, "BadRequestException"},
        {"/predictions/smol", R"({"model":"none","prompt":"P"})", 404, "ModelNotFoundException"},
        {"/predictions/smol", "", 400, "BadRequestException"},
        {"/v1/models/none:predict", R"({"instances":["a"]})", 404, "ModelNotFoundException"},
        {"/v1/models/smol:predict", R"({"instances":[{"prompt":"a","model":"other/one"}]})", 400,
         "BadRequestException"},
        {"/v1/models/smol:explain", "", 404, "ResourceNotFoundException"},
        {"/explanations/smol", "", 404, "ResourceNotFoundException"},
        {"/invocations", R"({"prompt":"P"})", 400, "BadRequestException"}}) {
    CAPTURE(r.target);
    CAPTURE(r.body);
    const auto plan = post(api, r.target, r.body);
    REQUIRE(std::holds_alternative<http_reply>(plan));
    const auto& reply = std::get<http_reply>(plan);
    CHECK(reply.status == r.status);
    CHECK(json::parse(reply.body)["type"] == r.type);
  }
  CHECK(ask(api, inference_listener, "DELETE", "/predictions/smol").status == 405);
  CHECK(ask(api, inference_listener, "GET", "/nothing").status == 404);
  CHECK(ask(api, inference_listener, "POST", "/ping").status == 405);
}

TEST_CASE("ping is Healthy or, under 500, Unhealthy") {
  auto facts = torchserve_facts(config_of());
  const http_api api(facts);
  CHECK(ask(api, inference_listener, "GET", "/ping").body == json{{"status", "Healthy"}});
  facts->change([](snapshot& s) { s.is_draining = true; });
  CHECK(ask(api, inference_listener, "GET", "/ping").status == 500);
  CHECK(ask(api, inference_listener, "GET", "/ping").body == json{{"status", "Unhealthy"}});
}

TEST_CASE("models are listed in pages") {
  const http_api api(torchserve_facts(config_of()));
  const auto names = [&](std::string_view query) {
    const auto r = ask(api, management, "GET", "/models" + std::string(query));
    REQUIRE(r.status == 200);
    std::vector<std::string> out;
    for (const auto& m : r.body["models"]) {
      CHECK(m.contains("modelUrl"));
      out.push_back(m["modelName"]);
    }
    out.push_back(r.body.value("nextPageToken", "none"));
    return out;
  };
  using list = std::vector<std::string>;
  CHECK(names("") == list{"other/one", "smol", "none"});
  CHECK(names("?limit=1") == list{"other/one", "1"});
  CHECK(names("?limit=1&next_page_token=1") == list{"smol", "none"});
  CHECK(names("?limit=0") == list{"0"});
  CHECK(names("?limit=-3&next_page_token=-1") == list{"other/one", "smol", "none"});
  CHECK(names("?next_page_token=2147483647") == list{"none"});
  CHECK(ask(api, management, "GET", "/models?limit=1e9").status == 400);
  CHECK(ask(api, management, "GET", "/models?next_page_token=99999999999").status == 400);
}

TEST_CASE("a model is described with its shards as workers and its queue") {
  auto facts = torchserve_facts(config_of());
  const http_api api(facts);
  const auto r = ask(api, management, "GET", "/models/smol");
  REQUIRE(r.status == 200);
  REQUIRE(r.body.size() == 1);
  const auto& m = r.body[0];
  CHECK(m["modelName"] == "smol");
  CHECK(m["modelVersion"] == "1.0");
  CHECK(m["minWorkers"] == 2);
  CHECK(m["maxWorkers"] == 2);
  CHECK(m["batchSize"] == 8);
  CHECK(m["useJobTicket"] == false);
  CHECK(m["jobQueueStatus"] == json{{"remainingCapacity", 144}, {"pendingRequests", 6}});
  REQUIRE(m["workers"].size() == 4);
  CHECK(m["workers"][0] == json{{"id", "shard-0"}, {"status", "READY"}, {"pid", 7}});
  CHECK(m["workers"][2]["status"] == "UNLOADING");
  CHECK_FALSE(m.contains("customizedMetadata"));
  const auto more = ask(api, management, "GET", "/models/smol/all?customized=true").body;
  CHECK(more[0]["customizedMetadata"]["replicas"].size() == 2);
  const auto ticket = ask(api, management, "GET", "/models/other%2Fone/1.0").body[0];
  CHECK(ticket["useJobTicket"] == true);
  CHECK(ticket["jobQueueStatus"]["remainingCapacity"] == 0);
  CHECK(ticket["workers"].size() == 1);
  CHECK(ask(api, management, "GET", "/models/smol/2.0").body["type"] ==
        "ModelVersionNotFoundException");
  CHECK(ask(api, management, "GET", "/models/none").body["type"] == "ModelNotFoundException");
  facts->change([](snapshot& s) { s.pipelines[0].card->phase = phase::loading; });
  CHECK(ask(api, management, "GET", "/models/smol").body[0]["minWorkers"] == 1);
  CHECK(ask(api, management, "GET", "/v1/models/smol").body ==
        json{{"name", "smol"}, {"ready", true}});
}

TEST_CASE("scaling to the current state is granted, otherwise the error names the command") {
  const http_api api(torchserve_facts(config_of()));
  const auto put = [&](std::string_view target) { return ask(api, management, "PUT", target); };
  CHECK(put("/models/smol?min_worker=2&synchronous=true").body ==
        json{{"status", "Workers scaled to 2 for model: smol"}});
  CHECK(put("/models/smol/1.0?min_worker=1&max_worker=4").body["status"] ==
        "Workers scaled to 1 for model: smol, version: 1.0");
  const auto fewer = put("/models/smol");
  CHECK(fewer.status == 409);
  CHECK(fewer.body["type"] == "ConflictStatusException");
  CHECK(fewer.body["message"].get<std::string>().find("cluster scale smol --replicas 1") !=
        std::string::npos);
  const auto more = put("/models/smol?min_worker=3");
  CHECK(more.status == 409);
  CHECK(more.body["message"].get<std::string>().find("nodes.toml") != std::string::npos);
  CHECK(more.body["message"].get<std::string>().find("cluster add-node") != std::string::npos);
  for (const auto* unknown : {"?min_worker=1&number_gpu=1", "?timeout=5", "?min_wrker=1"}) {
    CAPTURE(unknown);
    const auto parsed = put(std::string("/models/smol") + unknown);
    CHECK(parsed.status == 400);
    CHECK(parsed.body["message"].get<std::string>().find("is not supported") != std::string::npos);
  }
  for (const auto* wrong : {"?min_worker=-1", "?min_worker=x", "?min_worker=3&max_worker=2",
                            "?max_worker=99999999999", "?min_worker=", "?min_worker=1.5"}) {
    CAPTURE(wrong);
    CHECK(put(std::string("/models/smol") + wrong).status == 400);
  }
  CHECK(put("/models/none?min_worker=1").status == 404);
  CHECK(put("/models/smol/1.0/set-default").status == 200);
  CHECK(put("/models/smol/2.0/set-default").status == 404);
  for (const auto& [method, target] :
       {std::pair{"POST", "/models?url=m.mar"}, {"DELETE", "/models/smol"}, {"GET", "/token"}}) {
    const auto r = ask(api, management, method, target);
    CHECK(r.status == 405);
    CHECK(r.body["type"] == "MethodNotAllowedException");
    CHECK(r.body["message"].get<std::string>().find('`') != std::string::npos);
  }
}
