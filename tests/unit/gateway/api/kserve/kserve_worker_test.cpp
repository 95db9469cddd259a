// Worker models in KServe v2: calls to them, their pieces as responses, and their metadata. No
// workers, no sockets.
#include "gateway/api/kserve/kserve_routes.hpp"
#include "gateway/api/kserve/models/kserve_config.hpp"
#include "gateway/api/kserve/models/kserve_worker_model.hpp"
#include "gateway/api/kserve/models/triton_platforms.hpp"
#include "gateway/api/kserve/workers/kserve_worker_reply.hpp"
#include "gateway/routes/http_api.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;
using namespace std::string_literals;

namespace {

worker_view view_of(worker_facts facts, std::string name = "m", std::string version = "3") {
  return {std::move(name), std::move(version), std::make_shared<worker_load>(),
          std::make_shared<const worker_facts>(std::move(facts))};
}

worker_facts declared() {
  worker_facts f;
  f.inputs = {{"IN", "INT32", {-1, 2}, false}, {"TEXT", "BYTES", {1}, true}};
  f.outputs = {{"OUT", "INT32", {-1}, false}};
  return f;
}

result<kserve_worker_call> infer_of(const worker_facts& facts, const std::string& inputs,
                                    const std::string& more = {}) {
  return read_worker_infer(view_of(facts), R"({"inputs":[)" + inputs + "]" + more + "}", {},
                           testing::default_limits);
}

const std::string in = testing::kserve_input("IN", "INT32", R"("shape":[1,2],"data":[1,2])");

tensor int_tensor(const char* name, std::vector<std::int32_t> values) {
  tensor t{name, "INT32", {static_cast<std::int64_t>(values.size())}, {}};
  t.data.assign(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  return t;
}

inferred piece_of(std::vector<tensor> outputs, bool is_last = true, std::uint32_t index = 0) {
  inferred p;
  p.outputs = std::move(outputs);
  p.is_last = is_last;
  p.index = index;
  return p;
}

std::string whole_body(kserve_worker_unary& how, inferred piece) {
  auto reported = how.take(std::move(piece));
  REQUIRE_MESSAGE(reported, reported.error().message);
  return *reported;
}

} // namespace

TEST_CASE("tensors, outputs, parameters and id are passed on") {
  const auto right = infer_of(
      declared(), in + "," + testing::kserve_input("TEXT", "BYTES", R"("shape":[1],"data":["a"])"),
      R"(,"id":"7","outputs":[{"name":"OUT","parameters":{"binary_data":true}}],
        "parameters":{"priority":2,"timeout":5,"mine":{"a":[1]},"sequence_id":0,"text":"\u00e9"})");
  REQUIRE_MESSAGE(right, right.error().message);
  const auto& asked = right->request;
  CHECK(asked.model == "m");
  CHECK(asked.request_id == "7");
  CHECK(asked.outputs == std::vector<std::string>{"OUT"});
  REQUIRE(asked.inputs.size() == 2);
  CHECK(asked.inputs[0].shape == std::vector<std::int64_t>{1, 2});
  CHECK(asked.inputs[0].data == "\1\0\0\0\2\0\0\0"s);
  CHECK(asked.inputs[1].data == "\1\0\0\0a"s);
  CHECK(json::parse(asked.parameters) ==
        json::parse(R"({"priority":2,"timeout":5,"mine":{"a":[1]},"text":"é"})"));
  CHECK(right->shape.version == "3");
  CHECK(right->shape.outputs[0].is_binary);
  const auto all = infer_of(declared(), in, R"(,"parameters":{"binary_data_output":true})");
  REQUIRE(all);
  CHECK(all->shape.is_binary);
  CHECK(all->request.parameters.empty());
}

TEST_CASE("a difference from the declaration is refused by name") {
  struct row {
    std::string inputs, more;
    const char* param;
  };
  const row rows[] = {
      {testing::kserve_input("X", "INT32", R"("shape":[1,2],"data":[1,2])"), "", "X"},
      {testing::kserve_input("IN", "FP32", R"("shape":[1,2],"data":[1,2])"), "", "IN"},
      {testing::kserve_input("IN", "INT32", R"("shape":[2],"data":[1,2])"), "", "IN"},
      {testing::kserve_input("IN", "INT32", R"("shape":[1,3],"data":[1,2,3])"), "", "IN"},
      {testing::kserve_input("IN", "INT32", R"("shape":[1,2],"data":[1])"), "", "IN"},
      {in + "," + in, "", "IN"},
      {"", "", "IN"}, // required
      {in, R"(,"outputs":[{"name":"Y"}])", "Y"},
      {in, R"(,"outputs":[{"name":"OUT"},{"name":"OUT"}])", "OUT"},
      {in, R"(,"parameters":{"sequence_id":1})", "sequence_id"},
      {in, R"(,"parameters":{"triton_enable_empty_final_response":true})",
       "triton_enable_empty_final_response"},
  };
  for (const auto& r : rows) {
    CAPTURE(r.inputs);
    CAPTURE(r.more);
    const auto call = infer_of(declared(), r.inputs, r.more);
    REQUIRE_FALSE(call);
    CHECK(call.error().param == r.param);
  }
  worker_facts none;
  CHECK(infer_of(none, testing::kserve_input("ANY", "FP64", R"("shape":[],"data":[1])")));
  CHECK(infer_of(none, ""));
  CHECK_FALSE(infer_of(none, testing::kserve_input("ANY", "FP63", R"("shape":[],"data":[1])")));
}

TEST_CASE("a batch dimension precedes declared shapes, and is the same for all inputs") {
  auto facts = declared();
  facts.max_batch_size = 2;
  const auto of = [](const char* shape, const char* data) {
    return testing::kserve_input("IN", "INT32",
                                 fmt::format(R"("shape":{},"data":{})", shape, data).c_str());
  };
  CHECK(infer_of(facts, of("[2,1,2]", "[1,2,3,4]")));
  CHECK_FALSE(infer_of(facts, of("[1,2]", "[1,2]")));
  CHECK_FALSE(infer_of(facts, of("[3,1,2]", "[1,2,3,4,5,6]")));
  CHECK_FALSE(infer_of(facts, of("[0,1,2]", "[]")));
  CHECK_FALSE(
      infer_of(facts, of("[2,1,2]", "[1,2,3,4]") + "," +
                          testing::kserve_input("TEXT", "BYTES", R"("shape":[1,1],"data":["a"])")));
}

TEST_CASE("members of generate get the declared shape") {
  auto facts = declared();
  const auto read = [&](const char* body) {
    return read_worker_generate(view_of(facts), kserve_route::generate, body,
                                testing::default_limits);
  };
  const auto call =
      read(R"({"IN":[1,2,3,4],"TEXT":"a","id":"i","size":2,"parameters":{"on":true}})");
  REQUIRE_MESSAGE(call, call.error().message);
  CHECK(call->request.inputs[0].shape == std::vector<std::int64_t>{2, 2});
  CHECK(call->request.inputs[1].shape == std::vector<std::int64_t>{1});
  CHECK(json::parse(call->request.parameters) == json{{"size", 2}, {"on", true}});
  CHECK(call->shape.id == "i");
  CHECK(read(R"({"IN":[[1,2]]})")->request.inputs[0].shape == std::vector<std::int64_t>{1, 2});
  for (const auto* body :
       {R"({"IN":[1,2,3]})", R"({"IN":["a","b"]})", R"({"TEXT":"a"})", R"({"IN":[1,2],"x":[1]})",
        R"({"IN":[1,2],"TEXT":["a","b"]})", R"({"IN":[1,2],"parameters":{"IN":[1,2]}})", "[]"}) {
    CAPTURE(body);
    CHECK_FALSE(read(body));
  }
  facts.max_batch_size = 4;
  CHECK(read(R"({"IN":[1,2]})")->request.inputs[0].shape == std::vector<std::int64_t>{1, 1, 2});
  facts.inputs.clear();
  CHECK(read(R"({"IN":[1,2]})").error().code == errc::unprocessable);
}

TEST_CASE("a response is tensors in JSON or after it, with parameters unchanged") {
  kserve_worker_shape shape;
  shape.id = "7";
  shape.model = "m";
  shape.version = "3";
  kserve_worker_unary plain(shape);
  auto piece = piece_of({int_tensor("A", {1, 2}), int_tensor("B", {3})});
  piece.parameters = R"({"x":[1]})";
  CHECK(whole_body(plain, piece) ==
        R"({"id":"7","model_name":"m","model_version":"3","parameters":{"x":[1]},"outputs":[)"
        R"({"name":"A","datatype":"INT32","shape":[2],"data":[1,2]},)"
        R"({"name":"B","datatype":"INT32","shape":[1],"data":[3]}]})");
  CHECK(plain.head().content_type == "application/json");
  shape.id.clear();
  shape.outputs = {{"B", true}};
  kserve_worker_unary binary(shape);
  const auto body = whole_body(binary, piece);
  const std::string text =
      R"({"model_name":"m","model_version":"3","parameters":{"x":[1]},"outputs":[)"
      R"({"name":"B","datatype":"INT32","shape":[1],"parameters":{"binary_data_size":4}}]})";
  CHECK(body == text + "\3\0\0\0"s);
  CHECK(binary.head().content_type == "application/octet-stream");
  CHECK(binary.head().headers ==
        header_list{{"Inference-Header-Content-Length", std::to_string(text.size())}});
}

TEST_CASE("one response is sent whole, and its end may come alone; a second one is an error") {
  const kserve_worker_shape shape;
  kserve_worker_unary alone(shape);
  CHECK(alone.take(piece_of({int_tensor("A", {1})}, false)));
  CHECK(whole_body(alone, piece_of({}, true, 1)).empty());
  kserve_worker_unary several(shape);
  CHECK(several.take(piece_of({int_tensor("A", {1})}, false)));
  CHECK(several.take(piece_of({int_tensor("A", {1})}, true, 1)).error().code ==
        errc::invalid_request);
  kserve_worker_unary nothing(shape);
  CHECK(json::parse(whole_body(nothing, piece_of({})))["outputs"] == json::array());
}

TEST_CASE("a piece that is no tensor response is the handler's failure") {
  const kserve_worker_shape shape;
  const auto fails = [&](inferred piece) {
    const auto reported = checked_response(shape, std::move(piece));
    return !reported && reported.error().code == errc::handler_failed;
  };
  auto body = piece_of({});
  body.body = "x";
  CHECK(fails(body));
  auto torn = piece_of({int_tensor("A", {1})});
  torn.outputs[0].shape = {2};
  CHECK(fails(torn));
  torn.outputs[0].shape = {-1};
  CHECK(fails(torn));
  auto odd = piece_of({int_tensor("A", {1})});
  odd.outputs[0].datatype = "INT33";
  CHECK(fails(odd));
  auto spoiled = piece_of({int_tensor("A", {1})});
  spoiled.parameters = "[1]";
  CHECK(fails(spoiled));
  CHECK_FALSE(fails(piece_of({int_tensor("A", {1})})));
}

TEST_CASE("generate has a member for each output, an event for each response") {
  kserve_worker_shape shape;
  shape.route = kserve_route::generate_stream;
  shape.model = "m";
  shape.version = "3";
  kserve_worker_events events(shape);
  CHECK(*events.take(piece_of({int_tensor("A", {1}), int_tensor("B", {1, 2})}, false)) ==
        "data: {\"model_name\":\"m\",\"model_version\":\"3\",\"A\":1,\"B\":[1,2]}\n\n");
  CHECK(events.take(piece_of({}, true, 1))->empty());
  CHECK(events.head().content_type == event_stream_type);
  CHECK(events.failure_tail(fail(errc::internal, "bad")) == "data: {\"error\":\"bad\"}\n\n");
}

TEST_CASE("parameters of a response equal those of gRPC") {
  auto piece = piece_of({int_tensor("A", {1})});
  piece.parameters =
      R"({"b":true,"i":-1,"u":18446744073709551615,"r":0.5,"s":"x","o":{"a":1},"n":null})";
  const auto reported = grpc_response_of({}, piece);
  CHECK(reported.outputs.size() == 1);
  REQUIRE(reported.parameters.size() == 6);
  for (const auto& [name, value] : reported.parameters) {
    const std::map<std::string, grpc_value> right{{"b", true},       {"i", std::int64_t{-1}},
                                                  {"u", UINT64_MAX}, {"r", 0.5},
                                                  {"s", "x"s},       {"o", R"({"a":1})"s}};
    CHECK(*value == right.at(name));
  }
}

namespace {

// "m" in two versions, the newest of which a process serves; and a language model, "smol".
struct kserve_worker_world {
  std::shared_ptr<gateway_state> facts = std::make_shared<gateway_state>(config());
  http_api api{facts};
  std::shared_ptr<worker_load> load = std::make_shared<worker_load>();

