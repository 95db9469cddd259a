// KServe v2 over gRPC: converts messages to the structures of the HTTP API and back.
#include "gateway/api/kserve/calls/kserve_error.hpp"
#include "gateway/api/kserve/calls/kserve_response.hpp"
#include "gateway/api/kserve/models/kserve_model.hpp"
#include "gateway/api/kserve/models/kserve_repository.hpp"
#include "gateway/api/kserve/models/kserve_worker_model.hpp"
#include "gateway/api/kserve/workers/kserve_worker.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/grpc/grpc_api.hpp"
#include "gateway/metrics/kserve_metrics.hpp"

#include <cmath>
#include <utility>

namespace baton::gateway {
namespace {

// The field of InferTensorContents that holds values of this type.
std::string_view field_of(tensor_type type) noexcept {
  switch (type) {
  case tensor_type::boolean:
    return "bool_contents";
  case tensor_type::int32:
    return "int_contents";
  case tensor_type::uint32:
    return "uint_contents";
  case tensor_type::uint64:
    return "uint64_contents";
  case tensor_type::fp32:
    return "fp32_contents";
  case tensor_type::bytes:
    return "bytes_contents";
  }
  return {};
}

result<std::string> parameter_text(std::string_view name, const std::optional<grpc_value>& value) {
  const auto* real = value ? std::get_if<double>(&*value) : nullptr;
  if (!value || (real && !std::isfinite(*real))) {
    return fail_param(errc::invalid_value, shown_name(name), "parameter '{}' has no value",
                      shown_name(name));
  }
  return std::visit([](const auto& v) { return json_text(json(v)); }, *value);
}

result<void> take_input(kserve_call& call, const grpc_tensor& tensor) {
  const auto row = input_named(tensor.name, tensor.datatype);
  if (!row) {
    return row.error();
  }
  if (auto ok = refuse_parameters(tensor.parameters, tensor.name); !ok) {
    return ok;
  }
  const auto count = count_of(**row, tensor.shape);
  if (!count) {
    return count.error();
  }
  const auto field = field_of((*row)->type);
  if (!tensor.contents.empty() && tensor.contents != field) {
    return fail_param(errc::invalid_value, tensor.name,
                      "input '{}' has its values in {}, but values of {} belong in {}", tensor.name,
                      tensor.contents, tensor.datatype, field);
  }
  if (!tensor.bytes && *count > 0) {
    return fail_param(errc::invalid_value, tensor.name,
                      "input '{}' has no values: neither contents nor raw_input_contents",
                      tensor.name);
  }
  return add_input(call, **row,
                   values_of_bytes(**row, tensor.bytes.value_or(std::string()), *count));
}

result<kserve_call> call_of(const grpc_infer& received) {
  kserve_call call;
  if (received.id.size() > kserve_id_bytes_max) {
    return fail_param(errc::invalid_value, "id", "'id' has {} bytes of at most {}",
                      received.id.size(), kserve_id_bytes_max);
  }
  call.id = received.id;
  call.is_binary = true;
  for (const auto& [name, value] : received.parameters) {
    auto text = parameter_text(name, value);
    if (!text) {
      return text.error();
    }
    if (auto ok = add_parameter(call, name, *std::move(text)); !ok) {
      return ok.error();
    }
  }
  for (const auto& input : received.inputs) {
    if (auto ok = take_input(call, input); !ok) {
      return ok.error();
    }
  }
  if (received.raw_spare > 0) {
    return fail_param(errc::invalid_value, "raw_input_contents",
                      "{} of raw_input_contents match no input", received.raw_spare);
  }
  for (const auto& [name, parameters] : received.outputs) {
    if (auto ok = refuse_parameters(parameters, name); !ok) {
      return ok.error();
    }
    if (auto ok = add_output(call, name, /*is_binary=*/true); !ok) {
      return ok.error();
    }
  }
  return call;
}

grpc_inferred grpc_head_of(const kserve_shape& shape) {
  return {.model = shape.model,
          .version = std::string(kserve_version),
          .id = shape.id,
          .is_final = std::nullopt,
          .outputs = {}};
}

grpc_inferred response_of(kserve_gatherer& from) {
  auto out = grpc_head_of(from.shape());
  for (const auto& t : from.take()) {
    std::string bytes;
    append_bytes(bytes, t.row->type, t.values);
    out.outputs.push_back({.name = std::string(t.row->name),
                           .datatype = std::string(datatype_of(t.row->type)),
                           .shape = {static_cast<std::int64_t>(t.values.size())},
                           .parameters = {},
                           .bytes = std::move(bytes),
                           .contents = {}});
  }
  return out;
}

// ModelInfer: one response.
class infer_answer final : public grpc_answer {
public:
  infer_answer(kserve_shape shape, const grpc_codec& codec)
      : gatherer_(std::move(shape)), codec_(codec) {}
  void add(const chunk& c, std::vector<std::string>& out) override {
    if (has_ended()) {
      return;
    }
    gatherer_.add(c);
    if (has_ended()) {
      out.push_back(codec_.infer_response(response_of(gatherer_)));
    }
  }
  bool has_ended() const noexcept override { return gatherer_.is_complete(); }

private:
  kserve_gatherer gatherer_;
  const grpc_codec& codec_;
};

// ModelStreamInfer: a response for each piece, as of a decoupled model. Pieces that arrive while
// the last message is written share one, because a message costs far more than a piece. If `stream`
// is not set, there is one response. The last is marked final, unless an empty one is to follow.
class stream_answer final : public grpc_answer {
public:
  stream_answer(kserve_shape shape, const grpc_codec& codec, bool has_empty_end)
      : gatherer_(std::move(shape)), codec_(codec), has_empty_end_(has_empty_end) {}

