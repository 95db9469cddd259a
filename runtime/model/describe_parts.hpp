// The steps of describe(). Each reads some keys of a file into a description. Private to
// describe(): each step expects what the earlier ones have read.
#pragma once

#include "runtime/model/family.hpp"

#include <cmath>

namespace baton::model {

// Sanity limits: larger sizes indicate a damaged file. The largest published models have 126
// layers, a hidden size of 16384, a vocabulary of 256 k and 512 experts. The limits also keep
// products of three sizes within 64 bits.
inline constexpr std::uint32_t layer_count_max = 1024;
inline constexpr std::uint32_t width_max = 1U << 20U;
inline constexpr std::uint32_t expert_count_max = 1024;
inline constexpr std::uint32_t vocab_size_max = 1U << 24U;
inline constexpr std::uint32_t context_length_max = 1U << 28U;

inline constexpr std::uint32_t convolution_rows_max = 16;
inline constexpr std::uint32_t recurrent_head_max = 1024;

// Reads a size in [1, max] from "<architecture>.<key>"; keeps the first error.
class size_reader {
public:
  size_reader(const model_file& file, std::string prefix)
      : file_(file), prefix_(std::move(prefix)) {}

  void read(std::uint32_t& target, std::string_view key, std::uint32_t max,
            std::optional<std::uint32_t> otherwise = {}) {
    const auto name = fmt::format("{}.{}", prefix_, key);
    const auto value = otherwise ? file_.get_u32(name, *otherwise) : file_.get_u32(name);
    if (!value) {
      keep(value.error());
    } else if (*value == 0 || *value > max) {
      keep(fail(errc::bad_model_file, "metadata key '{}' is {}, not in [1, {}]",
                file_.original_name(name), *value, max));
    } else {
      target = *value;
    }
  }
  void read(float& target, std::string_view key, std::optional<float> otherwise = {}) {
    const auto name = fmt::format("{}.{}", prefix_, key);
    const auto value = otherwise ? file_.get_f32(name, *otherwise) : file_.get_f32(name);
    if (!value) {
      keep(value.error());
    } else if (!std::isfinite(*value) || *value <= 0.0F) {
      keep(fail(errc::bad_model_file, "metadata key '{}' is {}, not positive",
                file_.original_name(name), *value));
    } else {
      target = *value;
    }
  }
  const std::optional<error>& first_error() const noexcept { return error_; }

private:
  void keep(error e) {
    if (!error_) {
      error_ = std::move(e);
    }
  }
  const model_file& file_;
  std::string prefix_;
  std::optional<error> error_;
};

// description.cpp calls these in this order.
result<void> read_experts(const model_file& file, const family& kind, description& d);
result<void> read_rope(const model_file& file, const family& kind, description& d);
result<void> read_attention(const model_file& file, const family& kind, description& d);
result<void> read_recurrence(const model_file& file, const family& kind, description& d);
result<void> read_layers(const model_file& file, const family& kind, description& d);
result<void> read_layer_sizes(const model_file& file, const family& kind, description& d);
// The parts of latent attention: read_sizes() and read_attention() call them.
result<void> read_latent(const model_file& file, description& d);
result<void> scale_latent_attention(const model_file& file, description& d);
// A number for each layer, or one for all. Errors: bad_model_file (too few, or one out of range).
result<std::vector<std::uint32_t>> read_sizes_of_layers(const model_file& file,
                                                        const description& d, std::string_view key,
                                                        std::optional<std::uint32_t> otherwise);

} // namespace baton::model
