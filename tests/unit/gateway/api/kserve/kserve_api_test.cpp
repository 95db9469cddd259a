// The KServe v2 routes about the server and its models. No sockets.
#include "gateway/api/kserve/kserve_routes.hpp"
#include "gateway/api/kserve/models/kserve_model.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/routes/http_api.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

// "smol" has two pipelines, one of them ready; "big" loads.
struct kserve_api_world {
  std::shared_ptr<gateway_state> facts;
  http_api api;

  kserve_api_world() : facts(std::make_shared<gateway_state>(config())), api(facts) {
    facts->change([](snapshot& s) {
      model_card card;
      card.name = "smol";
      card.phase = phase::ready;
      card.max_model_len = 2048;
      s.pipelines[0].card = card;
      card.phase = phase::loading;
      s.pipelines[1].card = card;
      card.name = "big";
      card.reason = "stage 1 of 2";
      s.pipelines[2].card = card;
      load_report load;
      load.model = "smol";
      load.waiting = 3;
      load.steps = 40;
      s.pipelines[0].load = s.pipelines[1].load = load;
    });
  }

  static gateway_config config() {
    gateway_config c;
    c.pipelines = {{process_id{2}, "smol"}, {process_id{3}, "smol"}, {process_id{4}, "big"}};
    c.model_aliases = {"vllm_model"};
    return c;
  }

  http_reply ask(std::string_view path, std::string_view method = "GET",
                 std::string_view body = {}) const {
    http_call c;
    c.method = method;
    c.target = path;
    c.host = "localhost";
    c.body = body;
    const auto admitted = api.admit(c);
    if (admitted.refusal) {
      return *admitted.refusal;
    }
    const auto plan = api.plan(c);
    REQUIRE(std::holds_alternative<http_reply>(plan));
    return std::get<http_reply>(plan);
  }
};

} // namespace

TEST_CASE("variable parts of a path are single parts that are not empty") {
  CHECK(is_like("/v2/models/{model}/infer", "/v2/models/a%2Fb/infer"));
  CHECK(is_like("/v2/models/{model}", "/v2/models/{model}"));
  for (const auto* path : {"/v2/models//infer", "/v2/models/infer", "/v2/models/a/b/infer",
                           "/v2/models/a/infer/", "/v2/models/a/inferx", "", "/"}) {
    CAPTURE(path);
    CHECK_FALSE(is_like("/v2/models/{model}/infer", path));
  }
}

TEST_CASE("server and model metadata use the protocol's words") {
  const kserve_api_world w;
  CHECK(json::parse(w.ask("/v2").body)["name"] == "triton");
  CHECK(w.ask("/v2/health/live").status == 200);
  const auto model = json::parse(w.ask("/v2/models/smol").body);
  CHECK(model["versions"] == json::array({"1"}));
  CHECK(model["inputs"][0] ==
        json({{"name", "text_input"}, {"datatype", "BYTES"}, {"shape", {1}}}));
  CHECK(model["outputs"][0] ==
        json({{"name", "text_output"}, {"datatype", "BYTES"}, {"shape", {-1}}}));
  CHECK(w.ask("/v2/models/smol/versions/1").body == w.ask("/v2/models/smol").body);
  CHECK(json::parse(w.ask("/v2/models/vllm_model").body)["name"] == "vllm_model");
  const auto config = json::parse(w.ask("/v2/models/smol/config").body);
  CHECK(config["model_transaction_policy"]["decoupled"] == true);
  CHECK(config["instance_group"][0]["count"] == 2);
  CHECK(config["parameters"]["max_model_len"]["string_value"] == "2048");
  CHECK(config["input"][0]["data_type"] == "TYPE_STRING");
}

TEST_CASE("a ready server says so, and one that is not ready says 400, as Triton") {
  const kserve_api_world w;
  CHECK(w.ask("/v2/models/smol/ready").status == 200);
  CHECK(w.ask("/v2/models/big/ready").status == 400);
  CHECK(w.ask("/v2/health/ready").status == 400); // a configured model is not served
  w.facts->change([](snapshot& s) { s.pipelines[2].card->phase = phase::ready; });
  CHECK(w.ask("/v2/models/big/ready").status == 200);
  CHECK(w.ask("/v2/health/ready").status == 200);
  w.facts->change([](snapshot& s) { s.is_draining = true; });
  CHECK(w.ask("/v2/health/ready").status == 400);
  CHECK(w.ask("/v2/health/live").status == 200);
}

TEST_CASE("unknown models, versions and routes are 404 in Triton's shape") {
  const kserve_api_world w;
  for (const auto* path : {"/v2/models/nope", "/v2/models/nope/ready", "/v2/models/smol/versions/2",
                           "/v2/models/smol/nothing", "/v2/trace/setting", "/v2/models/%zz"}) {
    CAPTURE(path);
    const auto r = w.ask(path);
    CHECK(r.status == 404);
    CHECK(json::parse(r.body)["error"].is_string());
  }
  CHECK(w.ask("/v2/models/smol/infer").status == 405);
  CHECK(w.ask("/v2/models/nope/infer", "POST", "{}").status == 404);
}

