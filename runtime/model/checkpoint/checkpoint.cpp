#include "runtime/model/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <utility>

namespace baton::model {

result<checkpoint> checkpoint::open(const std::filesystem::path& directory) {
  checkpoint opened;
  opened.path_ = directory;
  using step = result<void> (checkpoint::*)();
  for (const step each :
       {&checkpoint::read_config, &checkpoint::open_files, &checkpoint::add_tied_head,
        &checkpoint::join_parts, &checkpoint::join_experts, &checkpoint::check_head,
        &checkpoint::add_one_to_norms, &checkpoint::take_fingerprint}) {
    if (auto r = (opened.*each)(); !r) {
      return r.error();
    }
  }
  return opened;
}

result<void> checkpoint::read_config() {
  const auto config = read_json_object(path_ / "config.json");
  if (!config) {
    return config.error();
  }
  auto read = read_checkpoint_config(*config);
  if (!read) {
    return fail(read.error().code, "{}: {}", path_.string(), read.error().message);
  }
  config_ = *std::move(read);
  auto named = path_.has_filename() ? path_ : path_.parent_path();
  config_.values["general.architecture"] = config_.architecture;
  config_.values["general.name"] = named.filename().string();
  return {};
}

// A model with a missing head would silently run with the embedding as its head.
result<void> checkpoint::check_head() {
  if (!config_.has_tied_embeddings && !sources_.contains("output.weight")) {
    return fail(errc::bad_model_file,
                "{}: tensor '{}' is missing, and 'tie_word_embeddings' is not true in config.json",
                path_.string(), original_name("output.weight"));
  }
  if (config_.quantised) {
    config_.values["general.file_type"] = config_.quantised->label();
  } else if (const auto embedding = find("token_embd.weight")) {        // represents all matrices
    constexpr std::uint32_t gguf_f32 = 0, gguf_f16 = 1, gguf_bf16 = 32; // as in general.file_type
    config_.values["general.file_type"] = embedding->type == tensor_type::f32   ? gguf_f32
                                          : embedding->type == tensor_type::f16 ? gguf_f16
                                                                                : gguf_bf16;
  }
  return {};
}

result<void> checkpoint::add_one_to_norms() {
  if (!config_.adds_one_to_norms) {
    return {};
  }
  for (auto& tensor : tensors_) {
    auto& from = sources_.find(tensor.name)->second;
    if (!tensor.name.ends_with("norm.weight") || tensor.name.ends_with("ssm_norm.weight") ||
        !from.file) {
      continue;
    }
    std::vector<std::byte> raw(tensor.size_bytes());
    if (auto r = files_[*from.file].read(tensor, 0, raw); !r) {
      return r;
    }
    from.made.resize(tensor.elements());
    dequantize_row(tensor.type, raw.data(), from.made.data(), from.made.size());
    for (auto& weight : from.made) {
      weight += 1.0F;
    }
    tensor.type = tensor_type::f32;
    tensor.bytes = std::as_bytes(std::span<const float>(from.made));
  }
  return {};
}

result<void> checkpoint::take_fingerprint() {
  // Hashes values, not the text of config.json: the order of its fields is irrelevant.
  for (const auto& [key, value] : config_.values) {
    if (key == "general.name") { // the directory's name, which may differ between machines
      continue;
    }
    const auto line = key + value.dump(-1, ' ', true, json::error_handler_t::replace);
    fingerprint_ = mixed(fingerprint_, std::as_bytes(std::span(line)));
  }
  for (const auto& [name, values] : config_.made) {
    fingerprint_ = mixed(fingerprint_, std::as_bytes(std::span<const float>(values)));
  }
  if (config_.quantised) {
    const auto settings = config_.quantised->settings();
    fingerprint_ = mixed(fingerprint_, std::as_bytes(std::span(settings)));
  }
  for (const auto& file : files_) {
    const auto hash = file.mixed_into(fingerprint_);
    if (!hash) {
      return fail(hash.error().code, "{}: {}", file.path().string(), hash.error().message);
    }
    fingerprint_ = *hash;
  }
  return {};
}

std::uint64_t checkpoint::size_bytes() const noexcept {
  std::uint64_t total = 0;
  for (const auto& file : files_) {
    total += file.size_bytes();
  }
  return total;
}

std::string checkpoint::original_name(std::string_view name) const {
  if (const auto found = config_.fields.find(name); found != config_.fields.end()) {
    return found->second;
  }
  if (const auto found = sources_.find(name); found != sources_.end()) {
    return found->second.published;
  }
  return published_tensor_name(name, config_.names);
}

bool checkpoint::has(std::string_view key) const noexcept {
  return config_.values.find(key) != config_.values.end();
}

std::vector<std::string> checkpoint::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : config_.values) {
    names.push_back(key);
  }
  return names;
}

