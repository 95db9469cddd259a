// Finds the tensors in the files of a directory, by GGUF's names; those of a quantised module are
// joined to one matrix. checkpoint_experts.cpp handles experts.
#include "runtime/model/checkpoint/checkpoint.hpp"
#include "runtime/model/checkpoint/formats/transposed_matrix.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

namespace baton::model {
namespace {

constexpr std::string_view single_file = "model.safetensors";
constexpr std::string_view index_file = "model.safetensors.index.json";
// The files of older checkpoints.
constexpr std::array<std::string_view, 2> pickled_files = {"pytorch_model.bin",
                                                           "pytorch_model.bin.index.json"};
constexpr std::string_view head_name = "lm_head.weight";
constexpr std::size_t compared_bytes = std::size_t{1} << 20U; // of two matrices, at a time

// Buffers that older versions of transformers saved and newer versions ignore, and layers behind
// the model's own, which guess further tokens.
bool is_leftover(std::string_view published, const name_rules& rules) {
  constexpr std::string_view prefix = "model.layers.";
  std::uint64_t layer = 0;
  if (rules.layer_count && published.starts_with(prefix)) {
    const auto number = published.substr(prefix.size());
    const auto read = std::from_chars(number.data(), number.data() + number.size(), layer);
    if (read.ec == std::errc() && layer >= *rules.layer_count) {
      return true;
    }
  }
  // The other parts of a larger model, and layers that guess further tokens.
  constexpr std::array others = {
      std::string_view("model.visual."), // Qwen 3.5, then Gemma 4
      std::string_view("model.vision_tower."), std::string_view("model.audio_tower."),
      std::string_view("model.embed_vision."), std::string_view("model.embed_audio.")};
  const bool is_other = rules.is_nested && std::ranges::any_of(others, [&](std::string_view other) {
                          return published.starts_with(other);
                        });
  return is_other || published.starts_with("mtp.") || published.ends_with(".rotary_emb.inv_freq");
}

// The files that an index names, without duplicates. Errors: bad_model_file.
result<std::set<std::string>> files_of(const json& index, const std::string& origin) {
  const auto* map = member_of(index, "weight_map");
  if (map == nullptr || !map->is_object() || map->empty()) {
    return fail(errc::bad_model_file, "{}: 'weight_map' names no tensors", origin);
  }
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const auto name = file.is_string() ? file.get<std::string>() : std::string();
    // Only a plain name, so nothing outside the directory is opened.
    if (name.empty() || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos || !name.ends_with(".safetensors")) {
      return fail(errc::bad_model_file, "{}: tensor '{}' is in no safetensors file", origin,
                  tensor);
    }
    files.insert(name);
  }
  return files;
}

} // namespace

result<void> checkpoint::open_files() {
  for (const auto& [name, values] : config_.made) {
    if (auto r = add_made(name, values); !r) {
      return r;
    }
  }
  if (is_there(path_ / single_file)) {
    auto file = safetensors_file::open(path_ / single_file);
    return file ? add_file(*std::move(file)) : result<void>(file.error());
  }
  if (is_there(path_ / index_file)) {
    return open_indexed();
  }
  for (const auto old : pickled_files) {
    if (is_there(path_ / old)) {
      return fail(errc::bad_model_file,
                  "{0}: its weights are Python's pickles ({1}), which run code where they are "
                  "read. Where transformers and torch are installed, this writes them as "
                  "safetensors beside: python3 -c \"from transformers import AutoModelForCausalLM "
                  "as M; M.from_pretrained('{0}', torch_dtype='auto').save_pretrained('{0}')\"",
                  path_.string(), old);
    }
  }
  return fail(errc::io_failed, "{}: neither {} nor {} is there", path_.string(), single_file,
              index_file);
}

result<void> checkpoint::open_indexed() {
  const auto origin = (path_ / index_file).string();
  const auto index = read_json_object(origin);
  if (!index) {
    return index.error();
  }
  const auto names = files_of(*index, origin);
  if (!names) {
    return names.error();
  }
  for (const auto& name : *names) {
    auto file = safetensors_file::open(path_ / name);
    if (!file) {
      return file.error();
    }
    if (auto r = add_file(*std::move(file)); !r) {
      return r;
    }
  }
  for (const auto& [tensor, file] : index->at("weight_map").items()) {
    if (!contains_tensor(tensor, file.get<std::string>()) && !is_leftover(tensor, config_.names) &&
        !(config_.has_tied_embeddings && tensor == head_name)) {
      return fail(errc::bad_model_file, "{}: tensor '{}' is not in {}", origin, tensor,
                  file.get<std::string>());
    }
  }
  return {};
}