TEST_CASE("the index has every model once, or the ready ones") {
  const kserve_api_world w;
  const auto all = json::parse(w.ask("/v2/repository/index", "POST").body);
  REQUIRE(all.size() == 2);
  CHECK(all[0] == json({{"name", "smol"}, {"version", "1"}, {"state", "READY"}, {"reason", ""}}));
  CHECK(all[1]["state"] == "LOADING");
  CHECK(all[1]["reason"] == "stage 1 of 2");
  CHECK(json::parse(w.ask("/v2/repository/index", "POST", R"({"ready":true})").body).size() == 1);
  CHECK(w.ask("/v2/repository/index", "POST", R"({"ready":1})").status == 400);
}

TEST_CASE("a served model is loaded; nothing is unloaded or loaded otherwise") {
  const kserve_api_world w;
  const auto load = [&](std::string_view model, std::string_view body = {}) {
    return w.ask(fmt::format("/v2/repository/models/{}/load", model), "POST", body).status;
  };
  CHECK(load("smol") == 200);
  CHECK(load("smol", R"({"parameters":{}})") == 200);
  CHECK(load("smol", R"({"parameters":{"config":"{}"}})") == 400);
  CHECK(load("smol", R"({"parameters":{"file:1/model.json":"e30="}})") == 400);
  CHECK(load("big") == 503);
  CHECK(load("nope") == 404);
  CHECK(w.ask("/v2/repository/models/smol/unload", "POST").status == 503);
}

TEST_CASE("statistics have a worker model's batches by their size") {
  model_statistics of{"m", {}, 3, "1", {{1, {2, 0.5}}, {4, {1, 0.25}}}};
  const auto parsed = json::parse(kserve_statistics_body({of}))["model_stats"][0]["batch_stats"];
  REQUIRE(parsed.size() == 2);
  CHECK(parsed[0]["batch_size"] == 1);
  CHECK(parsed[0]["compute_infer"] == json({{"count", 2}, {"ns", 500'000'000}}));
  CHECK(parsed[1]["batch_size"] == 4);
  CHECK(parsed[1]["compute_input"] == json({{"count", 1}, {"ns", 0}}));
  CHECK(parsed[1]["compute_output"] == json({{"count", 1}, {"ns", 0}}));
}

TEST_CASE("statistics and nv_ metrics sum over a model's pipelines") {
  const kserve_api_world w;
  auto& m = w.facts->metrics();
  m.first_token(0, "smol", 0.2);
  m.request_ended(0, "smol",
                  {.seconds = 1.5,
                   .prompt_tokens = 1,
                   .output_tokens = 2,
                   .queue_seconds = 0.5,
                   .prepare_seconds = 0.25});
  m.request_ended(1, "smol", {.seconds = 0.5});
  m.request_ended(1, "smol", {.seconds = 2, .is_well = false});
  m.request_ended(0, "smol", {.seconds = 1, .is_well = false, .is_cancelled = true});
  const auto all = json::parse(w.ask("/v2/models/stats").body)["model_stats"];
  REQUIRE(all.size() == 2);
  const auto one = json::parse(w.ask("/v2/models/smol/stats").body)["model_stats"];
  REQUIRE(one.size() == 1);
  CHECK(one[0] == all[0]);
  CHECK(one[0]["inference_count"] == 2);
  CHECK(one[0]["execution_count"] == 80);
  CHECK(one[0]["last_inference"] > 1'700'000'000'000);
  const auto& given = one[0]["inference_stats"];
  CHECK(given["success"] == json({{"count", 2}, {"ns", 2'000'000'000}}));
  CHECK(given["fail"] == json({{"count", 2}, {"ns", 3'000'000'000}}));
  CHECK(given["queue"]["ns"] == 500'000'000);
  CHECK(given["compute_input"] == json({{"count", 2}, {"ns", 250'000'000}}));
  CHECK(given["compute_infer"]["ns"] == 1'250'000'000);
  CHECK(one[0]["batch_stats"] == json::array());
  CHECK(all[1]["inference_count"] == 0);
  const auto text = w.ask("/metrics").body;
  for (const auto* line :
       {"nv_inference_request_success{model=\"smol\",version=\"1\"} 2",
        "nv_inference_request_failure{model=\"smol\",reason=\"BACKEND\",version=\"1\"} 1",
        "nv_inference_request_failure{model=\"smol\",reason=\"CANCELED\",version=\"1\"} 1",
        "nv_inference_count{model=\"smol\",version=\"1\"} 2",
        "nv_inference_exec_count{model=\"smol\",version=\"1\"} 80",
        "nv_inference_pending_request_count{model=\"smol\",version=\"1\"} 6",
        "nv_inference_pending_request_count{model=\"big\",version=\"1\"} 0",
        "nv_inference_request_duration_us{model=\"smol\",version=\"1\"} 2000000",
        "nv_inference_queue_duration_us{model=\"smol\",version=\"1\"} 500000",
        "nv_inference_compute_infer_duration_us{model=\"smol\",version=\"1\"} 1250000",
        "nv_inference_compute_input_duration_us{model=\"smol\",version=\"1\"} 250000",
        "nv_inference_compute_output_duration_us{model=\"smol\",version=\"1\"} 0",
        "nv_inference_first_response_histogram_ms_count{model=\"smol\",version=\"1\"} 1"}) {
    CAPTURE(line);
    CHECK(text.find(line) != std::string::npos);
  }
}