std::optional<std::uint64_t> checkpoint::array_size(std::string_view key) const noexcept {
  const auto found = config_.values.find(key);
  return found != config_.values.end() && found->second.is_array()
             ? std::optional<std::uint64_t>(found->second.size())
             : std::nullopt;
}

error checkpoint::wrong_kind(std::string_view key, std::string_view wanted) const {
  const auto found = config_.values.find(key);
  if (found == config_.values.end()) {
    return fail(errc::bad_model_file, "config.json: '{}' is missing", original_name(key));
  }
  return fail(errc::bad_model_file, "config.json: '{}' is a {}, not {}", original_name(key),
              found->second.type_name(), wanted);
}

result<std::uint64_t> checkpoint::get_u64(std::string_view key) const {
  const auto found = config_.values.find(key);
  if (found == config_.values.end() || !found->second.is_number_unsigned()) {
    return wrong_kind(key, "an integer that fits 64 unsigned bits");
  }
  return found->second.get<std::uint64_t>();
}

result<std::uint32_t> checkpoint::get_u32(std::string_view key) const {
  const auto value = get_u64(key);
  if (!value) {
    return value.error();
  }
  if (!std::in_range<std::uint32_t>(*value)) {
    return wrong_kind(key, "an integer that fits 32 unsigned bits");
  }
  return static_cast<std::uint32_t>(*value);
}

result<std::vector<std::uint32_t>> checkpoint::get_u32s(std::string_view key) const {
  const auto found = config_.values.find(key);
  if (found == config_.values.end() || !found->second.is_array()) {
    return wrong_kind(key, "a list");
  }
  std::vector<std::uint32_t> values;
  for (const auto& value : found->second) {
    if (value.is_boolean()) {
      values.push_back(value.get<bool>() ? 1 : 0);
    } else if (value.is_number_unsigned() &&
               std::in_range<std::uint32_t>(value.get<std::uint64_t>())) {
      values.push_back(value.get<std::uint32_t>());
    } else {
      return wrong_kind(key, "a list of small numbers");
    }
  }
  return values;
}

// JSON has one kind of number, so 10000 is a float here, too.
result<float> checkpoint::get_f32(std::string_view key) const {
  const auto found = config_.values.find(key);
  if (found == config_.values.end() || !found->second.is_number()) {
    return wrong_kind(key, "a number");
  }
  return found->second.get<float>();
}

result<bool> checkpoint::get_bool(std::string_view key) const {
  const auto found = config_.values.find(key);
  if (found == config_.values.end() || !found->second.is_boolean()) {
    return wrong_kind(key, "true or false");
  }
  return found->second.get<bool>();
}

result<std::string> checkpoint::get_string(std::string_view key) const {
  const auto found = config_.values.find(key);
  if (found == config_.values.end() || !found->second.is_string()) {
    return wrong_kind(key, "a string");
  }
  return found->second.get<std::string>();
}

std::optional<tensor_view> checkpoint::find(std::string_view name) const {
  const auto found = sources_.find(name);
  return found != sources_.end() ? std::optional(tensors_[found->second.tensor]) : std::nullopt;
}

result<void> checkpoint::copy_rows(std::string_view name, std::uint64_t first, std::uint64_t count,
                                   std::span<std::byte> out) const {
  const auto found = sources_.find(name);
  if (found == sources_.end()) {
    return fail(errc::not_found, "{}: no tensor '{}'", path_.string(), original_name(name));
  }
  const auto& from = found->second;
  const auto& tensor = tensors_[from.tensor];
  if (auto r = check_rows(tensor, first, count, out.size()); !r) {
    return r;
  }
  return read_rows(tensor, from, first, count, out);
}

result<void> checkpoint::read_rows(const tensor_view& tensor, const source& from,
                                   std::uint64_t first, std::uint64_t count,
                                   std::span<std::byte> out) const {
  if (!from.experts.empty()) {
    return read_expert_rows(from, first, out);
  }
  if (from.part) {
    return read_part_rows(from, first, out);
  }
  if (from.quantised) {
    return from.quantised->copy_rows(files_, first, count, out);
  }
  const auto offset = first * tensor.row_bytes();
  if (from.made.empty()) {
    return files_[*from.file].read(tensor, offset, out);
  }
  std::ranges::copy(std::as_bytes(std::span(from.made)).subspan(offset, out.size()), out.begin());
  return {};
}

} // namespace baton::model
