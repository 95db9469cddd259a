// A model directory in the format of Hugging Face's libraries: config.json and safetensors, in one
// file or in several with model.safetensors.index.json. Its tokenizer is read by runtime/text.
#pragma once

#include "runtime/model/checkpoint/checkpoint_config.hpp"
#include "runtime/model/checkpoint/formats/quantised_format.hpp"
#include "runtime/model/model_file.hpp"
#include "runtime/model/safetensors/safetensors.hpp"

#include <map>
#include <optional>

namespace baton::model {

class checkpoint final : public model_file {
public:
  // Opens the files and reads their headers. Reads no weights but the norms whose values differ
  // from GGUF's, and the groups and zero points of quantised matrices. Errors: io_failed,
  // bad_model_file, unsupported_model; they name the file, and the field or tensor as published.
  static result<checkpoint> open(const std::filesystem::path& directory);

  const std::filesystem::path& path() const noexcept override { return path_; }
  std::uint64_t size_bytes() const noexcept override;
  std::string_view form() const noexcept override { return "safetensors"; }
  std::uint64_t fingerprint() const noexcept override { return fingerprint_; }
  bool rotates_halves() const noexcept override { return config_.rotates_halves; }
  std::string original_name(std::string_view name) const override;

  using model_file::get_bool;
  using model_file::get_f32;
  using model_file::get_string;
  using model_file::get_u32;
  using model_file::get_u64;
  bool has(std::string_view key) const noexcept override;
  std::vector<std::string> keys() const override;
  std::optional<std::uint64_t> array_size(std::string_view key) const noexcept override;
  result<std::uint32_t> get_u32(std::string_view key) const override;
  result<std::uint64_t> get_u64(std::string_view key) const override;
  result<std::vector<std::uint32_t>> get_u32s(std::string_view key) const override;
  result<float> get_f32(std::string_view key) const override;
  result<bool> get_bool(std::string_view key) const override;
  result<std::string> get_string(std::string_view key) const override;

  std::span<const tensor_view> tensors() const noexcept override { return tensors_; }
  std::optional<tensor_view> find(std::string_view name) const override;
  result<void> copy_rows(std::string_view name, std::uint64_t first, std::uint64_t count,
                         std::span<std::byte> out) const override;

private:
  struct expert_matrix;
  // Gate or up of each expert, or of an ffn. It is every second half of `own` rows of a tensor, or
  // every second of its units, which are rows or elements. A row of ours has `units` of them.
  struct rows_part {
    tensor_view stored;
    std::uint64_t own = 0, first = 0;
    std::uint64_t units = 0, unit_bytes = 0; // 0: halves
  };
  // The location of a tensor's bytes: in one file, in several tensors of files, or in memory (made
  // by this class).
  struct source {
    std::size_t tensor = 0; // of tensors_
    std::optional<std::size_t> file = {};
    std::vector<float> made = {};
    std::string published;                   // its name in the file
    matrix_pointer quantised = {};           // null: stored as it is
    std::vector<expert_matrix> experts = {}; // their rows are consecutive
    std::optional<rows_part> part = {};
  };
  // The matrix of one expert, a part of the tensor of all experts.
  struct expert_matrix {
    tensor_view view;
    source from;
  };

  checkpoint() = default;
  result<void> read_config();
  result<void> open_files();
  result<void> open_indexed();
  result<void> add_file(safetensors_file file);
  result<void> add_tied_head();
  // Whether the embedding has the same bytes. Errors: io_failed.
  result<bool> repeats_embedding(const stored_tensor& head) const;
  result<void> add_part(const stored_tensor& part, module_part name);
  result<void> add_stored(const stored_tensor& stored);
  result<void> add_joint(const tensor_view& view, const source& from, const joint_names& names);
  // Adds a tensor whose full name in the files would be `published`.
  result<void> add_published(const std::string& published, tensor_view view, source from);
  result<void> add_expert(std::uint64_t number, tensor_view view, source from);
  result<void> add_experts(const std::string& name, source from);
  result<void> add_made(std::string name, std::vector<float> values);
  result<void> add(tensor_view view, source from);
  // Whether an opened file holds a tensor. Requires: called before join_parts().
  bool contains_tensor(const std::string& published, const std::string& file) const;
  // Null if no opened file has it. Requires: called before join_experts().
  const source* find_expert(const expert_name& name) const;
  result<void> join_parts();
  result<void> join_experts();
  result<void> join_matrix(const module_parts& parts, const std::string& published);
  result<void> take_bias(const stored_tensor& bias, bool is_of_quantised);
  error duplicate(const source& from, const source& by) const;
  result<void> check_head();
  result<void> add_one_to_norms();
  result<void> take_fingerprint();
  // Requires: the rows exist in the tensor.
  result<void> read_rows(const tensor_view& tensor, const source& from, std::uint64_t first,
                         std::uint64_t count, std::span<std::byte> out) const;
  result<void> read_part_rows(const source& from, std::uint64_t first,
                              std::span<std::byte> out) const;
  result<void> read_alternate_units(const source& from, std::uint64_t first,
                                    std::span<std::byte> out) const;
  // Rows [first, first + count) of the tensor that a part is of.
  result<void> read_whole_rows(const source& from, std::uint64_t first,
                               std::span<std::byte> out) const;
  result<void> read_expert_rows(const source& from, std::uint64_t first,
                                std::span<std::byte> out) const;
  // Requires: the key is present or was requested as required.
  error wrong_kind(std::string_view key, std::string_view wanted) const;

  std::filesystem::path path_;
  checkpoint_config config_;
  std::uint64_t fingerprint_ = 0;
  std::vector<safetensors_file> files_;
  std::vector<tensor_view> tensors_;
  std::map<std::string, source, std::less<>> sources_; // by GGUF's name
  std::optional<stored_tensor> tied_head_; // the head that config.json ties to the embedding
  // Tensors that a quantised module may consist of, by published name.
  struct stored_part {
    stored_tensor stored;
    module_part name;
  };
  std::map<std::string, stored_part, std::less<>> parts_;
  // Matrices of experts, by the GGUF name of the joint tensor and the expert's number.
  std::map<std::string, std::map<std::uint64_t, expert_matrix>, std::less<>> experts_;
};

} // namespace baton::model
