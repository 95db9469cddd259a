// TorchServe's gRPC: converts its messages to the structures of the HTTP API and back.
#include "gateway/api/torchserve/torchserve_models.hpp"
#include "gateway/api/torchserve/torchserve_request.hpp"
#include "gateway/api/torchserve/torchserve_response.hpp"
#include "gateway/api/torchserve/torchserve_store.hpp"
#include "gateway/api/torchserve/torchserve_worker.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/grpc/grpc_api.hpp"
#include "gateway/request/json_reader.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

// Management messages have no optional fields: 0 and "" mean unset.
std::optional<std::string> version_of(const std::string& received) {
  return received.empty() ? std::nullopt : std::optional(received);
}

// As in a form: "data" has priority over "body". No other input is allowed.
result<std::string> input_of(const grpc_prediction& received) {
  const std::string* found = nullptr;
  for (const auto& [name, value] : received.input) {
    if (name != "data" && name != "body") {
      return fail_param(errc::unsupported_parameter, name.substr(0, 64),
                        "there is no input '{}': use 'data' or 'body'", name.substr(0, 64));
    }
    found = !found || name == "data" ? &value : found;
  }
  return found ? result<std::string>(*found)
               : fail_param(errc::invalid_request, "data", "the input 'data' is required");
}

// Predictions: one message at the end, or a message per chunk.
class prediction_answer final : public grpc_answer {
public:
  prediction_answer(torchserve_shape shape, bool is_stream, const grpc_codec& codec)
      : pieces_(shape), whole_(std::move(shape)), is_stream_(is_stream), codec_(codec) {}

  void add(const chunk& c, std::vector<std::string>& out) override {
    if (has_ended()) {
      return;
    }
    if (is_stream_) {
      if (const auto piece = pieces_.take(c)) {
        out.push_back(codec_.prediction(*piece));
      }
      return;
    }
    whole_.add(c);
    if (whole_.is_complete()) {
      out.push_back(codec_.prediction(whole_.reply({}, {}).body));
    }
  }
  bool has_ended() const noexcept override {
    return is_stream_ ? pieces_.has_ended() : whole_.is_complete();
  }

private:
  torchserve_pieces pieces_;
  torchserve_unary whole_;
  bool is_stream_;
  const grpc_codec& codec_;
};

result<std::string> reply_text(result<http_reply> reply) {
  if (!reply) {
    return reply.error();
  }
  const json message{{"msg", std::move(reply->body)}};
  return json_text(message);
}

torchserve_target numbers_of(const json& received, std::initializer_list<const char*> names) {
  torchserve_target asked;
  for (const auto* name : names) {
    if (const auto n = received.value(name, 0); n != 0) {
      asked.query.emplace_back(name, std::to_string(n));
    }
  }
  return asked;
}

// Converts a message to a query's parameters.
torchserve_target registration_of(const json& received) {
  auto asked = numbers_of(received, {"batch_size", "initial_workers", "max_batch_delay",
                                     "response_timeout", "startup_timeout"});
  for (const auto* name : {"url", "handler", "model_name", "runtime"}) {
    if (auto text = received.value(name, std::string()); !text.empty()) {
      asked.query.emplace_back(name, std::move(text));
    }
  }
  for (const auto* name : {"synchronous", "s3_sse_kms"}) {
    if (received.value(name, false)) {
      asked.query.emplace_back(name, "true");
    }
  }
  return asked;
}

torchserve_target scaling_of(const json& received) {
  auto asked = numbers_of(received, {"max_worker", "number_gpu", "timeout"});
  asked.query.emplace_back("min_worker", std::to_string(received.value("min_worker", 0)));
  if (received.value("synchronous", false)) {
    asked.query.emplace_back("synchronous", "true");
  }
  return asked;
}

result<std::string> answer_worker(const grpc_method& method, const json& received,
                                  const worker_view& of, bool is_all, const gateway_state& facts) {
  const managed_model model{of.name, version_of(received.value("model_version", std::string()))};
  const auto versions = versions_of_worker(facts, of.name);
  if (method.name == "DescribeModel") {
    return reply_text(describe_worker(*facts.look(), is_all ? versions : std::vector{of},
                                      received.value("customized", false)));
  }
  if (method.name == "ScaleWorker") {
    return reply_text(scale_worker(
        of, model, numbers_of(received, {"min_worker", "max_worker", "number_gpu", "timeout"})));
  }
  if (method.name == "SetDefault") {
    return reply_text(set_default_worker(versions.empty() ? of : versions.front(), model));
  }
  ENSURE(method.name == "UnregisterModel", "the method {} has no answer", method.name);
  return refusal_to_unregister();
}

} // namespace