  kserve_worker_world() {
    load->workers = 1;
    auto newest = view_of(declared(), "m", "3");
    newest.load = load;
    facts->set_workers(nullptr, {newest, view_of(declared(), "m", "2")}, {});
  }
  static gateway_config config() {
    gateway_config c;
    c.pipelines = {{process_id{2}, "smol"}};
    return c;
  }
  api_call plan(std::string_view method, std::string_view path, std::string_view body = {}) const {
    http_call c;
    c.method = method;
    c.target = path;
    c.host = "localhost";
    c.body = body;
    auto admitted = api.admit(c);
    if (admitted.refusal) {
      return *admitted.refusal;
    }
    return api.plan(c);
  }
  http_reply ask(std::string_view path, std::string_view method = "GET") const {
    auto made = plan(method, path);
    REQUIRE(std::holds_alternative<http_reply>(made));
    return std::get<http_reply>(made);
  }
};

} // namespace

TEST_CASE("a body of bytes alone is a model's only input, with a shape from its size") {
  const auto reported = [](worker_tensor input, std::string body, std::uint32_t batch = 0) {
    worker_facts facts;
    facts.inputs = {std::move(input)};
    facts.max_batch_size = batch;
    return read_worker_infer(view_of(std::move(facts)), body, "0", testing::default_limits);
  };
  const auto shape = [&](std::vector<std::int64_t> declared, std::size_t bytes,
                         std::uint32_t batch = 0) {
    const auto call = reported({"IN", "FP32", std::move(declared)}, std::string(bytes, 'x'), batch);
    REQUIRE_MESSAGE(call, call.error().message);
    CHECK(call->shape.is_binary);
    CHECK(call->request.inputs[0].data.size() == bytes);
    return call->request.inputs[0].shape;
  };
  using dims = std::vector<std::int64_t>;
  CHECK(shape({2, 3}, 24) == dims{2, 3});
  CHECK(shape({2, -1}, 24) == dims{2, 3});
  CHECK(shape({-1}, 0) == dims{0});
  CHECK(shape({}, 4) == dims{});
  CHECK(shape({2, -1}, 24, 8) == dims{1, 2, 3});
  const auto text = reported({"TEXT", "BYTES", {-1}}, "hello", 4);
  REQUIRE(text);
  CHECK(text->request.inputs[0].shape == dims{1, 1});
  CHECK(text->request.inputs[0].data == std::string("\x05\0\0\0hello", 9));
  const auto wrong = [&](worker_tensor input, std::size_t bytes) {
    const auto call = reported(std::move(input), std::string(bytes, 'x'));
    REQUIRE_FALSE(call);
    return call.error().message;
  };
  CHECK(wrong({"IN", "FP32", {2, 3}}, 23).find("23 bytes") != std::string::npos);
  CHECK(wrong({"IN", "FP32", {2, -1}}, 12).find("12 bytes") != std::string::npos);
  CHECK(wrong({"IN", "FP32", {-1, -1}}, 24).find("one open dimension") != std::string::npos);
  CHECK(wrong({"IN", "BYTES", {2}}, 24).find("one element") != std::string::npos);
  const auto several = read_worker_infer(view_of(declared()), "x", "0", testing::default_limits);
  CHECK(several.error().message.find("models with one input") != std::string::npos);
  CHECK(read_worker_infer(view_of({}), "x", "0", testing::default_limits)
            .error()
            .message.find("does not say") != std::string::npos);
}

TEST_CASE("worker models are listed beside the language models") {
  const kserve_worker_world w;
  const auto reported = json::parse(w.ask("/v2/models/m").body);
  CHECK(reported["versions"] == json{"3", "2"});
  CHECK(reported["platform"] == "baton_worker");
  CHECK(reported["inputs"][0] == json{{"name", "IN"}, {"datatype", "INT32"}, {"shape", {-1, 2}}});
  const auto config = json::parse(w.ask("/v2/models/m/config").body);
  CHECK(config["input"][1] == json::parse(R"({
    "name": "TEXT", "data_type": "TYPE_STRING", "format": "FORMAT_NONE", "dims": [1],
    "is_shape_tensor": false, "allow_ragged_batch": false, "optional": true,
    "is_non_linear_format_io": false})"));
  CHECK_FALSE(config.contains("optimization"));
  CHECK(w.ask("/v2/models/m/ready").status == 200);
  CHECK(w.ask("/v2/models/m/versions/2/ready").status == 400);
  CHECK(w.ask("/v2/models/m/versions/1").status == 404);
  CHECK(json::parse(w.ask("/v2/models/m/stats").body)["model_stats"].size() == 2);
  CHECK(json::parse(w.ask("/v2/models/stats").body)["model_stats"].size() == 3);
  const auto index = json::parse(w.ask("/v2/repository/index", "POST").body);
  REQUIRE(index.size() == 3);
  CHECK(index[1] == json{{"name", "m"}, {"version", "3"}, {"state", "READY"}, {"reason", ""}});
  CHECK(index[2]["state"] == "LOADING");
}

TEST_CASE("a configuration has the queue, the processes and the versions") {
  worker_facts facts;
  facts.processes = {"worker-m-0", "worker-m-1"};
  facts.versions = {0, false, {1, 3}};
  auto alone = facts;
  alone.versions = {2, false, {}};
  facts.is_decoupled = true;
  facts.max_batch_size = 8;
  facts.batch_size = 8;
  facts.preferred_batch_size = {4, 8};
  facts.max_batch_delay = std::chrono::microseconds(250);
  facts.max_queued = 50;
  facts.priority_levels = 2;
  facts.default_priority_level = 2;
  facts.queue_policy = {std::chrono::microseconds(1000), false, true, 0};
  facts.priority_queue_policy[1] = {std::chrono::microseconds(0), true, false, 7};
  worker_view view;
  view.name = "m";
  view.facts = std::make_shared<worker_facts>(facts);
  auto reported = json::parse(worker_config_body(view));
  CHECK(reported["max_batch_size"] == 8);
  CHECK(reported["instance_group"][0]["count"] == 2);
  CHECK(reported["model_transaction_policy"]["decoupled"] == true);
  CHECK(reported["version_policy"] == json{{"specific", {{"versions", {1, 3}}}}});
  CHECK(reported["dynamic_batching"] == json::parse(R"({
    "preferred_batch_size": [4, 8], "max_queue_delay_microseconds": 250, "preserve_ordering": false,
    "priority_levels": 2, "default_priority_level": 2,
    "default_queue_policy": {"timeout_action": "REJECT", "default_timeout_microseconds": 1000,
                             "allow_timeout_override": true, "max_queue_size": 50},
    "priority_queue_policy": {"1": {"timeout_action": "DELAY", "default_timeout_microseconds": 0,
                                    "allow_timeout_override": false, "max_queue_size": 7}}})"));
  view.facts = std::make_shared<worker_facts>(alone);
  reported = json::parse(worker_config_body(view));
  CHECK_FALSE(reported.contains("dynamic_batching")); // one by one, on arrival
  CHECK(reported["version_policy"] == json{{"latest", {{"num_versions", 2}}}});
  alone.preserve_ordering = true;
  alone.versions.is_all = true;
  view.facts = std::make_shared<worker_facts>(alone);
  reported = json::parse(worker_config_body(view));
  CHECK(reported["dynamic_batching"]["preserve_ordering"] == true);
  CHECK(reported["dynamic_batching"]["max_queue_delay_microseconds"] == 0);
  CHECK(reported["version_policy"] == json{{"all", json::object()}});
}

TEST_CASE("a configuration of Triton is returned as written, with Triton's additions") {
  auto facts = declared();
  facts.processes = {"worker-m-0", "worker-m-1", "worker-m-2"};
  facts.max_batch_size = 8;
  facts.batch_size = 8;
  facts.config = R"({
    "backend": "onnxruntime", "input": [{"name": "IN", "format": "FORMAT_NCHW"}],
    "optimization": {"graph": {"level": 1}, "input_pinned_memory": {"enable": false}},
    "instance_group": [{"kind": "KIND_GPU", "count": 2, "gpus": [0, 1]}, {}],
    "dynamic_batching": {"max_queue_delay_microseconds": 100},
    "parameters": {"k": {"string_value": "v"}}, "metric_tags": {"a": "b"},
    "model_warmup": [{"name": "w", "inputs": {"IN": {"zero_data": true}}}]})";
  worker_view view;
  view.name = "m";
  view.facts = std::make_shared<worker_facts>(facts);
  auto reported = json::parse(worker_config_body(view));
  CHECK(reported["name"] == "m");
  CHECK(reported["platform"] == "onnxruntime_onnx");
  CHECK(reported["backend"] == "onnxruntime");
  CHECK(reported["default_model_filename"] == "model.onnx");
  CHECK(reported["version_policy"] == json{{"latest", {{"num_versions", 1}}}});
  CHECK(reported["input"][0]["format"] == "FORMAT_NCHW");
  CHECK(reported["input"][0]["dims"] == json{-1, 2});
  CHECK(reported["input"][1]["format"] == "FORMAT_NONE");
  CHECK(reported["optimization"] == json::parse(R"({
    "graph": {"level": 1}, "priority": "PRIORITY_DEFAULT",
    "input_pinned_memory": {"enable": false}, "output_pinned_memory": {"enable": true},
    "gather_kernel_buffer_threshold": 0, "eager_batching": false})"));
  CHECK(reported["dynamic_batching"]["preferred_batch_size"] == json::array({8}));
  CHECK(reported["dynamic_batching"]["max_queue_delay_microseconds"] == 100);
  CHECK_FALSE(reported["dynamic_batching"].contains("default_queue_policy")); // as it was written
  CHECK(reported["instance_group"] == json::parse(R"([
    {"name": "m_0", "kind": "KIND_GPU", "count": 2, "gpus": [0, 1], "secondary_devices": [],
     "profile": [], "passive": false, "host_policy": ""},
    {"name": "m_1", "kind": "KIND_CPU", "count": 1, "gpus": [], "secondary_devices": [],
     "profile": [], "passive": false, "host_policy": ""}])"));
  CHECK(reported["parameters"] == json::parse(R"({"k": {"string_value": "v"}})"));
  CHECK(reported["metric_tags"] == json{{"a", "b"}});
  CHECK(reported["model_warmup"] == json::parse(R"([
    {"name": "w", "batch_size": 0, "count": 0,
     "inputs": {"IN": {"data_type": "TYPE_INVALID", "dims": [], "zero_data": true}}}])"));
  CHECK(reported["cc_model_filenames"] == json::object());
  CHECK(reported["batch_input"] == json::array());
  facts.config = R"({"backend": "python"})";
  view.facts = std::make_shared<worker_facts>(facts);
  reported = json::parse(worker_config_body(view));
  CHECK(reported["platform"] == "");
  CHECK(reported["default_model_filename"] == "model.py");
  CHECK(reported["instance_group"][0]["name"] == "m");
  CHECK(reported["instance_group"][0]["count"] == 3);
  CHECK_FALSE(reported.contains("dynamic_batching"));
}

