#include "gateway/api/kserve/workers/kserve_worker_reply.hpp"

#include "gateway/api/kserve/calls/kserve_error.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/tensor_data.hpp"

#include <algorithm>
#include <utility>

namespace baton::gateway {
namespace {

constexpr std::size_t parameters_depth_max = 32; // the same as for requests

error bad_answer(std::string_view why) {
  return fail(errc::handler_failed, "the model's answer: {}", why);
}

// {"id","model_name","model_version", without the closing brace.
std::string worker_head_of(const kserve_worker_shape& shape) {
  std::string out = "{";
  if (!shape.id.empty()) {
    out += R"("id":)";
    append_json_string(out, shape.id);
    out += ',';
  }
  out += R"("model_name":)";
  append_json_string(out, shape.model);
  out += R"(,"model_version":)";
  append_json_string(out, shape.version);
  return out;
}

bool is_binary(const kserve_worker_shape& shape, std::string_view output) noexcept {
  for (const auto& o : shape.outputs) {
    if (o.name == output) {
      return o.is_binary;
    }
  }
  return shape.is_binary;
}

result<http_reply> infer_reply(const kserve_worker_shape& shape, const inferred& piece) {
  http_reply r;
  r.body = worker_head_of(shape);
  if (!piece.parameters.empty()) {
    r.body += R"(,"parameters":)" + piece.parameters;
  }
  r.body += R"(,"outputs":[)";
  std::string bytes;
  bool is_first = true;
  for (const auto& t : piece.outputs) {
    r.body += std::exchange(is_first, false) ? R"({"name":)" : R"(,{"name":)";
    append_json_string(r.body, t.name);
    r.body += fmt::format(R"(,"datatype":"{}","shape":{})", t.datatype, shape_text(t.shape));
    if (is_binary(shape, t.name)) {
      r.body += fmt::format(R"(,"parameters":{{"binary_data_size":{}}})", t.data.size());
      bytes += t.data;
    } else {
      r.body += R"(,"data":)";
      if (auto ok = append_json(r.body, t.name, t.datatype, t.data); !ok) {
        return ok.error();
      }
    }
    r.body += '}';
  }
  r.body += "]}";
  if (!bytes.empty()) {
    r.content_type = "application/octet-stream";
    r.headers.emplace_back("Inference-Header-Content-Length", std::to_string(r.body.size()));
    r.body += bytes;
  }
  return r;
}

// A single value is not wrapped in a list.
result<std::string> generate_body(const kserve_worker_shape& shape, const inferred& piece) {
  auto body = worker_head_of(shape);
  for (const auto& t : piece.outputs) {
    body += ',';
    append_json_string(body, t.name);
    body += ':';
    const auto count = element_count(t.name, t.shape);
    if (auto ok = append_json(body, t.name, t.datatype, t.data, count && *count == 1); !ok) {
      return ok.error();
    }
  }
  return body + "}";
}

grpc_value value_of(const json& given) {
  if (given.is_boolean()) {
    return given.get<bool>();
  }
  if (given.is_number_unsigned() && given.get<std::uint64_t>() > INT64_MAX) {
    return given.get<std::uint64_t>();
  }
  if (given.is_number_integer()) {
    return given.get<std::int64_t>();
  }
  if (given.is_number()) {
    return given.get<double>();
  }
  return given.is_string() ? given.get<std::string>()
                           : given.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace

bool is_response(const inferred& piece) noexcept {
  const bool is_empty = piece.outputs.empty() && piece.body.empty();
  return !is_empty || !piece.is_last;
}

result<inferred> checked_response(const kserve_worker_shape& shape, inferred piece) {
  if (!piece.body.empty()) {
    return bad_answer(
        fmt::format("it is a body, where tensors are needed: ask /v1/workers/{}", shape.model));
  }
  if (!piece.parameters.empty()) {
    if (auto ok = parse_body(piece.parameters, parameters_depth_max); !ok) {
      return bad_answer("its parameters are no JSON object");
    }
  }
  if (!shape.outputs.empty()) {
    std::erase_if(piece.outputs, [&](const tensor& t) {
      return std::none_of(shape.outputs.begin(), shape.outputs.end(),
                          [&](const asked_output& o) { return o.name == t.name; });
    });
  }
  for (const auto& t : piece.outputs) {
    const auto count = element_count(t.name, t.shape);
    const auto ok = count ? check_bytes(t.name, t.datatype, t.data, *count) : count.error();
    if (!ok) {
      return bad_answer(ok.error().message);
    }
  }
  return piece;
}

error several_responses(const kserve_worker_shape& shape) {
  return shape.route == kserve_route::generate
             ? fail(errc::invalid_request,
                    "generate expects exactly 1 response, got more: use generate_stream")
             : fail(errc::invalid_request,
                    "the model '{}' answers with more than one response: use ModelStreamInfer of "
                    "gRPC, or generate_stream",
                    shape.model);
}

result<std::string> kserve_worker_unary::take(inferred piece) {
  // An answer that is only an end is one response without outputs.
  if (!is_response(piece) && has_answered_) {
    return std::string();
  }
  if (std::exchange(has_answered_, true)) {
    return several_responses(shape_);
  }
  const auto response = checked_response(shape_, std::move(piece));
  if (!response) {
    return response.error();
  }
  if (shape_.route == kserve_route::generate) {
    return generate_body(shape_, *response);
  }
  auto reply = infer_reply(shape_, *response);
  if (!reply) {
    return reply.error();
  }
  auto body = std::exchange(reply->body, {});
  head_ = *std::move(reply);
  return body;
}

result<std::string> kserve_worker_events::take(inferred piece) {
  if (!is_response(piece)) {
    return std::string();
  }
  const auto response = checked_response(shape_, std::move(piece));
  if (!response) {
    return response.error();
  }
  auto body = generate_body(shape_, *response);
  return body ? result<std::string>("data: " + *body + "\n\n") : body.error();
}

http_reply kserve_worker_events::head() const {
  http_reply r;
  r.content_type = event_stream_type;
  r.headers.emplace_back("Cache-Control", "no-cache");
  return r;
}

std::string kserve_worker_events::failure_tail(const error& e) const {
  return "data: " + kserve_error_body(e) + "\n\n";
}

grpc_inferred grpc_response_of(const kserve_worker_shape& shape, inferred piece) {
  grpc_inferred reply{.model = shape.model,
                      .version = shape.version,
                      .id = shape.id,
                      .is_final = std::nullopt,
                      .outputs = {}};
  for (auto& t : piece.outputs) {
    reply.outputs.push_back({.name = std::move(t.name),
                             .datatype = std::move(t.datatype),
                             .shape = std::move(t.shape),
                             .parameters = {},
                             .bytes = std::move(t.data),
                             .contents = {}});
  }
  if (!piece.parameters.empty()) {
    const auto all = parse_body(piece.parameters, parameters_depth_max);
    ENSURE(all, "parameters that were not checked");
    for (auto it = all->begin(); it != all->end(); ++it) {
      if (!it->is_null()) {
        reply.parameters.emplace_back(it.key(), value_of(*it));
      }
    }
  }
  return reply;
}

} // namespace baton::gateway
