// The model store behind TorchServe's management API: a call's request to the root, and its answer.
// No sockets, no actors.
#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/api/torchserve/torchserve_store.hpp"
#include "gateway/routes/http_api.hpp"
#include "gateway/workers/repository_client.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

struct store_world {
  std::shared_ptr<gateway_state> facts;
  http_api api;

  explicit store_world(bool has_store = true) : facts(made()), api(facts) {
    if (!has_store)
      return;
    facts->set_repository(
        std::make_shared<const repository_link>(repository_link{{}, /*has_store=*/true}));
    served_model m;
    m.name = "words";
    m.version = "1.0";
    m.archive = "words.mar";
    m.state = model_state::unavailable; // and can still be unregistered
    m.is_of_repository = true;
    facts->set_workers(nullptr, {}, {model_control::none, {m}});
  }
  static std::shared_ptr<gateway_state> made() {
    gateway_config config;
    config.torchserve = {"127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082"};
    config.pipelines = {{process_id{2}, "smol", 100, false}};
    auto facts = std::make_shared<gateway_state>(std::move(config));
    facts->change([](snapshot& s) { s.pipelines[0].card.emplace().name = "smol"; });
    return facts;
  }
  api_call call(std::string_view method, std::string_view target) const {
    http_call c;
    c.listener = listener_kind::torchserve_management;
    c.method = method;
    c.target = target;
    c.host = "localhost:8081";
    auto admitted = api.admit(c);
    return admitted.refusal ? api_call(*std::move(admitted.refusal)) : api.plan(c);
  }
  change_model order(std::string_view method, std::string_view target) const {
    auto plan = call(method, target);
    CAPTURE(target);
    REQUIRE(std::holds_alternative<message_call>(plan));
    CHECK(std::get<message_call>(plan).family == &torchserve_family);
    return std::get<change_model>(std::get<message_call>(plan).request);
  }
  std::string refusal(std::string_view method, std::string_view target, int status) const {
    auto plan = call(method, target);
    CAPTURE(target);
    REQUIRE(std::holds_alternative<http_reply>(plan));
    const auto& reply = std::get<http_reply>(plan);
    CHECK(reply.status == status);
    const auto body = json::parse(reply.body);
    CHECK(body["code"] == status);
    return body["message"];
  }
};

bool has_part(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

json reply_to_change(const change_model& asked, std::uint32_t workers, int status) {
  model_changed done;
  done.model = "words";
  done.version = "1.0";
  done.workers = workers;
  const auto reply = store_reply(asked, done);
  CHECK(reply.status == status);
  return json::parse(reply.body)["status"];
}

} // namespace

TEST_CASE("a registration sends the root all parameters of the client") {
  const auto m = store_world().order(
      "POST", "/models?url=words.mar&model_name=mine&handler=own.py:f&batch_size=4&max_batch_delay="
              "0&response_timeout=7&startup_timeout=8&initial_workers=2&synchronous=true&runtime="
              "PYTHON&s3_sse_kms=false");
  CHECK(m.what == model_order::register_model);
  CHECK(m.archive == "words.mar");
  CHECK(m.model == "mine");
  CHECK(m.settings.handler == "own.py:f");
  CHECK(m.settings.batch_size == 4);
  CHECK(m.settings.max_batch_delay == 0);
  CHECK(m.settings.response_timeout == 7);
  CHECK(m.settings.startup_timeout == 8);
  CHECK(m.settings.workers_min == 2);
  CHECK(m.waits);
  const auto bare = store_world().order("POST", "/models?url=words.mar");
  CHECK_FALSE(bare.waits);
  CHECK(bare.model.empty());
  CHECK_FALSE(bare.settings.batch_size);
}

