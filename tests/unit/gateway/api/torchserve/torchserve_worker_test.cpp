// Worker models in TorchServe's APIs: their requests from a body or gRPC's inputs, and the
// management API's view of them. No workers, no sockets.
#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/api/torchserve/torchserve_worker.hpp"
#include "gateway/routes/http_api.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

struct torchserve_worker_world {
  std::shared_ptr<gateway_state> facts = std::make_shared<gateway_state>(config());
  http_api api{facts};

  torchserve_worker_world() {
    worker_facts reported;
    reported.processes = {"worker-m-0", "worker-m-1"};
    reported.batch_size = 8;
    reported.max_queued = 5;
    worker_view view{"m", "2", std::make_shared<worker_load>(),
                     std::make_shared<const worker_facts>(reported)};
    auto load = std::make_shared<worker_load>();
    load->workers = 1;
    load->waiting = 3;
    view.load = load;
    facts->set_workers(nullptr, {view}, {});
    facts->change([](snapshot& s) {
      s.cluster.emplace();
      for (const auto* name : {"worker-m-0", "worker-m-1"}) {
        status process;
        process.role = role::worker;
        process.name = name;
        process.pid = 70 + name[9] - '0';
        process.phase = name[9] == '0' ? phase::ready : phase::loading;
        s.cluster->nodes.push_back(process);
      }
    });
  }
  static gateway_config config() {
    gateway_config c;
    c.torchserve = {"127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082"};
    c.pipelines = {{process_id{2}, "smol"}};
    return c;
  }
  api_call plan(listener_kind listener, std::string_view method, std::string_view target,
                std::string_view body = {}, std::string_view content_type = {}) const {
    http_call c;
    c.listener = listener;
    c.method = method;
    c.target = target;
    c.host = "localhost";
    c.body = body;
    c.content_type = content_type;
    auto admitted = api.admit(c);
    if (admitted.refusal) {
      return *admitted.refusal;
    }
    return api.plan(c);
  }
  api_call predict(std::string_view target, std::string_view body,
                   std::string_view content_type = {}) const {
    return plan(listener_kind::torchserve_inference, "POST", target, body, content_type);
  }
  http_reply manage(std::string_view target, std::string_view method = "GET") const {
    auto made = plan(listener_kind::torchserve_management, method, target);
    REQUIRE(std::holds_alternative<http_reply>(made));
    return std::get<http_reply>(made);
  }
};

infer asked(api_call plan) {
  REQUIRE(std::holds_alternative<worker_call>(plan));
  return std::move(std::get<worker_call>(plan).request);
}

json refused_plan(api_call plan) {
  REQUIRE(std::holds_alternative<http_reply>(plan));
  return json::parse(std::get<http_reply>(plan).body);
}

} // namespace

TEST_CASE("a prediction is its body with its content type, on every route") {
  const torchserve_worker_world w;
  for (const auto* target : {"/predictions/m", "/predictions/m/2", "/models/m/invoke",
                             "/invocations?model_name=m", "/v1/models/m:predict"}) {
    CAPTURE(target);
    const auto request = asked(w.predict(target, "\xff\x01", "image/x"));
    CHECK(request.model == "m");
    CHECK(request.body == "\xff\x01");
    CHECK(request.content_type == "image/x");
  }
  CHECK(asked(w.predict("/predictions/m/2", "x")).version == "2");
  CHECK(asked(w.predict("/predictions/m", "x")).version.empty());
}

TEST_CASE("a form of one field is that field, and one of several stays a form") {
  const torchserve_worker_world w;
  const auto parts = [](std::string_view name, std::string_view type) {
    return fmt::format("--b\r\nContent-Disposition: form-data; name=\"{}\"\r\n{}\r\nvalue\r\n",
                       name, type.empty() ? "" : fmt::format("Content-Type: {}\r\n", type));
  };
  const auto form = "multipart/form-data; boundary=b";
  const auto one = asked(w.predict("/predictions/m", parts("data", "image/png") + "--b--", form));
  CHECK(one.body == "value");
  CHECK(one.content_type == "image/png");
  CHECK(
      asked(w.predict("/predictions/m", "body=a+b%26", "application/x-www-form-urlencoded")).body ==
      "a b&");
  const auto curled =
      asked(w.predict("/predictions/m", R"({"a":1})", "application/x-www-form-urlencoded"));
  CHECK(curled.body == R"({"a":1})");
  CHECK(curled.content_type == "application/json");
  CHECK(one.parameters == R"({"torchserve_input":"data"})");
  CHECK(curled.parameters.empty()); // what is in no form is "body"
  const auto both = [](std::string_view first, std::string_view type, std::string_view second) {
    return fmt::format("--baton-0\r\nContent-Disposition: form-data; name=\"{}\"\r\n{}\r\nvalue\r\n"
                       "--baton-0\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\nvalue\r\n"
                       "--baton-0--\r\n",
                       first, type, second);
  };
  const auto urlencoded = "application/x-www-form-urlencoded";
  const auto typed = parts("data", "image/png") + parts("mask", "") + "--b--";
  for (const auto& [request, wanted] :
       {std::pair{asked(w.predict("/predictions/m", typed, form)),
                  both("data", "Content-Type: image/png\r\n", "mask")},
        std::pair{asked(w.predict("/predictions/m", "mask=value&b%22=value", urlencoded)),
                  both("mask", "", "b%22")},
        std::pair{asked(w.predict("/predictions/m?mask=value", "value", "")),
                  both("mask", "", "body")}}) {
    CHECK(request.body == wanted);
    CHECK(request.content_type == "multipart/form-data; boundary=baton-0");
    CHECK(request.parameters.empty());
  }
  CHECK(asked(w.predict("/predictions/m", parts("image", "") + "--b--", form)).parameters ==
        R"({"torchserve_input":"image"})");
  CHECK(asked(w.predict("/predictions/m", "%ff=1", urlencoded)).body == "1"); // no UTF-8
  const auto bound = asked(w.predict("/predictions/m", "a=--baton-0&b=1", urlencoded));
  CHECK(bound.content_type == "multipart/form-data; boundary=baton-1");
  CHECK(refused_plan(w.predict("/predictions/m", "hello", urlencoded))["code"] == 400);
  std::string many;
  for (int i = 0; i < 33; ++i)
    many += fmt::format("f{}=1&", i);
  CHECK(refused_plan(w.predict("/predictions/m", many, urlencoded))["code"] == 400);
  CHECK(refused_plan(w.predict("/predictions/m", "a=%zz&data=1", urlencoded))["code"] == 400);
}

