// gRPC without a connection: protobuf messages to typed requests and back; errors as statuses.
#include "gateway/api/kserve/calls/kserve_call.hpp"
#include "gateway/grpc/grpc_api.hpp"
#include "gateway/grpc/library/codec.hpp"
#include "tests/unit/gateway/dispatch/request_router_world.hpp"

#include "kserve.pb.h"
#include "torchserve_inference.pb.h"
#include "torchserve_management.pb.h"
#include <doctest/doctest.h>

#include <cmath>

using namespace baton;
using namespace baton::gateway;

namespace {

std::string trailer(const grpc_status& s, std::string_view name) {
  for (const auto& [key, value] : s.trailers) {
    if (key == name) {
      return value;
    }
  }
  return {};
}

// "m" is ready, at a pipeline client that sends nothing by itself.
struct grpc_messages_world : at_pipeline_client::request_router_world {
  const grpc_codec& codec = protobuf_codec();

  grpc_messages_world() : request_router_world({"m"}) {}

  grpc_plan plan(grpc_service service, std::string_view name, const std::string& bytes) {
    const auto* method = find_grpc_method(service, fmt::format("/{}/{}", name_of(service), name));
    REQUIRE(method != nullptr);
    return plan_grpc(*method, bytes, codec, *facts);
  }
  grpc_plan infer(const inference::ModelInferRequest& given, std::string_view name = "ModelInfer") {
    return plan(grpc_service::kserve, name, given.SerializeAsString());
  }
};

inference::ModelInferRequest message_request(const std::string& text) {
  inference::ModelInferRequest r;
  r.set_model_name("m");
  auto& input = *r.add_inputs();
  input.set_name("text_input");
  input.set_datatype("BYTES");
  input.add_shape(1);
  input.mutable_contents()->add_bytes_contents(text);
  return r;
}

template <class Message>
Message read_as(const std::string& bytes) {
  Message m;
  REQUIRE(m.ParseFromString(bytes));
  return m;
}

std::string message_raw_text(const std::string& text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

chunk message_piece(std::string text, finish how = finish::none) {
  chunk c;
  c.count = 1;
  c.text = std::move(text);
  c.finish = how;
  return c;
}

} // namespace

TEST_CASE("every error has a failure status, and gives its name") {
  for (const auto& row : errc_table()) {
    CAPTURE(row.name);
    const auto s = grpc_failure(row.code, "why", std::chrono::milliseconds(2'500));
    CHECK(s.code > 0);
    CHECK(s.code <= 16);
    CHECK(trailer(s, "baton-error") == row.name);
    CHECK(trailer(s, "retry-after") == (row.retryable ? "3" : ""));
    CHECK(trailer(s, "grpc-retry-pushback-ms") == (row.retryable ? "2500" : ""));
  }
  CHECK(grpc_code_of(errc::no_job_ticket) == grpc_code::resource_exhausted);
  CHECK(grpc_code_of(errc::draining) == grpc_code::unavailable);
  CHECK(grpc_code_of(errc::pipeline_lost) == grpc_code::unavailable);
  CHECK(grpc_code_of(errc::unauthorized) == grpc_code::unauthenticated);
  CHECK(grpc_code_of(errc::deadline_exceeded) == grpc_code::deadline_exceeded);
  CHECK(grpc_code_of(errc::quarantined) == grpc_code::internal);
}

TEST_CASE("every method of the services is implemented, and answers like its HTTP route") {
  const google::protobuf::ServiceDescriptor* services[] = {
      inference::ModelInferRequest::descriptor()->file()->service(0),
      org::pytorch::serve::grpc::inference::PredictionsRequest::descriptor()->file()->service(0),
      org::pytorch::serve::grpc::management::ListModelsRequest::descriptor()->file()->service(0)};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto service = static_cast<grpc_service>(i);
    CHECK(services[i]->full_name() == name_of(service));
    for (int j = 0; j < services[i]->method_count(); ++j) {
      const auto& method = *services[i]->method(j);
      CAPTURE(method.full_name());
      const auto* found =
          find_grpc_method(service, fmt::format("/{}/{}", name_of(service), method.name()));
      REQUIRE(found != nullptr);
      if (!found->asks.empty()) {
        CHECK(found->asks == method.input_type()->full_name());
        CHECK(found->answers == method.output_type()->full_name());
      }
      CHECK((found->shape == grpc_shape::both_streams) ==
            (method.client_streaming() && found->instead.empty()));
    }
  }
  const auto live = "/inference.GRPCInferenceService/ServerLive";
  CHECK(find_grpc_method(grpc_service::kserve, live) != nullptr);
  for (const auto* path :
       {"", "/", "/inference.GRPCInferenceService", "/inference.GRPCInferenceService/",
        "/inference.GRPCInferenceService/Nope", "inference.GRPCInferenceService/ServerLive",
        "/x/ServerLive"}) {
    CAPTURE(path);
    CHECK(find_grpc_method(grpc_service::kserve, path) == nullptr);
  }
  CHECK(find_grpc_method(grpc_service::torchserve_inference, live) == nullptr);
}

TEST_CASE_FIXTURE(grpc_messages_world, "an infer request equals the same tensors over HTTP") {
  auto given = message_request("Say it");
  given.set_id("42");
  (*given.mutable_parameters())["max_tokens"].set_int64_param(7);
  (*given.mutable_parameters())["temperature"].set_double_param(0.5);
  (*given.mutable_parameters())["seed"].set_uint64_param(UINT64_MAX);
  (*given.mutable_parameters())["stop"].set_string_param("\"quoted\"");
  auto plan = infer(given);
  REQUIRE(std::holds_alternative<grpc_generate>(plan));
  auto& made = std::get<grpc_generate>(plan);
  CHECK(std::get<std::string>(made.request.input) == "Say it");
  CHECK(made.request.terms.sampling.temperature == doctest::Approx(0.5));
  CHECK(made.request.terms.stop.max_tokens == 7);
  std::vector<std::string> out;
  made.answer->add(message_piece("a"), out);
  CHECK(out.empty());
  made.answer->add(message_piece("b", finish::stop), out);
  REQUIRE(out.size() == 1);
  const auto reported = read_as<inference::ModelInferResponse>(out[0]);
  CHECK(reported.id() == "42");
  CHECK(reported.model_name() == "m");
  CHECK(reported.model_version() == "1");
  REQUIRE(reported.outputs_size() == 1);
  CHECK(reported.outputs(0).datatype() == "BYTES");
  CHECK(reported.outputs(0).shape(0) == 1);
  CHECK(reported.raw_output_contents(0) == message_raw_text("Say itab"));
}

TEST_CASE_FIXTURE(grpc_messages_world, "raw contents belong to the inputs in order") {
  inference::ModelInferRequest given;
  given.set_model_name("m");
  for (const auto& [name, type] :
       {std::pair("text_input", "BYTES"), std::pair("max_tokens", "INT32")}) {
    auto& input = *given.add_inputs();
    input.set_name(name);
    input.set_datatype(type);
    input.add_shape(1);
  }
  given.add_raw_input_contents(message_raw_text("hello"));
  given.add_raw_input_contents(std::string("\3\0\0\0", 4));
  auto plan = infer(given);
  REQUIRE(std::holds_alternative<grpc_generate>(plan));
  CHECK(std::get<grpc_generate>(plan).request.terms.stop.max_tokens == 3);
  given.add_raw_input_contents("more");
  CHECK(std::get<error>(infer(given)).param == "raw_input_contents");
  given.mutable_raw_input_contents()->Clear();
  CHECK(std::get<error>(infer(given)).param == "text_input");
}

TEST_CASE_FIXTURE(grpc_messages_world, "an error in a request names its field") {
  const auto param = [&](const inference::ModelInferRequest& given) {
    const auto plan = infer(given);
    REQUIRE(std::holds_alternative<error>(plan));
    return std::get<error>(plan).param;
  };
  auto given = message_request("x");
  (*given.mutable_parameters())["nonsense"].set_bool_param(true);
  CHECK(param(given) == "nonsense");
  given = message_request("x");
  (*given.mutable_parameters())["temperature"];
  CHECK(param(given) == "temperature");
  given = message_request("x");
  (*given.mutable_parameters())["temperature"].set_double_param(HUGE_VAL);
  CHECK(param(given) == "temperature");
  given = message_request("x");
  (*given.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  CHECK(param(given) == "shared_memory_region");
  given = message_request("x");
  given.mutable_inputs(0)->mutable_contents()->add_int_contents(4);
  CHECK(param(given) == "text_input");
  given = message_request("x");
  auto& wrong = *given.add_inputs();
  wrong.set_name("max_tokens");
  wrong.set_datatype("INT32");
  wrong.add_shape(1);
  wrong.mutable_contents()->add_fp32_contents(1); // the same number of bytes
  CHECK(param(given) == "max_tokens");
  given = message_request("x");
  given.set_id(std::string(kserve_id_bytes_max + 1, 'i'));
  CHECK(param(given) == "id");
  given = message_request("x");
  given.set_model_name("other");
  CHECK(std::get<error>(infer(given)).code == errc::model_not_found);
  given = message_request("x");
  given.set_model_version("2");
  CHECK(std::get<error>(infer(given)).code == errc::model_not_found);
  CHECK(std::get<error>(plan(grpc_service::kserve, "ModelInfer", "\xff\xff")).code ==
        errc::invalid_request);
}

TEST_CASE_FIXTURE(grpc_messages_world, "a stream has a response for each piece, and a final one") {
  auto given = message_request("x");
  auto& stream = *given.add_inputs();
  stream.set_name("stream");
  stream.set_datatype("BOOL");
  stream.add_shape(1);
  stream.mutable_contents()->add_bool_contents(true);
  for (const bool has_empty_end : {false, true}) {
    CAPTURE(has_empty_end);
    (*given.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(
        has_empty_end);
    auto plan = infer(given, "ModelStreamInfer");
    REQUIRE(std::holds_alternative<grpc_generate>(plan));
    auto& answer = *std::get<grpc_generate>(plan).answer;
    std::vector<std::string> out;
    answer.flush(out);
    CHECK(out.empty()); // no piece yet
    answer.add(message_piece("a"), out);
    CHECK(out.empty());
    answer.flush(out);
    answer.flush(out);
    CHECK(out.size() == 1);
    answer.add(message_piece("b", finish::stop), out);
    CHECK(answer.has_ended());
    REQUIRE(out.size() == (has_empty_end ? 3 : 2));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto reported = read_as<inference::ModelStreamInferResponse>(out[i]);
      CHECK(reported.error_message().empty());
      CHECK(reported.infer_response().parameters().at("triton_final_response").bool_param() ==
            (i + 1 == out.size()));
      CHECK(reported.infer_response().outputs_size() == (i < 2 ? 1 : 0));
    }
    CHECK(read_as<inference::ModelStreamInferResponse>(*answer.failure(fail(errc::internal, "bad")))
              .error_message() == "bad");
  }
  for (const auto* lead : {"", "x"}) { // one of them is cut within a character
    std::string name = lead;
    for (int i = 0; i < 200; ++i) {
      name += "\u00e9";
    }
    given.set_model_name(name);
    given.set_id(name);
    const auto about = infer(given, "ModelStreamInfer");
    REQUIRE(std::holds_alternative<grpc_stream_error>(about));
    const auto text = read_as<inference::ModelStreamInferResponse>( // which requires UTF-8
        std::get<grpc_stream_error>(about).bytes);
    CHECK(text.error_message().find("not found") != std::string::npos);
  }
  given.set_model_name("other");
  given.set_id("7");
  const auto plan = infer(given, "ModelStreamInfer"); // others of the stream continue
  REQUIRE(std::holds_alternative<grpc_stream_error>(plan));
  const auto reported =
      read_as<inference::ModelStreamInferResponse>(std::get<grpc_stream_error>(plan).bytes);
  CHECK(reported.error_message().find("other") != std::string::npos);
  CHECK(reported.infer_response().id() == "7");
}

TEST_CASE_FIXTURE(grpc_messages_world, "model metadata survive protobuf") {
  const auto ask = [&](std::string_view name, const google::protobuf::Message& given) {
    auto made = plan(grpc_service::kserve, name, given.SerializeAsString());
    REQUIRE(std::holds_alternative<grpc_reply>(made));
    return std::get<grpc_reply>(made).bytes;
  };
  inference::ModelMetadataRequest metadata;
  metadata.set_name("m");
  const auto model = read_as<inference::ModelMetadataResponse>(ask("ModelMetadata", metadata));
  CHECK(model.versions(0) == "1");
  CHECK(model.inputs_size() == static_cast<int>(kserve_inputs().size()));
  CHECK(model.outputs(0).shape(0) == -1);
  inference::ModelConfigRequest config;
  config.set_name("m");
  const auto reported = read_as<inference::ModelConfigResponse>(ask("ModelConfig", config));
  CHECK(reported.config().backend() == "baton");
  CHECK(reported.config().model_transaction_policy().decoupled());
  CHECK(reported.config().input(0).data_type() == inference::TYPE_STRING);
  CHECK(reported.config().instance_group(0).kind() == inference::ModelInstanceGroup::KIND_MODEL);
  CHECK(reported.config().parameters().at("max_model_len").string_value() == "100");
  CHECK(read_as<inference::ServerReadyResponse>(ask("ServerReady", inference::ServerReadyRequest()))
            .ready());
  const auto index = read_as<inference::RepositoryIndexResponse>(
      ask("RepositoryIndex", inference::RepositoryIndexRequest()));
  CHECK(index.models(0).state() == "READY");
  const auto statistics = read_as<inference::ModelStatisticsResponse>(
      ask("ModelStatistics", inference::ModelStatisticsRequest()));
  CHECK(statistics.model_stats(0).name() == "m");
  CHECK(statistics.model_stats(0).inference_stats().success().count() == 0);
}

TEST_CASE_FIXTURE(grpc_messages_world,
                  "a trace and a key are read from metadata, and duplicates are ignored") {
  const std::string parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  grpc_head head;
  head.metadata = {{"traceparent", parent}, {"tracestate", "a=1"}};
  REQUIRE(trace_of(head));
  CHECK(traceparent_of(*trace_of(head)) == parent);
  CHECK(trace_of(head)->state == "a=1");
  head.metadata.emplace_back("traceparent", parent);
  CHECK_FALSE(trace_of(head));

  gateway_config config;
  config.keys.emplace(); // no key is valid
  gateway_state guarded(config);
  for (const auto& method : grpc_methods()) {
    CAPTURE(method.name);
    head.method = fmt::format("/{}/{}", name_of(method.service), method.name);
    const auto who = admit_grpc(method.service, head, guarded);
    CHECK(static_cast<bool>(who) == (method.access == route_access::open));
    CHECK((method.access != route_access::open || method.name == "ServerLive" ||
           method.name == "ServerReady" || method.name == "Ping" ||
           method.service == grpc_service::health));
  }
}

TEST_CASE_FIXTURE(grpc_messages_world, "predictions of TorchServe's clients") {
  org::pytorch::serve::grpc::inference::PredictionsRequest given;
  given.set_model_name("m");
  (*given.mutable_input())["data"] = R"({"prompt": "hi", "max_new_tokens": 3})";
  const auto predict = [&](std::string_view name) {
    return plan(grpc_service::torchserve_inference, name, given.SerializeAsString());
  };
  auto made = predict("StreamPredictions");
  REQUIRE(std::holds_alternative<grpc_generate>(made));
  CHECK(std::get<grpc_generate>(made).request.terms.stop.max_tokens == 3);
  auto& pieces = *std::get<grpc_generate>(made).answer;
  std::vector<std::string> out;
  pieces.add(message_piece("a"), out);
  pieces.add(message_piece("b", finish::stop), out);
  CHECK(out.size() == 2);
  (*given.mutable_input())["data"] = "plain text";
  made = predict("Predictions");
  REQUIRE(std::holds_alternative<grpc_generate>(made));
  out.clear();
  std::get<grpc_generate>(made).answer->add(message_piece("a"), out);
  CHECK(out.empty());
  std::get<grpc_generate>(made).answer->add(message_piece("b", finish::stop), out);
  REQUIRE(out.size() == 1);
  CHECK(read_as<org::pytorch::serve::grpc::inference::PredictionResponse>(out[0]).prediction() ==
        "ab");
  (*given.mutable_input())["image"] = "x";
  CHECK(std::get<error>(predict("Predictions")).param == "image");
  given.mutable_input()->clear();
  CHECK(std::get<error>(predict("Predictions")).param == "data");
  given.set_model_version("2.0");
  CHECK(std::get<error>(predict("Predictions")).code == errc::model_not_found);
}

namespace {

// "w" of a worker that declares one input.
struct worker_world : grpc_messages_world {
  worker_world() {
    worker_facts reported;
    reported.inputs = {{"IN", "INT16", {-1}, false}};
    facts->set_workers(nullptr,
                       {{"w", "1", std::make_shared<worker_load>(),
                         std::make_shared<const worker_facts>(reported)}},
                       {});
  }
  static inference::ModelInferRequest asks(std::vector<std::int32_t> values) {
    inference::ModelInferRequest r;
    r.set_model_name("w");
    r.set_id("7");
    auto& input = *r.add_inputs();
    input.set_name("IN");
    input.set_datatype("INT16");
    input.add_shape(static_cast<std::int64_t>(values.size()));
    for (const auto value : values) {
      input.mutable_contents()->add_int_contents(value);
    }
    return r;
  }
  static inferred answer(bool is_last, bool is_empty = false) {
    inferred p;
    p.is_last = is_last;
    if (!is_empty) {
      p.outputs = {{"OUT", "INT16", {1}, std::string("\1\0", 2)}};
      p.parameters = R"({"n":2})";
    }
    return p;
  }
};

} // namespace

TEST_CASE_FIXTURE(worker_world, "an infer request of a worker model has its tensors unchanged") {
  auto plan = infer(asks({-2, 5}));
  REQUIRE(std::holds_alternative<grpc_worker_request>(plan));
  auto& made = std::get<grpc_worker_request>(plan);
  REQUIRE(made.request.inputs.size() == 1);
  CHECK(made.request.inputs[0].data == std::string("\xfe\xff\5\0", 4));
  std::vector<std::string> out;
  CHECK(made.answer->take(answer(false), out));
  CHECK(out.empty());
  CHECK(made.answer->take(answer(true, true), out));
  CHECK(made.answer->has_ended());
  REQUIRE(out.size() == 1);
  const auto reported = read_as<inference::ModelInferResponse>(out[0]);
  CHECK(reported.id() == "7");
  CHECK(reported.model_version() == "1");
  CHECK(reported.parameters().at("n").int64_param() == 2);
  CHECK(reported.raw_output_contents(0) == std::string("\1\0", 2));
  auto again = infer(asks({1}));
  auto& other = *std::get<grpc_worker_request>(again).answer;
  CHECK(other.take(answer(false), out));
  CHECK(other.take(answer(true), out).error().code == errc::invalid_request);
  for (const auto& wrong : {asks({40'000}), message_request("w")}) {
    auto given = wrong;
    given.set_model_name("w");
    CHECK(std::holds_alternative<error>(infer(given)));
  }
  auto given = asks({1});
  given.set_model_version("2");
  CHECK(std::get<error>(infer(given)).code == errc::model_not_found);
}

TEST_CASE_FIXTURE(worker_world, "a streamed prediction of a worker shares no batch") {
  org::pytorch::serve::grpc::inference::PredictionsRequest given;
  given.set_model_name("w");
  (*given.mutable_input())["data"] = "x";
  for (const bool is_stream : {false, true}) {
    CAPTURE(is_stream);
    const auto made =
        plan(grpc_service::torchserve_inference, is_stream ? "StreamPredictions" : "Predictions",
             given.SerializeAsString());
    REQUIRE(std::holds_alternative<grpc_worker_request>(made));
    CHECK(std::get<grpc_worker_request>(made).goes_alone == is_stream);
  }
  const auto streamed = infer(asks({1}), "ModelStreamInfer"); // Triton batches them
  CHECK_FALSE(std::get<grpc_worker_request>(streamed).goes_alone);
}

TEST_CASE_FIXTURE(worker_world,
                  "a worker's stream marks its end in the last response, or where requested") {
  for (const bool wants_end : {false, true}) {
    CAPTURE(wants_end);
    auto given = asks({1});
    (*given.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(wants_end);
    for (const bool ends_alone : {false, true}) {
      CAPTURE(ends_alone);
      auto plan = infer(given, "ModelStreamInfer");
      REQUIRE(std::holds_alternative<grpc_worker_request>(plan));
      auto& made = *std::get<grpc_worker_request>(plan).answer;
      std::vector<std::string> out;
      CHECK(made.take(answer(false), out));
      CHECK_FALSE(made.has_ended());
      CHECK(made.take(answer(true, ends_alone), out));
      CHECK(made.has_ended());
      REQUIRE(out.size() == (ends_alone && !wants_end ? 1 : 2));
      for (std::size_t i = 0; i < out.size(); ++i) {
        const auto reported = read_as<inference::ModelStreamInferResponse>(out[i]).infer_response();
        CHECK(reported.parameters().at("triton_final_response").bool_param() == (i == 1));
        CHECK(reported.outputs_size() == (i == 1 && ends_alone ? 0 : 1));
      }
      CHECK(read_as<inference::ModelStreamInferResponse>(*made.failure(fail(errc::internal, "bad")))
                .error_message() == "bad");
    }
  }
  auto wrong = asks({1});
  wrong.mutable_inputs(0)->set_datatype("FP32");
  auto plan = infer(wrong, "ModelStreamInfer");
  REQUIRE(std::holds_alternative<grpc_stream_error>(plan));
  const auto reported =
      read_as<inference::ModelStreamInferResponse>(std::get<grpc_stream_error>(plan).bytes);
  CHECK(reported.infer_response().id() == "7");
  CHECK(reported.infer_response().model_name() == "w");
}