grpc_plan plan_torchserve_prediction(const grpc_method& method, std::string_view message,
                                     const grpc_codec& codec, gateway_state& facts) {
  grpc_prediction received;
  if (!codec.read(message, received)) {
    return fail(errc::invalid_request,
                "the message is not a valid org.pytorch.serve.grpc.inference.PredictionsRequest");
  }
  const auto& config = facts.config();
  const auto now = facts.look();
  if (const auto worker =
          find_managed_worker(facts, received.model, version_of(received.version))) {
    return *worker ? plan_worker_prediction(**worker, method, std::move(received), codec, facts)
                   : worker->error();
  }
  const auto model = find_managed(*now, config, received.model, version_of(received.version));
  if (!model) {
    return model.error();
  }
  const auto input = input_of(received);
  if (!input) {
    return input.error();
  }
  const bool can_stream = method.shape == grpc_shape::server_stream;
  auto parsed = parse_prediction({{}, {}, *input, can_stream}, config.request);
  if (!parsed) {
    return parsed.error();
  }
  auto& asked = parsed->call;
  if (!asked.request.model.empty()) {
    const auto other = find_managed(*now, config, asked.request.model, {});
    if (!other) {
      return other.error();
    }
    if (other->name != model->name) {
      return fail_param(errc::invalid_value, "model",
                        "the call names the model '{}' and its input the model '{}'", model->name,
                        other->name);
    }
  }
  grpc_generate out;
  out.request = std::move(asked.request);
  out.request.model = model->name;
  out.client_names = std::move(asked.client_names);
  out.add_generation_prompt = asked.add_generation_prompt;
  const auto& echo = asked.shape.echo; // a call has one prompt
  out.answer = std::make_unique<prediction_answer>(
      torchserve_shape{parsed->speaks, echo.empty() ? std::string() : echo.front(),
                       asked.shape.has_logprobs},
      asked.shape.is_stream, codec);
  out.busy_model = model->name;
  const bool has_version = !received.version.empty();
  facts.torchserve().asked(model->name, has_version);
  out.ended_well = [&facts, name = model->name, has_version](const reply_times& when) {
    facts.torchserve().predicted(name, has_version, when.granted - when.read,
                                 when.ended - when.read);
  };
  return out;
}

std::optional<result<change_model>>
plan_store_change(const grpc_method& method, const std::string& asked, const gateway_state& facts) {
  const bool is_registration = method.name == "RegisterModel";
  if (is_registration && !has_store(facts)) {
    return std::nullopt;
  }
  const auto received = json::parse(asked);
  if (is_registration) {
    return read_registration(registration_of(received));
  }
  const auto model = received.value("model_name", std::string());
  const auto version = version_of(received.value("model_version", std::string()));
  if (!is_stored(facts, model)) {
    return std::nullopt;
  }
  if (method.name == "ScaleWorker") {
    return read_scaling(model, version, scaling_of(received));
  }
  if (method.name == "SetDefault") {
    return order_of(model_order::set_default, model, version);
  }
  if (method.name == "UnregisterModel") {
    return order_of(model_order::unregister_model, model, version);
  }
  return std::nullopt;
}

result<std::string> answer_torchserve(const grpc_method& method, const std::string& asked,
                                      const gateway_state& facts) {
  const auto now = facts.look();
  if (method.name == "Ping") {
    const bool is_well = standing_of(*now).phase == phase::ready;
    return std::string(is_well ? R"({"health":"Healthy"})" : R"({"health":"Unhealthy"})");
  }
  if (method.name == "RegisterModel") {
    return refusal_to_register();
  }
  const auto received = json::parse(asked);
  if (method.name == "ListModels") {
    return reply_text(
        list_managed(*now, numbers_of(received, {"limit", "next_page_token"}), worker_urls(facts)));
  }
  auto version = received.value("model_version", std::string());
  const bool is_all = method.name == "DescribeModel" && version == "all";
  if (is_all) {
    version.clear();
  }
  if (const auto worker = find_managed_worker(facts, received.value("model_name", std::string()),
                                              version_of(version))) {
    return *worker ? answer_worker(method, received, **worker, is_all, facts) : worker->error();
  }
  const auto model = find_managed(*now, facts.config(), received.value("model_name", std::string()),
                                  version_of(version));
  if (!model) {
    return model.error();
  }
  if (method.name == "DescribeModel") {
    return reply_text(
        describe_managed(*now, facts.config(), *model, received.value("customized", false)));
  }
  if (method.name == "ScaleWorker") {
    return reply_text(scale_managed(
        *now, *model, numbers_of(received, {"min_worker", "max_worker", "number_gpu", "timeout"})));
  }
  if (method.name == "SetDefault") {
    return reply_text(set_default_managed(*model));
  }
  ENSURE(method.name == "UnregisterModel", "the method {} has no answer", method.name);
  return refusal_to_unregister();
}

} // namespace baton::gateway
