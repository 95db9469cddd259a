// The two formats of compressed-tensors with whole numbers: packed in words, and plain bytes
// (compressed_tensors.hpp has the layouts).
#pragma once

#include "runtime/model/checkpoint/formats/code_matrix.hpp"

namespace baton::model {

struct packed_config {
  std::uint32_t bits = 4;
  std::uint64_t group_size = 0; // 0: of the files
  bool is_symmetric = true;
};

// pack-quantized
class packed_format final : public quantised_format {
public:
  explicit packed_format(const packed_config& config) : config_(config) {}

  std::string label() const override;
  std::string settings() const override;
  std::string_view codes_shown() const noexcept override { return "weight_packed"; }
  std::optional<module_part> part_of(const tensor_view& stored) const override;
  result<matrix_pointer> open(const module_parts& parts, file_span files) const override;

private:
  packed_config config_;
};

// int-quantized
class int8_format final : public quantised_format {
public:
  std::string label() const override { return "compressed-tensors int 8-bit"; }
  std::string_view codes_shown() const noexcept override { return "weight of I8"; }
  std::optional<module_part> part_of(const tensor_view& stored) const override;
  result<matrix_pointer> open(const module_parts& parts, file_span files) const override;
};

} // namespace baton::model
