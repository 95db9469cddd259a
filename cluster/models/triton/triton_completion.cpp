#include "cluster/models/triton/triton_completion.hpp"

#include "cluster/formats/pbtxt.hpp"
#include "cluster/formats/pbtxt_fields.hpp"
#include "cluster/models/triton/onnx_file.hpp"
#include "cluster/models/triton/saved_model_file.hpp"
#include "cluster/models/triton/triton_auto_complete.hpp"
#include "cluster/models/triton/triton_directory.hpp"
#include "gateway/api/kserve/models/triton_platforms.hpp"
#include "gateway/request/datatype.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;

using gateway::triton_platform;
using gateway::triton_platforms;

// `backend`: restricts the search unless it is empty. Null: no file matches.
const triton_platform* kind_of(const fs::path& version, const std::string& named,
                               std::string_view backend = {}) {
  for (const auto& f : triton_platforms) {
    std::error_code ec;
    const auto file = named.empty() ? std::string(f.file) : named;
    if (f.is_found_by_file && (backend.empty() || backend == f.backend) &&
        fs::path(file).extension() == fs::path(f.file).extension() &&
        fs::exists(version / file, ec) && fs::is_directory(version / file, ec) == f.is_directory)
      return &f;
  }
  return nullptr;
}

// Whether the backend alone leaves open which file it serves.
bool has_several_kinds(std::string_view backend) {
  return std::count_if(triton_platforms.begin(), triton_platforms.end(), [&](const auto& f) {
           return f.is_found_by_file && f.backend == backend;
         }) > 1;
}

std::string text_of(std::string_view text) {
  std::string out = "\"";
  for (const auto c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  return out + '"';
}

std::string lines_of(std::string_view kind, const std::vector<gateway::worker_tensor>& tensors,
                     bool is_batched) {
  std::string out;
  for (const auto& t : tensors) {
    auto dims = t.shape;
    if (is_batched)
      dims.erase(dims.begin());
    out += fmt::format("{} {{ name: {} data_type: {} dims: [{}] }}\n", kind, text_of(t.name),
                       gateway::config_type_of(t.datatype), fmt::join(dims, ", "));
  }
  return out;
}

// The first tensor whose first dimension is fixed. Null: the model takes batches of any size.
const gateway::worker_tensor* without_batch(const model_signature& of) {
  for (const auto* all : {&of.inputs, &of.outputs})
    for (const auto& t : *all)
      if (t.shape.empty() || t.shape.front() != -1)
        return &t;
  return nullptr;
}

// The text of one of `parameters`; empty: absent.
std::string parameter_of(pbtxt_fields& config, std::string_view key) {
  std::string out;
  for (auto& entry : config.messages("parameters")) {
    auto value = entry.message("value");
    if (entry.text("key") == key)
      out = value.text("string_value");
  }
  return out;
}

result<model_signature> signature_of_saved_model(pbtxt_fields& config, const fs::path& directory) {
  saved_model_choice choice;
  if (const auto tag = parameter_of(config, "TF_GRAPH_TAG"); !tag.empty())
    choice.tag = tag;
  choice.signature = parameter_of(config, "TF_SIGNATURE_DEF");
  return read_saved_model(directory, choice);
}

// `read_signature` reads the model's file, which is `otherwise` unless the configuration names one.
template <class Read>
result<void> complete_tensors(triton_model& model, pbtxt_fields& config, const fs::path& version,
                              std::string_view otherwise, Read read_signature) {
  const auto* output = config.find("output");
  const bool has_input = config.find("input") || config.find("batch_input");
  if (has_input && output)
    return {};
  const auto file = config.text("default_model_filename");
  auto batch = config.integer("max_batch_size", 0, std::numeric_limits<std::int32_t>::max());
  if (config.wrong())
    return *config.wrong();
  const auto read = read_signature(version / (file.empty() ? std::string(otherwise) : file));
  if (!read)
    return read.error();
  const auto* fixed = without_batch(*read);
  if (fixed && batch > 0)
    return fail(errc::bad_config,
                "config.pbtxt says max_batch_size {}, but '{}' of the model has no first dimension "
                "of variable size",
                batch, fixed->name);
  if (!fixed && !config.find("max_batch_size")) {
    batch = model.completed_batch = completed_batch_size;
    model.config += fmt::format("max_batch_size: {}\n", batch);
  }
  if (batch > 1 && !config.find("dynamic_batching") && !config.find("sequence_batching"))
    model.config += "dynamic_batching { }\n";
  if (!has_input)
    model.config += lines_of("input", read->inputs, batch > 0);
  if (!output)
    model.config += lines_of("output", read->outputs, batch > 0);
  return {};
}

// The hook may change what config.pbtxt has of a field, such as an input without dims.
result<void> complete_by_hook(triton_model& model, const fs::path& file) {
  const auto answer = ask_auto_complete(file, model.digest);
  if (!answer)
    return answer.error();
  if (!answer->unanswered.empty())
    model.notes.push_back(fmt::format(
        "ITS auto_complete_config WAS NOT ASKED ({}): config.pbtxt alone sets tensors and batches",
        answer->unanswered));
  const auto added = parse_pbtxt(answer->fields);
  if (!added)
    return fail(errc::bad_config, "auto_complete_config of model.py: {}", added.error().message);
  auto all = parse_pbtxt(model.config);
  if (!all || added->empty())
    return {}; // the translation reports the error
  for (const auto& [field, values] : added->items())
    (*all)[field] = values;
  model.config = pbtxt_text(*all);
  return {};
}

} // namespace

