// The JSON of clients: each API reads the same bytes, as a body for its readers and as a whole
// request of each of its routes. An accepted request must fit the wire.
#include "gateway/api/anthropic/anthropic_request.hpp"
#include "gateway/api/kserve/calls/kserve_infer.hpp"
#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "gateway/api/kserve/workers/kserve_raw.hpp"
#include "gateway/api/kserve/workers/kserve_worker_reply.hpp"
#include "gateway/api/ollama/ollama_request.hpp"
#include "gateway/api/openai/request/embedding_request.hpp"
#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/api/openai/request/openai_tools.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/api/torchserve/torchserve_request.hpp"
#include "gateway/api/vllm/vllm_generate.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/request_check.hpp"
#include "gateway/request/tensor_data.hpp"
#include "gateway/routes/http_api.hpp"
#include "gateway/websocket/websocket_messages.hpp"
#include "schema/codec/codec.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/round_trip.hpp"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace baton;
using namespace baton::gateway;

namespace {

// The checks of admission before it passes the request to the pipeline client.
void check_accepted(const generate& request, const gateway_config& config) {
  const auto in_range = check_ranges(request, config.request);
  ENSURE(in_range, "read, but out of range: {}", in_range.error().message);
  if (!check_limits(request))
    return;
  model_card card;
  card.vocabulary_size = 320;
  (void)check_against_model(request, card);
  const auto frames = encode({}, request);
  envelope e;
  e.kind = kind_of(message{request});
  fuzz::check_round_trip(e, frames.body, frames.bulk);
}

// Tries each prefix of an infer body as its JSON, with the bytes of tensors after it.
void check_kserve(std::string_view body, const gateway_config& config) {
  std::vector<std::pair<kserve_route, result<kserve_call>>> calls;
  calls.emplace_back(kserve_route::generate_stream, parse_generate(body, config.request));
  calls.emplace_back(kserve_route::stream_infer, parse_infer(body, {}, config.request));
  constexpr std::size_t ends_max = 8;
  std::size_t ends = 0;
  for (auto at = body.find('}'); at != body.npos && ends < ends_max; at = body.find('}', at + 1)) {
    ++ends;
    calls.emplace_back(kserve_route::infer,
                       parse_infer(body, std::to_string(at + 1), config.request));
  }
  for (auto& [route, call] : calls) {
    if (!call)
      continue;
    const auto read = read_kserve(route, *std::move(call), "m", config);
    if (!read)
      continue;
    check_accepted(read->request, config);
    ENSURE(!read->shape.outputs.empty() && read->shape.choices == read->request.terms.choices,
           "an answer without outputs, or without a place for each text");
  }
}

// Accepted tensors fit the wire, and can be written as an answer.
void check_worker(const result<kserve_worker_call>& call) {
  if (!call || !check_limits(call->request))
    return;
  (void)encode({}, call->request);
  auto shape = call->shape;
  shape.outputs.clear();
  inferred answer;
  answer.outputs = call->request.inputs;
  answer.is_last = true;
  const auto written = checked_response(shape, answer);
  ENSURE(written, "read, but no tensors: {}", written.error().message);
  for (const bool is_binary : {false, true}) {
    shape.is_binary = is_binary;
    kserve_worker_unary whole(shape);
    const auto text = whole.take(answer);
    ENSURE(text || !is_binary, "tensors that cannot be told in bytes: {}", text.error().message);
  }
}

void check_workers(std::string_view body, const gateway_config& config) {
  static const worker_view free{"m", "1", std::make_shared<worker_load>()};
  static const worker_view declared = [] {
    worker_facts facts;
    facts.max_batch_size = 2;
    facts.inputs = {{"text_input", "BYTES", {1}, true}, {"IN", "FP32", {-1, 2}, true}};
    return worker_view{"m", "1", std::make_shared<worker_load>(),
                       std::make_shared<const worker_facts>(facts)};
  }();
  for (const auto& of : {free, declared}) {
    check_worker(read_worker_generate(of, kserve_route::generate, body, config.request));
    check_worker(read_worker_infer(of, body, {}, config.request));
    if (const auto end = body.rfind('}'); end != body.npos)
      check_worker(read_worker_infer(of, body, std::to_string(end + 1), config.request));
  }
}

// A body with the bytes of one input: the accepted byte count matches its shape.
void check_raw(std::string_view body) {
  static const std::vector<worker_tensor> declared{{"a", "FP32", {-1, 3}, false},
                                                   {"b", "INT64", {2, 2}, false},
                                                   {"c", "BYTES", {1, -1}, false},
                                                   {"d", "BOOL", {-1, -1}, false},
                                                   {"e", "UINT8", {}, false}};
  for (const auto& of : declared)
    for (const bool is_batched : {false, true})
      if (const auto made = tensor_of_raw(of, is_batched, body)) {
        const auto count = element_count(made->name, made->shape);
        ENSURE(count, "taken, but no shape: {}", count.error().message);
        const auto checked = check_bytes(made->name, made->datatype, made->data, *count);
        ENSURE(checked, "taken, but no tensor: {}", checked.error().message);
        ENSURE(made->shape.size() == of.shape.size() + (is_batched ? 1 : 0), "another shape");
      }
}

// "m" is a language model and "w" a worker's, both ready.
std::shared_ptr<gateway_state> serving() {
  gateway_config config;
  config.pipelines = {{process_id{2}, "m"}};
  auto all = std::make_shared<gateway_state>(config);
  all->change([](snapshot& s) {
    model_card card;
    card.name = "m";
    card.phase = phase::ready;
    card.has_chat_template = true;
    s.pipelines[0].card = card;
  });
  all->set_workers(nullptr, {{"w", "1", std::make_shared<worker_load>()}});
  return all;
}

void check_plan(api_call plan, const gateway_config& config) {
  if (const auto* reply = std::get_if<http_reply>(&plan)) {
    ENSURE(reply->status >= 200 && reply->status != 500, "status {}: {}", reply->status,
           reply->body);
  } else if (const auto* call = std::get_if<generation_call>(&plan)) {
    for (const auto& request : call->requests)
      check_accepted(request, config);
  }
}

// The same bytes as a whole request of every route that takes a body, for all APIs.
void check_routes(std::string_view body) {
  static const auto facts = serving();
  static const http_api api(facts);
  static const std::vector<std::string> targets = [] {
    std::vector<std::string> all{"/v1/workers/w"};
    for (const auto& row : http_api::routes()) {
      for (const auto* name : {"m", "w"}) {
        std::string target(row.path);
        for (auto at = target.find('{'); at != target.npos; at = target.find('{'))
          target.replace(at, target.find('}') - at + 1, name);
        if (row.methods == method_set::post && !target.ends_with('/'))
          all.push_back(std::move(target));
      }
    }
    return all;
  }();
  for (const auto& target : targets) {
    http_call call;
    call.method = "POST";
    call.target = target;
    call.body = body;
    if (!api.admit(call).refusal)
      check_plan(api.plan(call), facts->config());
  }
  for (const auto* target :
       {"/predictions/m", "/predictions/w", "/predictions/m/1.0/v1/chat/completions",
        "/predictions/m/1.0/v1/completions", "/explanations/w", "/v1/models/m:predict",
        "/v1/models/w:predict", "/v2/models/m/infer", "/models"})
    for (const auto listener :
         {listener_kind::torchserve_inference, listener_kind::torchserve_management})
      for (const auto* media : {"", "application/json", "application/x-www-form-urlencoded"}) {
        http_call call;
        call.method = "POST";
        call.target = target;
        call.listener = listener;
        call.content_type = media;
        call.body = body;
        if (!api.admit(call).refusal)
          check_plan(api.plan(call), facts->config());
      }
}

// The same bytes for JSON within a request: parameters of tensors, and Triton's parameters as a
// text.
void check_inner(std::string_view body, const gateway_config& config) {
  infer given;
  given.parameters = body;
  given.inputs.push_back({"text_input", "BYTES", {1}, std::string("\1\0\0\0x", 5)});
  if (const auto read = read_language_infer(given, "m", config))
    check_accepted(read->request, config);
  const auto outer =
      json_text(nlohmann::json{{"text_input", "x"}, {"sampling_parameters", std::string(body)}});
  if (auto call = parse_generate(outer, config.request))
    if (const auto read = read_kserve(kserve_route::generate, *std::move(call), "m", config))
      check_accepted(read->request, config);
}

// A member is found in any bytes, or is not; a found one lies within them.
void check_members(std::string_view body) {
  for (const std::string_view name : {"guided_json", "tools", "parameters", ""}) {
    const std::string_view path[] = {name, "value"};
    for (const auto depth : {1, 2})
      if (const auto found = raw_member(body, std::span(path).first(depth)))
        ENSURE(body.find(*found) != body.npos, "found, but not there");
  }
}

constexpr call_format call_formats[] = {
    call_format::hermes,  call_format::llama3,   call_format::mistral, call_format::qwen_xml,
    call_format::harmony, call_format::pythonic, call_format::gemma4};

void take(std::string_view body) {
  static const gateway_config config;
  check_members(body);
  check_inner(body, config);
  check_routes(body);
  for (const auto api : {openai_api::chat, openai_api::completions})
    if (auto call = parse_generation(api, body, config.request)) {
      check_accepted(call->request, config);
      for (const auto& further : call->further)
        check_accepted(further, config);
      for (const auto format : call_formats)
        if (settle_calls(*call, format))
          check_accepted(call->request, config);
    }
  if (const auto call = parse_embeddings(body, config.request)) {
    ENSURE(!call->requests.empty() && call->requests.size() <= config.request.answers_max,
           "{} inputs", call->requests.size());
    for (const auto& request : call->requests)
      check_accepted(request, config);
  }
  for (const auto route : {tgi_route::root, tgi_route::generate, tgi_route::generate_stream})
    if (const auto call = parse_tgi(route, body, config))
      check_accepted(call->request, config);
  if (const auto call = parse_vllm_generate(body, config.request); call && *call)
    check_accepted((*call)->request, config);
  if (auto call = parse_anthropic(body, config.request)) {
    check_accepted(call->request, config);
    if (settle_calls(*call, call_format::hermes))
      check_accepted(call->request, config);
  }
  for (const auto route : {ollama_route::chat, ollama_route::generate})
    if (auto call = parse_ollama(route, body, config.request); call && !call->only_loads) {
      check_accepted(call->asked.request, config);
      if (settle_calls(call->asked, call_format::hermes))
        check_accepted(call->asked.request, config);
    }
  for (const auto& call :
       {parse_ollama_embed(body, config.request), parse_ollama_embeddings(body, config.request)})
    if (call)
      for (const auto& request : call->requests)
        check_accepted(request, config);
  (void)parse_ollama_show(body, config.request);
  (void)parse_ollama_pull(body, config.request);
  if (auto call = parse_response(body, config)) {
    check_accepted(call->call.request, config);
    for (const auto format : call_formats)
      if (settle_calls(call->call, format))
        check_accepted(call->call.request, config);
  }
  // As a path, after the part matched by the route.
  (void)parse_response_question("GET", "/v1/responses/" + std::string(body));
  for (const auto* media : {"", "text/plain", "application/json",
                            "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"})
    if (const auto call = parse_prediction({media, "", body}, config.request))
      check_accepted(call->call.request, config);
  if (const auto batch = parse_instances(body, config.request))
    for (const auto& request : batch->requests)
      check_accepted(request, config);
  check_kserve(body, config);
  check_workers(body, config);
  check_raw(body);
  for (const auto* media : {"application/x-www-form-urlencoded", "multipart/form-data; boundary=x"})
    (void)worker_input_of({media, "", body});
  const auto of_tgi = parse_tgi_tokenize(body, config.request);
  const auto asked_tokens = of_tgi ? *of_tgi : parse_tokenize(body, config.request);
  if (asked_tokens && check_limits(asked_tokens->input)) {
    tokenize asked;
    asked.input = asked_tokens->input;
    (void)encode({}, asked);
  }
  if (const auto call = parse_detokenize(body, config.request)) {
    detokenize asked;
    asked.ids = call->ids;
    (void)encode({}, asked);
  }
  const auto given = parse_socket_message(body, config);
  if (const auto* mistake = std::get_if<socket_mistake>(&given))
    ENSURE(!socket_error_text(mistake->id, mistake->reason).empty(), "an error without words");
  else if (const auto* start = std::get_if<socket_start>(&std::get<socket_message>(given)))
    check_accepted(start->call.request, config);
}

} // namespace

// Unchanged, and with a leading byte order mark, as some clients write it.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = fuzz::text_of(data, size);
  take(body);
  take("\xef\xbb\xbf" + std::string(body));
  return 0;
}
