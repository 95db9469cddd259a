#include "gateway/api/torchserve/torchserve_worker.hpp"

#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/api/torchserve/torchserve_form.hpp"
#include "gateway/api/torchserve/torchserve_inputs.hpp"
#include "gateway/api/torchserve/torchserve_request.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/workers/worker_reply.hpp"
#include "schema/limits.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

// Names the only input of a prediction if that is not "body".
constexpr const char* input_parameter = "torchserve_input";

// A single input becomes the body; several become the fields of a form.
void put_inputs(std::vector<form_field> inputs, infer& request) {
  if (inputs.size() != 1) {
    auto form = parts_of(inputs);
    request.body = std::move(form.text);
    request.content_type = std::move(form.content_type);
    return;
  }
  auto& only = inputs.front();
  request.body = std::move(only.value);
  request.content_type = std::move(only.content_type);
  if (only.name != "body") {
    request.parameters = json_text(ordered{{input_parameter, only.name}});
  }
}

// -- Replies of management calls --

const status* find_process(const snapshot& now, std::string_view name) {
  if (!now.cluster) {
    return nullptr;
  }
  const auto& all = now.cluster->nodes;
  const auto at = std::find_if(all.begin(), all.end(), [&](const status& s) {
    return s.role == role::worker && s.name == name;
  });
  return at == all.end() ? nullptr : &*at;
}

// Until the root reports a process, only its name is known.
ordered processes_of(const snapshot& now, const worker_facts& facts) {
  auto all = ordered::array();
  for (const auto& name : facts.processes) {
    const auto* process = find_process(now, name);
    ordered one{{"id", name},
                {"status", process && process->phase == phase::ready ? "READY" : "UNLOADING"}};
    if (process) {
      one["pid"] = process->pid;
    }
    all.push_back(std::move(one));
  }
  return all;
}

ordered tensors_of(const std::vector<worker_tensor>& all) {
  auto listed = ordered::array();
  for (const auto& t : all) {
    listed.push_back({{"name", t.name}, {"datatype", t.datatype}, {"shape", t.shape}});
  }
  return listed;
}

const std::string& url_of(const worker_view& of) {
  return of.archive.empty() ? of.name : of.archive;
}

ordered description_of(const snapshot& now, const worker_view& of, bool is_customized) {
  const auto& facts = *of.facts;
  const auto seconds = [](auto d) {
    return std::chrono::duration_cast<std::chrono::seconds>(d).count();
  };
  const std::size_t pending = of.load->waiting;
  const auto room =
      facts.use_job_ticket ? 0 : facts.max_queued - std::min(facts.max_queued, pending);
  ordered out{
      {"modelName", of.name},
      {"modelVersion", of.version},
      {"modelUrl", url_of(of)},
      {"engine", "Baton"},
      {"runtime", facts.platform},
      {"minWorkers", of.archive.empty() ? of.load->workers.load() : facts.processes.size()},
      {"maxWorkers", facts.processes.size()},
      {"batchSize", facts.batch_size},
      {"maxBatchDelay",
       std::chrono::duration_cast<std::chrono::milliseconds>(facts.max_batch_delay).count()},
      {"responseTimeout", seconds(facts.response_timeout)},
      {"startupTimeout", seconds(facts.startup_timeout)},
      {"useJobTicket", facts.use_job_ticket},
      {"workers", processes_of(now, facts)},
      {"jobQueueStatus", {{"remainingCapacity", room}, {"pendingRequests", pending}}}};
  if (of.archive.empty()) { // it is unknown which models were registered by clients
    out["loadedAtStartup"] = true;
  }
  if (is_customized) {
    out["customizedMetadata"] = {{"running", of.load->running.load()},
                                 {"inputs", tensors_of(facts.inputs)},
                                 {"outputs", tensors_of(facts.outputs)}};
  }
  return out;
}

// For a requested model that failed: the root's reason, such as an invalid archive or a worker that
// does not start. TorchServe has no such models and answers 404.
std::optional<result<worker_view>> why_not_served(const gateway_state& facts,
                                                  std::string_view model) {
  const auto& aliases = facts.config().model_aliases;
  if (model.empty() || !pipelines_of(*facts.look(), model).empty() ||
      std::find(aliases.begin(), aliases.end(), model) != aliases.end()) {
    return std::nullopt;
  }
  for (const auto& m : facts.models()->all) {
    if (m.name == model && m.state == model_state::unavailable && !m.reason.empty()) {
      return result<worker_view>(fail_param(errc::model_not_found, "model",
                                            "Model not found: {}: {}", model.substr(0, 256),
                                            m.reason));
    }
  }
  return std::nullopt;
}

} // namespace