TEST_CASE("the root checks a URL, and no path leads out of the store") {
  const store_world w;
  CHECK(has_part(w.refusal("POST", "/models", 400), "url is required"));
  for (const auto* url : {"https://example.org/m.mar", "HTTP://example.org/m.tgz", "file:///m.mar"})
    CHECK(w.order("POST", fmt::format("/models?url={}", url)).archive == url);
  CHECK(w.order("POST", "/models?url=https%3A%2F%2Fh%2Fm.mar%3Fa%3Db").archive ==
        "https://h/m.mar?a=b");
  CHECK(has_part(w.refusal("POST", "/models?url=s3://bucket/m.mar", 404), "Model not found"));
  CHECK(has_part(w.refusal("POST", "/models?url=https://h/../m.mar", 404), "Relative path"));
  CHECK(has_part(w.refusal("POST", "/models?url=https://h/" + std::string(8192, 'a'), 400),
                 "at most 8192"));
  CHECK(has_part(w.refusal("POST", "/models?url=../m.mar", 404), "Relative path is not allowed"));
  CHECK(has_part(w.refusal("POST", "/models?url=%2e%2e%2fm.mar", 404), "Relative path"));
  CHECK(has_part(w.refusal("POST", "/models?url=/etc/m.mar", 404), "Model not found"));
  CHECK(has_part(w.refusal("POST", "/models?url=a%5Cm.mar", 404), "Model not found"));
}

TEST_CASE("an invalid value of a parameter is refused by its name") {
  const store_world w;
  for (const auto* wrong :
       {"batch_size=0", "batch_size=x", "max_batch_delay=-1", "initial_workers=-1",
        "response_timeout=0", "startup_timeout=99999999999", "synchronous=maybe", "runtime=java",
        "handler=--model-dir", "s3_sse_kms=true", "unknown=1"}) {
    const std::string_view text(wrong);
    const auto given = w.refusal("POST", fmt::format("/models?url=m.mar&{}", wrong), 400);
    CHECK_MESSAGE(has_part(given, text.substr(0, text.find('='))), given);
  }
}

TEST_CASE("models of the store are unregistered, scaled and set as default") {
  const store_world w;
  auto m = w.order("DELETE", "/models/words");
  CHECK(m.what == model_order::unregister_model);
  CHECK(m.model == "words");
  CHECK(m.version.empty());
  CHECK(w.order("DELETE", "/models/words/1.0").version == "1.0");
  m = w.order("PUT", "/models/words?min_worker=2&max_worker=4&synchronous=true");
  CHECK(m.what == model_order::scale);
  CHECK(m.settings.workers_min == 2);
  CHECK(m.settings.workers_max == 4);
  CHECK(m.waits);
  CHECK(w.order("PUT", "/models/words/1.0?min_worker=0").settings.workers_max == 0);
  m = w.order("PUT", "/models/words/2.0/set-default");
  CHECK(m.what == model_order::set_default);
  CHECK(m.version == "2.0");
  CHECK(has_part(w.refusal("PUT", "/models/words?min_worker=2&max_worker=1", 400), "max_worker"));
  CHECK(has_part(w.refusal("PUT", "/models/words?timeout=1", 400), "timeout"));
}

TEST_CASE("LLMs and a server without a store have errors of their own") {
  const store_world w;
  CHECK(has_part(w.refusal("DELETE", "/models/smol", 405), "nodes.toml"));
  CHECK(has_part(w.refusal("PUT", "/models/smol?min_worker=9", 409), "model.replicas"));
  w.refusal("DELETE", "/models/nobody", 404);
  const store_world none(false);
  CHECK(has_part(none.refusal("POST", "/models?url=m.mar", 405), "[model_store]"));
}

TEST_CASE("answers have TorchServe's texts") {
  change_model asked;
  asked.what = model_order::register_model;
  CHECK(reply_to_change(asked, 2, 200) ==
        "Model \"words\" Version: 1.0 registered with 2 initial workers");
  CHECK(reply_to_change(asked, 0, 200) ==
        "Model \"words\" Version: 1.0 registered with 0 initial workers. Use scale workers API to "
        "add workers for the model.");
  asked.waits = false;
  CHECK(reply_to_change(asked, 2, 202) == "Processing worker updates...");
  asked.what = model_order::scale;
  CHECK(reply_to_change(asked, 2, 202) == "Processing worker updates...");
  asked.waits = true;
  CHECK(reply_to_change(asked, 2, 200) == "Workers scaled to 2 for model: words");
  asked.version = "1.0";
  CHECK(reply_to_change(asked, 2, 200) == "Workers scaled to 2 for model: words, version: 1.0");
  asked.what = model_order::set_default;
  CHECK(reply_to_change(asked, 0, 200) ==
        "Default version successfully updated for model \"words\" to \"1.0\"");
  asked.what = model_order::unregister_model;
  CHECK(reply_to_change(asked, 0, 200) == "Model \"words\" unregistered");
}