result<void> checkpoint::add_file(safetensors_file file) {
  files_.push_back(std::move(file));
  for (const auto& tensor : files_.back().tensors()) {
    if (is_leftover(tensor.name, config_.names)) {
      continue;
    }
    const stored_tensor stored{files_.size() - 1, tensor};
    if (config_.has_tied_embeddings && tensor.name == head_name && !tied_head_) {
      tied_head_ = stored;
      continue;
    }
    auto part = config_.quantised ? config_.quantised->part_of(tensor) : std::nullopt;
    const auto added = part ? add_part(stored, *std::move(part)) : add_stored(stored);
    if (!added) {
      return added;
    }
  }
  return {};
}

// Some files keep a copy of the embedding that the head is tied to. If it differs, it is the
// model's head, as in transformers and vLLM.
result<void> checkpoint::add_tied_head() {
  if (!tied_head_) {
    return {};
  }
  const auto is_copy = repeats_embedding(*tied_head_);
  if (!is_copy) {
    return is_copy.error();
  }
  return *is_copy ? result<void>() : add_stored(*tied_head_);
}

result<bool> checkpoint::repeats_embedding(const stored_tensor& head) const {
  const auto found = sources_.find("token_embd.weight");
  if (found == sources_.end() || !found->second.file) {
    return false;
  }
  const auto& embedding = tensors_[found->second.tensor];
  if (embedding.type != head.view.type || embedding.shape != head.view.shape) {
    return false;
  }
  std::vector<std::byte> ours(std::min<std::uint64_t>(compared_bytes, embedding.size_bytes()));
  std::vector<std::byte> theirs(ours.size());
  for (std::uint64_t at = 0; at < embedding.size_bytes(); at += ours.size()) {
    const auto count = std::min<std::uint64_t>(ours.size(), embedding.size_bytes() - at);
    ours.resize(count);
    theirs.resize(count);
    if (auto r = files_[*found->second.file].read(embedding, at, ours); !r) {
      return r.error();
    }
    if (auto r = files_[head.file].read(head.view, at, theirs); !r) {
      return r.error();
    }
    if (ours != theirs) {
      return false;
    }
  }
  return true;
}

result<void> checkpoint::add_part(const stored_tensor& part, module_part name) {
  const auto [at, is_new] = parts_.try_emplace(part.view.name, stored_part{part, std::move(name)});
  if (!is_new) {
    return fail(errc::bad_model_file, "{}: tensor '{}' is in {} as well",
                files_[part.file].path().string(), part.view.name,
                files_[at->second.stored.file].path().string());
  }
  return {};
}

result<void> checkpoint::add_stored(const stored_tensor& stored) {
  if (is_transposed(stored.view.name, config_.names)) {
    auto matrix = transposed(stored);
    if (!matrix) {
      return fail(matrix.error().code, "{}: {}", files_[stored.file].path().string(),
                  matrix.error().message);
    }
    auto view = (*matrix)->view();
    return add_published(
        stored.view.name, std::move(view),
        {.file = stored.file, .published = stored.view.name, .quantised = *std::move(matrix)});
  }
  return add_published(stored.view.name, stored.view,
                       {.file = stored.file, .published = stored.view.name});
}

result<void> checkpoint::add_published(const std::string& published, tensor_view view,
                                       source from) {
  if (const auto names = joint_names_of(published, config_.names)) {
    return add_joint(view, from, *names);
  }
  const auto expert = expert_name_of(published);
  const auto& name = expert ? expert->pattern : published;
  view.name = gguf_tensor_name(name, config_.names);
  const bool is_whole = !expert && view.name != name && name.find('*') == std::string::npos;
  if (!is_of_experts(published) || is_whole) {
    return add(std::move(view), std::move(from));
  }
  if (expert && view.name != name) {
    return add_expert(expert->expert, std::move(view), std::move(from));
  }
  const auto known = published_tensor_name("blk.0.ffn_gate_exps.weight", config_.names);
  return fail(errc::unsupported_model,
              "{}: tensor '{}': of experts this build reads a tensor for each and each matrix, as "
              "'{}'",
              path_.string(), from.published, published_name_of({known, 0}));
}