bool stays_below(const fs::path& file) {
  return !file.is_absolute() && std::find(file.begin(), file.end(), "..") == file.end();
}

bool is_completable(const fs::path& directory) {
  std::error_code ec;
  for (fs::directory_iterator it(directory, ec), end; !ec && it != end; it.increment(ec))
    if (is_triton_version(it->path().filename().string()) && kind_of(it->path(), {}) != nullptr)
      return true;
  return false;
}

result<void> complete(triton_model& model, const fs::path& directory) {
  const bool is_missing = model.config.empty();
  const auto parsed = parse_pbtxt(model.config);
  if (!parsed)
    return {}; // the translation reports the error
  pbtxt_fields config(*parsed, model.directory);
  auto backend = config.text("backend");
  auto platform = config.text("platform");
  const auto file = config.text("default_model_filename");
  if (config.wrong())
    return {};
  if (!model.config.empty() && !model.config.ends_with('\n'))
    model.config += '\n';
  const bool has_kind = !platform.empty() || (!backend.empty() && !has_several_kinds(backend));
  if (const auto* kind = has_kind ? nullptr : kind_of(directory, file, backend)) {
    if (is_missing && kind->needs_config)
      return fail(errc::bad_config,
                  "it has no config.pbtxt, and none can be made of a {} file, which does not name "
                  "its inputs and outputs: write one",
                  kind->backend == "pytorch" ? "TorchScript" : "GraphDef");
    if (backend.empty())
      model.config += fmt::format("backend: \"{}\"\n", kind->backend);
    if (has_several_kinds(kind->backend))
      model.config += fmt::format("platform: \"{}\"\n", kind->name);
    backend = kind->backend;
    platform = kind->name;
  } else if (is_missing) {
    return fail(errc::bad_config, "it has no config.pbtxt, and no model.onnx, model.savedmodel or "
                                  "model.py of which one could be made");
  }
  if (platform == "tensorflow_savedmodel")
    return complete_tensors(model, config, directory, "model.savedmodel", [&](const fs::path& at) {
      return signature_of_saved_model(config, at);
    });
  if (backend == "onnxruntime" || (backend.empty() && platform == "onnxruntime_onnx"))
    return complete_tensors(model, config, directory, "model.onnx",
                            [](const fs::path& at) { return read_onnx_signature(at); });
  if (backend == "python" && stays_below(file)) // else the translation reports the error
    return complete_by_hook(model, directory / (file.empty() ? "model.py" : file));
  return {};
}

} // namespace baton::cluster
