#include "cluster/triton_import.hpp"

#include "cluster/config.hpp"
#include "cluster/launch_import.hpp"
#include "cluster/pbtxt.hpp"
#include "schema/limits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

namespace baton::cluster {
namespace {

using json = nlohmann::ordered_json;

constexpr std::int64_t micros_max = 86'400'000'000; // a day

// What is left out, and why. Fields that are not here and not read are left out as well.
constexpr std::pair<std::string_view, std::string_view> without[] = {
    {"sequence_batching", "REQUESTS OF A SEQUENCE MAY GO TO DIFFERENT WORKERS"},
    {"model_warmup", "a handler warms up in initialize"},
    {"optimization", "it is the handler's own matter"},
    {"response_cache", "answers are not kept"},
    {"model_repository_agents", "models are what nodes.toml says"},
    {"model_operations", "it is the handler's own matter"},
    {"batch_input", "it is the handler's own matter"},
    {"batch_output", "it is the handler's own matter"},
};
// What a worker's SDK reads itself, or what needs no words here.
constexpr std::string_view known[] = {
    "name",
    "platform",
    "backend",
    "runtime",
    "version_policy",
    "max_batch_size",
    "input",
    "output",
    "instance_group",
    "parameters",
    "dynamic_batching",
    "default_model_filename",
    "model_transaction_policy",
};

std::string name_of(const triton_model& of) {
  auto path = std::filesystem::path(of.directory);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Reads fields that were given once; what is wrong is kept, the first of it.
class fields {
public:
  fields(const json& object, std::string path) : object_(object), path_(std::move(path)) {}

  const json* find(std::string_view name) const {
    const auto at = object_.find(name);
    return at == object_.end() || at->empty() ? nullptr : &at->back();
  }
  std::vector<const json*> all(std::string_view name) const {
    std::vector<const json*> values;
    if (const auto at = object_.find(name); at != object_.end())
      for (const auto& value : *at)
        values.push_back(&value);
    return values;
  }
  std::string text(std::string_view name) {
    const auto* value = find(name);
    if (value && !value->is_string())
      refuse(name, "a text");
    return value && value->is_string() ? value->get<std::string>() : std::string();
  }
  std::int64_t integer(std::string_view name, std::int64_t otherwise, std::int64_t most) {
    const auto* value = find(name);
    if (!value)
      return otherwise;
    if (!value->is_number_integer() || value->get<std::int64_t>() < 0 ||
        value->get<std::int64_t>() > most) {
      refuse(name, fmt::format("an integer from 0 to {}", most));
      return otherwise;
    }
    return value->get<std::int64_t>();
  }
  // A message; empty if there is none.
  fields message(std::string_view name) {
    static const json nothing = json::object();
    const auto* value = find(name);
    if (value && !value->is_object()) {
      refuse(name, "a message");
      value = nullptr;
    }
    return {value ? *value : nothing, fmt::format("{}.{}", path_, name)};
  }
  const json& object() const noexcept { return object_; }
  void refuse(std::string_view name, std::string_view needed) {
    fail_with(fail(errc::bad_config, "{}.{}: {} is needed", path_, name, needed));
  }
  void fail_with(error e) {
    if (!wrong_)
      wrong_ = std::move(e);
  }
  const std::optional<error>& wrong() const noexcept { return wrong_; }

private:
  const json& object_;
  std::string path_;
  std::optional<error> wrong_;
};

class translation {
public:
  translation(const std::string& model, const std::string& name) : model_(model), name_(name) {}

  std::optional<error> take(const triton_model& of);
  result<imported_config> write();

private:
  std::optional<error> take_python(const triton_model& of, fields& config);
  std::optional<error> take_vllm(const triton_model& of, fields& config);
  void note(const triton_model& of, std::string_view text) {
    out_.notes.push_back(fmt::format("{}: {}", name_of(of), text));
  }
  std::int64_t count_instances(const triton_model& of, fields& config);
  void note_batches(const triton_model& of, const fields& batching);

  const std::string& model_;
  const std::string& name_;
  std::string workers_; // [[workers]] tables
  std::optional<imported_config> llm_;
  imported_config out_;
};

std::optional<error> translation::take(const triton_model& of) {
  const auto parsed = parse_pbtxt(of.config);
  if (!parsed)
    return fail(errc::bad_config, "{}/config.pbtxt: {}", name_of(of), parsed.error().message);
  fields config(*parsed, name_of(of));
  const auto backend = config.text("backend");
  const auto platform = config.text("platform");
  if (config.wrong())
    return config.wrong();
  if (backend == "vllm")
    return take_vllm(of, config);
  if (backend == "python")
    return take_python(of, config);
  if (platform == "ensemble" || config.find("ensemble_scheduling"))
    note(of, "LEFT OUT: an ensemble is a handler that asks other models (docs/workers.md)");
  else if (backend == "tensorrtllm")
    note(of, "LEFT OUT: engines of TensorRT-LLM cannot be read; --model says which GGUF file or "
             "directory of safetensors is to be served");
  else
    note(of, fmt::format("LEFT OUT: '{}' needs a handler of a few lines (docs/workers.md; "
                         "examples/workers/onnx_model.py is one for ONNX)",
                         backend.empty() ? platform : backend));
  return std::nullopt;
}

void translation::note_batches(const triton_model& of, const fields& batching) {
  constexpr std::pair<std::string_view, std::string_view> left_out[] = {
      {"preferred_batch_size", "a batch goes as soon as a worker is idle and its delay is over"},
      {"preserve_ordering", "answers come as they are ready"},
      {"priority_levels", "requests are served in the order in which they came"},
      {"default_priority_level", "requests are served in the order in which they came"},
      {"priority_queue_policy", "requests are served in the order in which they came"},
  };
  for (const auto& [name, why] : left_out)
    if (batching.find(name))
      note(of, fmt::format("dynamic_batching.{} is left out: {}", name, why));
}

// At least one.
std::int64_t translation::count_instances(const triton_model& of, fields& config) {
  std::int64_t count = 0;
  for (const auto* group : config.all("instance_group")) {
    if (!group->is_object()) {
      config.refuse("instance_group", "a message");
      break;
    }
    fields one(*group, name_of(of) + ".instance_group");
    count += one.integer("count", 1, workers_of_cluster_max);
    if (one.wrong())
      config.fail_with(*one.wrong());
    if (one.find("gpus"))
      note(of, "instance_group.gpus is left out: nodes.toml says which devices there are");
  }
  return std::max<std::int64_t>(count, 1);
}

std::optional<error> translation::take_python(const triton_model& of, fields& config) {
  const auto name = name_of(of);
  if (!is_name(name))
    return fail(errc::bad_config, "'{}': a name of 1 to 64 of [A-Za-z0-9._-] is needed", name);
  if (of.versions.empty())
    return fail(errc::bad_config, "{} has no version: a directory that is a number", name);
  const auto newest = *std::max_element(of.versions.begin(), of.versions.end());
  if (of.versions.size() > 1)
    note(of, fmt::format("version {} alone is served", newest));
  const auto count = count_instances(of, config);
  auto batching = config.message("dynamic_batching");
  auto queue = batching.message("default_queue_policy");
  const auto most = config.integer("max_batch_size", 0, limits::batch_items_max);
  const auto delay = batching.integer("max_queue_delay_microseconds", 0, micros_max);
  const auto queued = queue.integer("max_queue_size", 0, 1 << 20);
  auto file = config.text("default_model_filename");
  for (const auto* part : {&config, &batching, &queue})
    if (part->wrong())
      return part->wrong();
  const bool forms_batches = config.find("dynamic_batching") && most > 0;
  workers_ += fmt::format(
      "\n[[workers]]\nname = {}\nversion = \"{}\"\ncommand = [\"python3\", \"-m\", "
      "\"baton_worker.triton\", {}]\ncount = {}\nbatch_size = {}\nmax_batch_delay = {:.6f}\n",
      toml_string(name), newest,
      toml_string(fmt::format("{}/{}/{}", of.directory, newest, file.empty() ? "model.py" : file)),
      count, forms_batches ? most : 1, static_cast<double>(forms_batches ? delay : 0) / 1e6);
  if (queued > 0)
    workers_ += fmt::format("max_queued = {}\n", queued);
  else
    note(of, "max_queued is 100, our default: a queue has a bound here");
  if (queue.find("default_timeout_microseconds"))
    note(of, "default_timeout_microseconds is left out: gateway.request_timeout holds for all");
  if (most > 0 && !config.find("dynamic_batching"))
    note(of, "batch_size is 1, as without dynamic_batching: what a client sends is not split");
  note_batches(of, batching);
  for (const auto& [field, why] : without)
    if (config.find(field))
      note(of, fmt::format("{} is left out: {}", field, why));
  for (auto it = config.object().begin(); it != config.object().end(); ++it) {
    const std::string_view field = it.key();
    if (std::find(std::begin(known), std::end(known), field) == std::end(known) &&
        std::none_of(std::begin(without), std::end(without),
                     [&](const auto& w) { return w.first == field; }))
      note(of, fmt::format("{} is left out: nothing here is called so", field.substr(0, 64)));
  }
  return std::nullopt;
}

// Its model.json has the arguments of vLLM's engine, which are those of its command.
std::optional<error> translation::take_vllm(const triton_model& of, fields& config) {
  if (llm_)
    return fail(errc::bad_config, "{} is the second LLM: one is taken over at a time", name_of(of));
  const auto arguments = json::parse(of.engine, nullptr, /*allow_exceptions=*/false);
  if (!arguments.is_object())
    return fail(errc::bad_config, "{}: model.json of the newest version is no JSON object",
                name_of(of));
  auto batching = config.message("dynamic_batching");
  auto queue = batching.message("default_queue_policy");
  const auto replicas = count_instances(of, config);
  const auto queued = queue.integer("max_queue_size", 0, 1 << 20);
  for (const auto* part : {&config, &batching, &queue})
    if (part->wrong())
      return part->wrong();
  if (queue.find("default_timeout_microseconds"))
    note(of, "default_timeout_microseconds is left out: model.queue_timeout says it, in seconds");
  std::vector<std::string> words{"vllm", "serve"};
  for (const auto& [key, value] : arguments.items()) {
    if (key == "model") {
      words.insert(words.begin() + 2, value.is_string() ? value.get<std::string>() : "");
      continue;
    }
    if (value.is_null() || value == false)
      continue;
    auto word = "--" + key;
    if (value != true)
      word += "=" + (value.is_string() ? value.get<std::string>() : value.dump());
    words.push_back(std::move(word));
  }
  if (replicas > 1)
    words.push_back(fmt::format("--data-parallel-size={}", replicas));
  if (queued > 0)
    words.push_back(fmt::format("--max-num-queued-reqs={}", queued));
  auto made = import_launch(words, model_, name_.empty() ? name_of(of) : name_);
  if (!made)
    return fail(errc::bad_config, "{}/model.json: {}", name_of(of), made.error().message);
  for (const auto& one : made->notes)
    note(of, one);
  llm_ = *std::move(made);
  return std::nullopt;
}

result<imported_config> translation::write() {
  std::string tables = llm_ ? llm_->toml : std::string();
  if (!llm_) {
    if (model_.empty())
      return fail(errc::bad_config,
                  "no model here is one of the vLLM backend: --model says which LLM is served");
    const auto name = name_.empty() ? std::filesystem::path(model_).stem().string() : name_;
    tables =
        fmt::format("\n[model]\nname = {}\npath = {}\n", toml_string(name), toml_string(model_));
  }
  out_.toml = "# Made of a model repository of Triton by `cluster import`.\n";
  for (const auto& line : out_.notes)
    out_.toml += toml_comment(line);
  // What the LLM's part says of itself is said above.
  const auto first_table = tables.find("\n[");
  out_.toml += first_table == tables.npos ? tables : tables.substr(first_table);
  out_.toml += workers_;
  return std::move(out_);
}

} // namespace

result<imported_config> import_triton(std::span<const triton_model> models,
                                      const std::string& model, const std::string& name) {
  translation made(model, name);
  for (const auto& one : models)
    if (auto wrong = made.take(one))
      return *std::move(wrong);
  return made.write();
}

} // namespace baton::cluster