std::optional<result<worker_view>> find_managed_worker(const gateway_state& facts,
                                                       std::string_view model,
                                                       const std::optional<std::string>& version) {
  if (!is_worker_model(facts, model)) {
    return why_not_served(facts, model);
  }
  if (auto found = find_worker(facts, model, version.value_or(std::string()))) {
    return *std::move(found);
  }
  return result<worker_view>(fail_param(errc::model_not_found, torchserve_version_param,
                                        "Model version: {} does not exist for model: {}",
                                        version.value_or(std::string()).substr(0, 256),
                                        model.substr(0, 256)));
}

result<worker_call> read_worker_prediction(const worker_view& of, const http_call& call,
                                           const torchserve_route& route,
                                           const torchserve_target& target) {
  std::vector<form_field> inputs;
  for (const auto& [name, value] : target.query) {
    if (route.name != "/invocations" || name != "model_name") {
      inputs.push_back({name, value, {}});
    }
  }
  auto given = worker_inputs_of({call.content_type, call.accept, call.body});
  if (!given) {
    return given.error();
  }
  std::move(given->begin(), given->end(), std::back_inserter(inputs));
  if (inputs.empty()) {
    return no_data_in_form();
  }
  worker_call out;
  out.request.model = of.name;
  out.request.version = route.version.value_or(std::string());
  put_inputs(std::move(inputs), out.request);
  if (call.headers_for_handlers) {
    out.request.headers = call.headers_for_handlers();
  }
  if (route.is == torchserve_operation::explain) {
    out.request.headers.push_back({"explain", "True"}); // marks it for the handler
  }
  out.writer = std::make_unique<raw_writer>();
  // TorchServe's example client takes each chunk for an event with data.
  out.takes_comments = false;
  out.family = &torchserve_family;
  out.reword = [model = of.name](error e) { return torchserve_busy(std::move(e), model); };
  return out;
}

result<infer> read_worker_prediction(const worker_view& of, const std::string& version,
                                     std::vector<std::pair<std::string, std::string>> inputs) {
  if (inputs.empty()) {
    return fail_param(errc::invalid_request, "data", "the input 'data' is required");
  }
  std::sort(inputs.begin(), inputs.end()); // a map has no defined order
  std::vector<form_field> fields;
  for (auto& [name, value] : inputs) {
    fields.push_back({std::move(name), std::move(value), {}});
  }
  infer request;
  request.model = of.name;
  request.version = version;
  put_inputs(std::move(fields), request);
  return request;
}

std::function<void(const reply_times&)>
begin_prediction(gateway_state& facts, const std::string& model, const std::string& version) {
  const bool has_version = !version.empty();
  facts.torchserve().asked(model, has_version);
  return [&facts, model, has_version](const reply_times& when) {
    facts.torchserve().predicted(model, has_version, when.granted - when.read,
                                 when.ended - when.read);
  };
}

result<void> check_prediction(const inferred& piece) {
  if (auto ok = check_raw(piece); !ok) {
    return ok;
  }
  if (piece.http_status < 400) {
    return {};
  }
  const auto code = piece.http_status == 404   ? errc::not_found
                    : piece.http_status == 503 ? errc::overloaded
                    : piece.http_status < 500  ? errc::invalid_request
                                               : errc::handler_failed;
  return fail(code, "{}", piece.body.substr(0, limits::reason_bytes_max));
}

model_urls worker_urls(const gateway_state& facts) {
  model_urls all;
  for (const auto& one : facts.worker_views()) {
    auto& url = all[one.name];
    if (url.empty() || one.is_default) {
      url = url_of(one);
    }
  }
  return all;
}

http_reply describe_worker(const snapshot& now, const std::vector<worker_view>& versions,
                           bool is_customized) {
  auto all = ordered::array();
  for (const auto& one : versions) {
    all.push_back(description_of(now, one, is_customized));
  }
  return torchserve_json(all);
}

result<http_reply> scale_worker(const worker_view& of, const managed_model& model,
                                const torchserve_target& asked) {
  const auto wanted = read_scale(asked);
  if (!wanted) {
    return wanted.error();
  }
  const auto serving = static_cast<std::int64_t>(of.load->workers);
  if (wanted->least <= serving && serving <= wanted->most) {
    return scaled_managed(wanted->least, model);
  }
  return fail(errc::conflict,
              "{} of {} workers of model {} serve, {} to {} were asked for: set count of its "
              "[[workers]] in nodes.toml, and `cluster up` starts so many",
              serving, of.facts->processes.size(), of.name, wanted->least, wanted->most);
}

result<http_reply> set_default_worker(const worker_view& newest, const managed_model& model) {
  if (!model.version || *model.version == newest.version) {
    return torchserve_json(
        {{"status", fmt::format("Default version successfully updated for model \"{}\" to \"{}\"",
                                newest.name, newest.version)}});
  }
  return fail(errc::conflict, "the default version of model {} is its newest, {}", newest.name,
              newest.version);
}

http_reply ready_worker(const worker_view& of, const snapshot& now) {
  return torchserve_json({{"name", of.name}, {"ready", is_ready(of, now)}});
}

} // namespace baton::gateway