TEST_CASE("metadata have the platform, or the backend if it has none") {
  worker_facts facts;
  facts.platform = "onnxruntime";
  CHECK(reported_platform(facts) == "onnxruntime");
  for (const auto& [config, platform] :
       {std::pair(R"({"backend":"onnxruntime"})", "onnxruntime_onnx"),
        std::pair(R"({"backend":"python"})", "python"),
        std::pair(R"({"platform":"torch_aoti"})", "torch_aoti"),
        std::pair(R"({"backend":"pytorch"})", "pytorch_libtorch"),
        std::pair(R"({"backend":"tensorflow"})", "tensorflow_savedmodel"),
        std::pair(R"({"platform":"tensorflow_savedmodel"})", "tensorflow_savedmodel")}) {
    facts.config = config;
    CHECK(reported_platform(facts) == platform);
  }
}

TEST_CASE("a platform is found by its backend, its name or both") {
  for (const auto& p : triton_platforms) {
    if (!p.name.empty()) {
      CHECK(find_triton_platform("", p.name) == &p);
      CHECK(find_triton_platform(p.backend, p.name) == &p);
      CHECK(find_triton_platform("other", p.name) == nullptr);
    }
    CHECK(find_triton_platform(p.backend, "")->backend == p.backend);
  }
  CHECK(find_triton_platform("pytorch", "")->file == "model.pt");
  CHECK(find_triton_platform("", "") == nullptr);
  CHECK(find_triton_platform("tensorrt", "tensorrt_plan") == nullptr);
}

TEST_CASE("a call with a worker model's name goes to a worker, in its format") {
  const kserve_worker_world w;
  const std::string body = R"({"inputs":[)" + in + "]}";
  auto plan = w.plan("POST", "/v2/models/m/infer", body);
  REQUIRE(std::holds_alternative<worker_call>(plan));
  CHECK(std::get<worker_call>(plan).request.version.empty());
  CHECK(std::get<worker_call>(plan).family == &kserve_family);
  plan = w.plan("POST", "/v2/models/m/versions/2/infer", body);
  CHECK(std::get<worker_call>(plan).request.version == "2");
  plan = w.plan("POST", "/v2/models/m/generate_stream", R"({"IN":[1,2]})");
  CHECK(std::get<worker_call>(plan).writer->is_streamed());
  plan = w.plan("POST", "/v2/models/m/infer", "{}");
  CHECK(std::get<http_reply>(plan).status == 400);
}