  void add(const chunk& c, std::vector<std::string>& out) override {
    if (has_ended()) {
      return;
    }
    gatherer_.add(c);
    has_news_ |=
        gatherer_.shape().is_stream && (c.count > 0 || !c.text.empty() || c.finish != finish::none);
    if (!has_ended()) {
      return;
    }
    has_news_ = true;
    flush(out);
    if (has_empty_end_) {
      auto end = grpc_head_of(gatherer_.shape());
      end.is_final = true;
      out.push_back(codec_.stream_response(end, {}));
    }
  }
  void flush(std::vector<std::string>& out) override {
    if (std::exchange(has_news_, false)) {
      auto reply = response_of(gatherer_);
      reply.is_final = has_ended() && !has_empty_end_;
      out.push_back(codec_.stream_response(reply, {}));
    }
  }
  bool has_ended() const noexcept override { return gatherer_.is_complete(); }
  std::optional<std::string> failure(const error& e) const override {
    return codec_.stream_response(grpc_head_of(gatherer_.shape()), grpc_text(kserve_message(e)));
  }

private:
  kserve_gatherer gatherer_;
  const grpc_codec& codec_;
  bool has_empty_end_;
  bool has_news_ = false; // not yet sent
};

// Removes the parameter: it concerns responses, not the model.
result<bool> take_wants_end(grpc_infer& received) {
  const auto at = std::find_if(received.parameters.begin(), received.parameters.end(),
                               [](const auto& p) { return p.first == empty_end_parameter; });
  if (at == received.parameters.end()) {
    return false;
  }
  const auto* flag = at->second ? std::get_if<bool>(&*at->second) : nullptr;
  if (!flag) {
    return fail_param(errc::invalid_value, empty_end_parameter, "'{}' must be true or false",
                      empty_end_parameter);
  }
  const bool wanted = *flag;
  received.parameters.erase(at);
  return wanted;
}

grpc_plan plan_infer(grpc_infer& received, kserve_route route, const grpc_codec& codec,
                     const gateway_state& facts) {
  const auto& config = facts.config();
  if (const auto worker = kserve_worker_named(facts, received.model, received.version)) {
    return *worker ? plan_worker_infer(**worker, route, std::move(received), codec)
                   : worker->error();
  }
  const auto name =
      kserve_model_named(*facts.look(), config.model_aliases, received.model, received.version);
  if (!name) {
    return name.error();
  }
  const bool is_stream = route == kserve_route::stream_infer;
  const auto has_empty_end = is_stream ? take_wants_end(received) : result<bool>(false);
  if (!has_empty_end) {
    return has_empty_end.error();
  }
  auto call = call_of(received);
  if (!call) {
    return call.error();
  }
  auto read = read_kserve(route, *std::move(call), received.model, config);
  if (!read) {
    return read.error();
  }
  grpc_generate out;
  out.request = std::move(read->request);
  out.client_names = std::move(read->client_names);
  if (is_stream) {
    out.answer = std::make_unique<stream_answer>(std::move(read->shape), codec, *has_empty_end);
  } else {
    out.answer = std::make_unique<infer_answer>(std::move(read->shape), codec);
  }
  return out;
}

std::string flag_text(std::string_view name, bool value) {
  return fmt::format(R"({{"{}":{}}})", name, value);
}

result<std::string> answer_worker(const grpc_method& method, const json& received,
                                  const worker_view& of, const std::string& version,
                                  const gateway_state& facts) {
  const auto now = facts.look();
  if (method.name == "ModelReady") {
    return flag_text("ready", is_ready(of, *now));
  }
  if (method.name == "ModelMetadata") {
    return worker_metadata_body(facts, of);
  }
  if (method.name == "ModelStatistics") {
    return kserve_statistics_body(statistics_of_worker(facts, of.name, version));
  }
  if (method.name == "ModelConfig") {
    return R"({"config":)" + worker_config_body(of) + "}";
  }
  if (method.name == "RepositoryModelUnload") {
    return refusal_to_unload(of.name);
  }
  ENSURE(method.name == "RepositoryModelLoad", "the method {} has no answer", method.name);
  if (auto ok = check_load_parameters(received.value("parameters", json::object())); !ok) {
    return ok.error();
  }
  if (auto ok = check_worker_loaded(of, *now); !ok) {
    return ok.error();
  }
  return std::string("{}");
}

} // namespace

grpc_plan plan_kserve_infer(const grpc_method& method, std::string_view message,
                            const grpc_codec& codec, const gateway_state& facts) {
  grpc_infer received;
  if (!codec.read(message, received)) {
    return fail(errc::invalid_request, "the message is not a valid inference.ModelInferRequest");
  }
  if (method.shape == grpc_shape::unary) {
    return plan_infer(received, kserve_route::infer, codec, facts);
  }
  const grpc_inferred about{.model = received.model,
                            .version = received.version,
                            .id = grpc_text(received.id.substr(0, kserve_id_bytes_max)),
                            .is_final = std::nullopt,
                            .outputs = {}};
  auto plan = plan_infer(received, kserve_route::stream_infer, codec, facts);
  if (auto* e = std::get_if<error>(&plan)) { // the other requests of the stream continue
    return grpc_stream_error{codec.stream_response(about, grpc_text(kserve_message(*e))),
                             std::move(*e)};
  }
  return plan;
}

std::optional<result<change_model>> plan_repository_change(const grpc_method& method,
                                                           const std::string& asked,
                                                           const gateway_state& facts) {
  const bool is_unload = method.name == "RepositoryModelUnload";
  if (!is_unload && method.name != "RepositoryModelLoad") {
    return std::nullopt;
  }
  const auto received = json::parse(asked);
  return plan_model_change(facts, received.value("model_name", std::string()), is_unload,
                           received.value("parameters", json::object()));
}

result<std::string> answer_kserve(const grpc_method& method, const std::string& asked,
                                  const gateway_state& facts) {
  const auto now = facts.look();
  const auto& config = facts.config();
  if (method.name == "ServerLive") {
    return flag_text("live", true);
  }
  if (method.name == "ServerReady") {
    return flag_text("ready", standing_of(*now).phase == phase::ready);
  }
  if (method.name == "ServerMetadata") {
    return kserve_server_body(config.build);
  }
  const auto received = json::parse(asked);
  if (method.name == "RepositoryIndex") {
    return R"({"models":)" +
           kserve_index_body(all_standings(facts, *now), received.value("ready", false)) + "}";
  }
  const bool is_repository = method.name.starts_with("Repository");
  const auto name = received.value(is_repository ? "model_name" : "name", std::string());
  if (method.name == "ModelStatistics" && name.empty()) {
    return kserve_statistics_body(all_statistics(facts, *now));
  }
  const auto version = received.value("version", std::string());
  if (const auto worker = kserve_worker_named(facts, name, version)) {
    return *worker ? answer_worker(method, received, **worker, version, facts) : worker->error();
  }
  const auto model = kserve_model_named(*now, config.model_aliases, name, version);
  if (!model) {
    return model.error();
  }
  if (method.name == "ModelReady") {
    return flag_text("ready", kserve_is_ready(*now, *model));
  }
  if (method.name == "ModelMetadata") {
    return kserve_metadata_body(name);
  }
  if (method.name == "ModelStatistics") {
    return kserve_statistics_body(statistics_of(*now, facts.metrics(), *model));
  }
  if (method.name == "ModelConfig") {
    const auto body = kserve_config_of(*now, name, *model);
    return body ? result<std::string>(R"({"config":)" + *body + "}") : body.error();
  }
  if (method.name == "RepositoryModelUnload") {
    return refusal_to_unload(name);
  }
  ENSURE(method.name == "RepositoryModelLoad", "the method {} has no answer", method.name);
  if (auto ok = check_load_parameters(received.value("parameters", json::object())); !ok) {
    return ok.error();
  }
  if (auto ok = check_loaded(*now, *model); !ok) {
    return ok.error();
  }
  return std::string("{}");
}

} // namespace baton::gateway