TEST_CASE("explanations are requested from a worker by a header") {
  const torchserve_worker_world w;
  const auto is_forwarded = [](const header_field& h) {
    return h.name == "explain" && h.value == "True";
  };
  for (const auto* target : {"/explanations/m", "/explanations/m/2", "/v1/models/m:explain"}) {
    CAPTURE(target);
    const auto request = asked(w.predict(target, "x"));
    CHECK(request.body == "x");
    CHECK(std::count_if(request.headers.begin(), request.headers.end(), is_forwarded) == 1);
  }
  const auto plain = asked(w.predict("/predictions/m", "x"));
  CHECK(std::count_if(plain.headers.begin(), plain.headers.end(), is_forwarded) == 0);
  CHECK(refused_plan(w.predict("/explanations/m/1", "x"))["type"] ==
        "ModelVersionNotFoundException");
}

TEST_CASE("one gRPC input is the body, and several are a form") {
  const worker_view m{"m", "2", std::make_shared<worker_load>()};
  CHECK(read_worker_prediction(m, "2", {{"data", "x"}})->body == "x");
  CHECK(read_worker_prediction(m, "", {{"body", "x"}})->body == "x");
  CHECK(read_worker_prediction(m, "", {}).error().param == "data");
  CHECK(read_worker_prediction(m, "", {{"image", "1"}})->parameters ==
        R"({"torchserve_input":"image"})");
  const auto several = read_worker_prediction(m, "", {{"mask", "2"}, {"data", "1"}});
  CHECK(several->content_type == "multipart/form-data; boundary=baton-0");
  CHECK(several->body.find("name=\"data\"\r\n\r\n1\r\n") < several->body.find("name=\"mask\""));
}

TEST_CASE("a failure status becomes one of gRPC's") {
  inferred piece;
  piece.body = "why";
  CHECK(check_prediction(piece));
  for (const auto& [status, code] :
       {std::pair{400, errc::invalid_request}, std::pair{404, errc::not_found},
        std::pair{503, errc::overloaded}, std::pair{513, errc::handler_failed}}) {
    piece.http_status = static_cast<std::uint16_t>(status);
    const auto ok = check_prediction(piece);
    REQUIRE_FALSE(ok);
    CHECK(ok.error().code == code);
    CHECK(ok.error().message == "why");
  }
}

TEST_CASE("an unknown version, or a path below the model, has TorchServe's error") {
  const torchserve_worker_world w;
  CHECK(refused_plan(w.predict("/predictions/m/1", "x"))["type"] ==
        "ModelVersionNotFoundException");
  CHECK(refused_plan(w.predict("/predictions/x", "x"))["type"] == "ModelNotFoundException");
  CHECK(refused_plan(w.predict("/predictions/m/2/v1/completions", "{}"))["code"] == 404);
}

TEST_CASE("worker models are listed, described and scaled as far as they support it") {
  const torchserve_worker_world w;
  CHECK(json::parse(w.manage("/models").body)["models"][0]["modelName"] == "m");
  const auto reported = json::parse(w.manage("/models/m").body)[0];
  CHECK(reported["modelVersion"] == "2");
  CHECK(reported["batchSize"] == 8);
  CHECK(reported["maxBatchDelay"] == 100);
  CHECK(reported["minWorkers"] == 1);
  CHECK(reported["maxWorkers"] == 2);
  CHECK(reported["jobQueueStatus"] == json{{"remainingCapacity", 2}, {"pendingRequests", 3}});
  CHECK(reported["workers"] == json{{{"id", "worker-m-0"}, {"status", "READY"}, {"pid", 70}},
                                    {{"id", "worker-m-1"}, {"status", "UNLOADING"}, {"pid", 71}}});
  CHECK(w.manage("/models/m/all").status == 200);
  CHECK(w.manage("/models/m/1").status == 404);
  CHECK(json::parse(w.manage("/v1/models/m").body)["ready"] == true);
  CHECK(w.manage("/models/m?min_worker=1", "PUT").status == 200);
  CHECK(w.manage("/models/m?min_worker=0&max_worker=2", "PUT").status == 200);
  const auto more = w.manage("/models/m?min_worker=2", "PUT");
  CHECK(more.status == 409);
  CHECK(more.body.find("count") != std::string::npos);
  CHECK(w.manage("/models/m?min_worker=-1", "PUT").status == 400);
  CHECK(w.manage("/models/m/2/set-default", "PUT").status == 200);
  CHECK(w.manage("/models/m", "DELETE").status == 405);
}
