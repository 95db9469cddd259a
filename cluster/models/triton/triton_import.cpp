#include "cluster/models/triton/triton_import.hpp"

#include "cluster/config/config.hpp"
#include "cluster/config/readers/triton_config.hpp"
#include "cluster/formats/pbtxt.hpp"
#include "cluster/formats/pbtxt_fields.hpp"
#include "cluster/import/launch_import.hpp"
#include "cluster/models/triton/triton_batching.hpp"
#include "cluster/models/triton/triton_completion.hpp"
#include "cluster/models/triton/triton_instances.hpp"
#include "cluster/models/triton/triton_left_out.hpp"
#include "cluster/models/triton/triton_tensors.hpp"
#include "gateway/api/kserve/models/triton_platforms.hpp"
#include "schema/limits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

namespace baton::cluster {
namespace {

using nlohmann::ordered_json;

std::string name_of(const triton_model& of) {
  auto path = std::filesystem::path(of.directory);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

using fields = pbtxt_fields;

class translation {
public:
  // `unserved`: prefix of the note for a model that cannot be served.
  translation(const std::string& model, const std::string& name, std::string_view unserved)
      : model_(model), name_(name), unserved_(unserved) {}

  std::optional<error> take(const triton_model& of);
  result<imported_config> write();
  result<imported_config> write_worker();
  result<imported_config> write_llms(std::optional<std::uint32_t> max_tokens);

private:
  std::optional<error> take_worker(const triton_model& of, fields& config,
                                   const gateway::triton_platform& by);
  std::optional<error> take_vllm(const triton_model& of, fields& config);
  void note(const triton_model& of, std::string_view text) {
    out_.notes.push_back(fmt::format("{}: {}", name_of(of), text));
  }
  void note_unserved(const triton_model& of, std::string_view why) {
    note(of, fmt::format("{}{}", unserved_, why));
  }
  std::int64_t count_instances(const triton_model& of, fields& config);
  result<std::string> triton_config_line(const triton_model& of, const fields& config);
  void note_rest(const triton_model& of, const fields& config, const gateway::triton_platform& by);
  void note_unknown(const triton_model& of, const given_config& given);

  const std::string& model_;
  const std::string& name_;
  std::string_view unserved_;
  std::string model_tables() const;

  std::string workers_; // [[workers]] tables
  struct language_model {
    std::string name, tables;
  };
  std::vector<language_model> llms_;
  std::vector<std::string> server_notes_; // about listeners, once for all LLMs
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
  if (const auto* by = gateway::find_triton_platform(backend, platform)) {
    if (backend != "pytorch" || !config.find("runtime"))
      return take_worker(of, config, *by);
  }
  if (platform == "ensemble" || config.find("ensemble_scheduling"))
    note_unserved(
        of, "an ensemble is a handler that asks other models (docs/apis/workers/other-models.md)");
  else if (backend == "tensorrtllm")
    note_unserved(of, "engines of TensorRT-LLM cannot be read; --model names the GGUF file or "
                      "directory of safetensors to serve");
  else if (backend == "tensorrt" || platform == "tensorrt_plan")
    note_unserved(
        of, "an engine of TensorRT (tensorrt_plan) runs only with the release of "
            "TensorRT and the kind of GPU that it was built for; the ONNX file that it was built "
            "from is served as platform onnxruntime_onnx, which takes execution_accelerators "
            "tensorrt, or a model.py of the Python backend loads the engine "
            "(docs/apis/workers/first.md)");
  else
    note_unserved(of, fmt::format("{} needs a handler of a few lines (docs/apis/workers/first.md)",
                                  is_name(backend)    ? fmt::format("'{}'", backend)
                                  : is_name(platform) ? fmt::format("'{}'", platform)
                                                      : "what it is"));
  return std::nullopt;
}

// The instances of an LLM, at least one.
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
      note(of, "instance_group.gpus is left out: nodes.toml lists the devices");
  }
  return std::max<std::int64_t>(count, 1);
}

std::optional<error> translation::take_worker(const triton_model& of, fields& config,
                                              const gateway::triton_platform& by) {
  const auto name = name_of(of);
  if (!is_name(name))
    return fail(errc::bad_config, "'{}': a name of 1 to 64 of [A-Za-z0-9._-] is needed", name);
  if (of.versions.empty())
    return fail(errc::bad_config, "{} has no version: a directory that is a number from 1", name);
  const auto newest = *std::max_element(of.versions.begin(), of.versions.end());
  if (of.versions.size() > 1)
    note(of, fmt::format("version {} alone is served", newest));
  const auto instances = import_triton_instances(config, name, of.gpus);
  auto file = config.text("default_model_filename");
  const auto batching = import_triton_batching(config);
  const auto tensors = import_triton_tensors(config, by.backend);
  if (config.wrong())
    return config.wrong();
  if (!stays_below(file))
    return fail(errc::bad_config,
                "default_model_filename: '{}' leads out of the version's directory", file);
  if (by.name == "tensorflow_graphdef" && (!config.find("input") || !config.find("output")))
    return fail(errc::bad_config,
                "{}: config.pbtxt must declare its inputs and outputs: a GraphDef does not", name);
  if (!batching)
    return batching.error();
  if (!tensors)
    return tensors.error();
  const auto config_line = triton_config_line(of, config);
  if (!config_line)
    return config_line.error();
  workers_ += fmt::format(
      "\n[[workers]]\nname = {}\nversion = \"{}\"\ncommand = [\"python3\", "
      "\"-m\", \"{}\", {}{}]\ncount = {}\n{}{}",
      toml_string(name), newest, by.module,
      toml_string(fmt::format("{}/{}/{}", of.directory, newest, file.empty() ? by.file : file)),
      of.completed_batch > 0 ? fmt::format(", \"--max-batch-size\", \"{}\"", of.completed_batch)
                             : std::string(),
      instances.count, instances.toml, batching->toml + tensors->toml + *config_line);
  for (const auto& one : of.notes)
    note(of, one);
  for (const auto& one : instances.notes)
    note(of, one);
  for (const auto& one : batching->notes)
    note(of, one);
  for (const auto& one : tensors->notes)
    note(of, one);
  if (by.backend == "pytorch" && (!config.find("input") || !config.find("output")))
    note(of, "inputs and outputs are not checked: a TorchScript file does not name them, and "
             "config.pbtxt leaves some out");
  note_rest(of, config, by);
  return std::nullopt;
}

// The configuration that clients see, without what other keys of [[workers]] express.
result<std::string> translation::triton_config_line(const triton_model& of, const fields& config) {
  auto given = given_config_of(config.object());
  if (!given)
    return fail(errc::bad_config, "{}/config.pbtxt: {}", name_of(of), given.error().message);
  note_unknown(of, *given);
  auto& json = given->json;
  for (const auto* key : {"name", "max_batch_size", "version_policy", "model_transaction_policy"})
    json.erase(key);
  for (const auto* key : {"input", "output"}) {
    if (!json.contains(key))
      continue;
    for (auto& tensor : json[key])
      for (const auto* expressed_elsewhere : {"data_type", "dims", "optional"})
        tensor.erase(expressed_elsewhere);
    auto others = ordered_json::array(); // tensors with more fields than a name
    for (auto& tensor : json[key])
      if (tensor.size() > 1)
        others.push_back(std::move(tensor));
    json[key] = std::move(others);
    if (json[key].empty())
      json.erase(key);
  }
  const auto text = json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  if (text.size() > triton_config_bytes_max) {
    note(of, fmt::format(
                 "config.pbtxt is not published as a whole: it has {} bytes as JSON, at most {} "
                 "are published",
                 text.size(), triton_config_bytes_max));
    return std::string();
  }
  return fmt::format("triton_config = {}\n", toml_string(text));
}

void translation::note_rest(const triton_model& of, const fields& config,
                            const gateway::triton_platform& by) {
  std::vector<std::string_view> read;
  if (by.reads_optimization)
    read.push_back("optimization");
  if (by.reads_operations)
    read.push_back("model_operations");
  for (const auto& line : triton_left_out(config.object(), triton_reader::worker, read))
    note(of, line);
}

void translation::note_unknown(const triton_model& of, const given_config& given) {
  for (const auto& field : given.unknown)
    note(of, fmt::format("{} IS NOT KNOWN: config.pbtxt has no such field", field));
}

// model.json has the arguments of vLLM's engine, which match those of `vllm serve`.
std::optional<error> translation::take_vllm(const triton_model& of, fields& config) {
  if (!llms_.empty() && !(model_.empty() && name_.empty()))
    return fail(errc::bad_config,
                "{} and {} are LLMs of the vLLM backend, and --model or --name is for one: import "
                "the directory of one, or leave it out",
                llms_.front().name, name_of(of));
  const auto given = given_config_of(config.object());
  if (!given)
    return fail(errc::bad_config, "{}/config.pbtxt: {}", name_of(of), given.error().message);
  note_unknown(of, *given);
  for (const auto& line : triton_left_out(config.object(), triton_reader::language_model))
    note(of, line);
  const auto arguments = ordered_json::parse(of.engine, nullptr, /*allow_exceptions=*/false);
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
    note(of, "default_timeout_microseconds is left out: model.queue_timeout sets it, in seconds");
  std::vector<std::string> args{"vllm", "serve"};
  for (const auto& [key, value] : arguments.items()) {
    if (key == "model") {
      args.insert(args.begin() + 2, value.is_string() ? value.get<std::string>() : "");
      continue;
    }
    if (value.is_null() || value == false)
      continue;
    auto arg = "--" + key;
    if (value != true)
      arg += "=" + (value.is_string() ? value.get<std::string>() : value.dump());
    args.push_back(std::move(arg));
  }
  if (replicas > 1)
    args.push_back(fmt::format("--data-parallel-size={}", replicas));
  if (queued > 0)
    args.push_back(fmt::format("--max-num-queued-reqs={}", queued));
  auto made = import_launch(args, model_, name_.empty() ? name_of(of) : name_,
                            /*keeps_names=*/false);
  if (!made)
    return fail(errc::bad_config, "{}/model.json: {}", name_of(of), made.error().message);
  for (const auto& one : made->notes)
    if (!one.starts_with("gateway.")) // those are of the server
      note(of, one);
    else if (llms_.empty())
      server_notes_.push_back(one);
  llms_.push_back({name_of(of), std::move(made->toml)});
  return std::nullopt;
}

// The tables of these names, from the first match to the next other table.
std::string tables_of(const std::string& toml, std::span<const std::string_view> names) {
  std::string out;
  for (auto at = toml.find("\n["); at != toml.npos;) {
    const auto next = toml.find("\n[", at + 1);
    const auto table = toml.substr(at, next == toml.npos ? next : next - at);
    for (const auto name : names)
      if (table.starts_with(fmt::format("\n[{}]", name)))
        out += table;
    at = next;
  }
  return out;
}

// One LLM becomes [model]; several become [[models]], each followed by its tables.
std::string translation::model_tables() const {
  constexpr std::string_view names[] = {"model", "model.sampling"};
  std::string all;
  for (const auto& one : llms_) {
    auto tables = tables_of(one.tables, names);
    if (llms_.size() > 1)
      for (const auto& [alone, several] :
           {std::pair<std::string_view, std::string_view>{"\n[model]", "\n[[models]]"},
            {"\n[model.sampling]", "\n[models.sampling]"}})
        if (const auto at = tables.find(alone); at != tables.npos)
          tables.replace(at, alone.size(), several);
    all += tables;
  }
  return all;
}

result<imported_config> translation::write() {
  if (llms_.empty() && model_.empty() && workers_.empty())
    return fail(errc::bad_config, "none of its models can be served: {}",
                fmt::join(out_.notes, "; "));
  // Listeners belong to the server, not to a model: the first LLM's translation has the default.
  constexpr std::string_view of_server[] = {"gateway", "cluster"};
  auto tables =
      llms_.empty() ? std::string() : model_tables() + tables_of(llms_.front().tables, of_server);
  if (llms_.empty() && !model_.empty()) {
    const auto name = name_.empty() ? std::filesystem::path(model_).stem().string() : name_;
    tables =
        fmt::format("\n[model]\nname = {}\npath = {}\n", toml_string(name), toml_string(model_));
  }
  out_.notes.insert(out_.notes.end(), server_notes_.begin(), server_notes_.end());
  out_.toml = "# Made of a model repository of Triton by `cluster import`.\n";
  for (const auto& line : out_.notes)
    out_.toml += toml_comment(line);
  out_.toml += tables + workers_; // the notes about LLMs are above
  return std::move(out_);
}

result<imported_config> translation::write_llms(std::optional<std::uint32_t> max_tokens) {
  constexpr std::string_view table = "\n[model.sampling]\n";
  for (auto& one : llms_) {
    const auto at = one.tables.find(table);
    const bool has_own =
        at != one.tables.npos && one.tables.find("max_tokens = ", at) != one.tables.npos;
    if (!max_tokens || has_own)
      continue;
    const auto line = fmt::format("max_tokens = {}\n", *max_tokens);
    if (at == one.tables.npos)
      one.tables += std::string(table) + line;
    else
      one.tables.insert(at + table.size(), line);
  }
  out_.toml = model_tables();
  return std::move(out_);
}

result<imported_config> translation::write_worker() {
  if (!llms_.empty())
    return fail(errc::bad_config, "it is an LLM of the vLLM backend, which is the [model] of "
                                  "nodes.toml");
  if (workers_.empty())
    return fail(errc::bad_config, "{}", fmt::join(out_.notes, "; "));
  out_.toml = std::move(workers_);
  return std::move(out_);
}

} // namespace

result<imported_config> import_triton_worker(const triton_model& of) {
  const std::string none;
  translation made(none, none, /*unserved=*/"");
  if (auto wrong = made.take(of))
    return *std::move(wrong);
  return made.write_worker();
}

result<imported_config> import_triton_llms(std::span<const triton_model> models,
                                           std::optional<std::uint32_t> max_tokens) {
  const std::string none;
  translation made(none, none, /*unserved=*/"");
  for (const auto& one : models)
    if (auto wrong = one.engine.empty() ? std::nullopt : made.take(one))
      return *std::move(wrong);
  return made.write_llms(max_tokens);
}

result<imported_config> import_triton(std::span<const triton_model> models,
                                      const std::string& model, const std::string& name) {
  translation made(model, name, "LEFT OUT: ");
  for (const auto& one : models)
    if (auto wrong = made.take(one))
      return *std::move(wrong);
  return made.write();
}

} // namespace baton::cluster