result<void> checkpoint::add_made(std::string name, std::vector<float> values) {
  tensor_view view{std::move(name), tensor_type::f32, {values.size()}, {}};
  view.bytes = std::as_bytes(std::span(values)); // stays valid when the vector is moved
  auto published = view.name;
  return add(std::move(view), {.made = std::move(values), .published = std::move(published)});
}

result<void> checkpoint::add(tensor_view view, source from) {
  if (view.name.ends_with(".ffn_gate_inp_shexp.weight") && view.shape.size() == 2 &&
      view.shape[1] == 1) {
    view.shape.pop_back(); // GGUF has a vector
  }
  if (view.name.ends_with("conv1d.weight") || view.name.ends_with("shortconv.conv.weight")) {
    if (view.shape.size() == 3 && view.shape[1] == 1) {
      view.shape.erase(view.shape.begin() + 1); // one input channel for each output
    }
  }
  from.tensor = tensors_.size();
  const auto [at, is_new] = sources_.try_emplace(view.name, std::move(from));
  if (!is_new) {
    return duplicate(from, at->second);
  }
  tensors_.push_back(std::move(view));
  return {};
}

error checkpoint::duplicate(const source& from, const source& by) const {
  const auto origin = [this](const source& each) {
    return (each.file ? files_[*each.file].path() : path_).string();
  };
  return fail(errc::bad_model_file, "{}: tensor '{}' duplicates '{}' in {}", origin(from),
              from.published, by.published, origin(by));
}

bool checkpoint::contains_tensor(const std::string& published, const std::string& file) const {
  std::optional<std::size_t> holder;
  if (const auto part = parts_.find(published); part != parts_.end()) {
    holder = part->second.stored.file;
  } else if (const auto expert = expert_name_of(published)) {
    const auto* from = find_expert(*expert);
    holder = from != nullptr ? from->file : std::nullopt;
  } else if (const auto joint = joint_names_of(published, config_.names)) {
    const auto gate = sources_.find(joint->gate);
    holder = gate != sources_.end() ? gate->second.file : std::nullopt;
  } else if (const auto whole = sources_.find(gguf_tensor_name(published, config_.names));
             whole != sources_.end()) {
    holder = whole->second.file;
  }
  return holder && files_[*holder].path().filename() == file;
}

result<void> checkpoint::join_parts() {
  std::map<std::string, module_parts, std::less<>> modules;
  std::set<std::string, std::less<>> quantised;
  for (const auto& [published, part] : parts_) {
    const auto& [module, role, kind] = part.name;
    if (kind == part_kind::codes) {
      quantised.insert(module);
    }
    if (kind == part_kind::codes || kind == part_kind::beside) {
      modules[module].by_role.emplace(role, part.stored);
    }
  }
  for (const auto& [published, part] : parts_) {
    const auto& module = part.name.module;
    const bool is_whole = quantised.contains(module);
    result<void> joined;
    if (part.name.kind == part_kind::bias) {
      joined = take_bias(part.stored, is_whole);
    } else if (part.name.kind == part_kind::codes) {
      modules[module].module = module;
      joined = join_matrix(modules[module], published);
    } else if (part.name.kind == part_kind::beside && !is_whole) {
      joined = fail(errc::bad_model_file, "{}: tensor '{}' lacks its {}", path_.string(), published,
                    config_.quantised->codes_shown());
    }
    if (!joined) {
      return joined;
    }
  }
  parts_.clear();
  return {};
}

result<void> checkpoint::join_matrix(const module_parts& parts, const std::string& published) {
  auto matrix = config_.quantised->open(parts, files_);
  if (!matrix) {
    return fail(matrix.error().code, "{}: {}", path_.string(), matrix.error().message);
  }
  auto view = (*matrix)->view();
  return add_published(config_.quantised->published_of(parts.module), std::move(view),
                       {.published = published, .quantised = *std::move(matrix)});
}

// AutoGPTQ stores a zero bias with every matrix, even if the family has none.
result<void> checkpoint::take_bias(const stored_tensor& bias, bool is_of_quantised) {
  const auto& name = bias.view.name;
  const bool is_read = config_.has_attention_bias && gguf_tensor_name(name, config_.names) != name;
  if (is_read || !is_of_quantised) {
    return add_stored(bias);
  }
  std::vector<std::byte> raw(bias.view.size_bytes());
  if (auto r = files_[bias.file].read(bias.view, 0, raw); !r) {
    return r;
  }
  const bool is_zero = std::ranges::all_of(raw, [](std::byte b) { return b == std::byte{0}; });
  return is_zero ? result<void>() : add_stored(bias);
}

} // namespace baton::model
