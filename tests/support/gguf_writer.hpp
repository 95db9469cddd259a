// Writes GGUF files for tests: any metadata, tensors quantised from floats by a plain reference
// encoder, and raw bytes for malformed files. Also a complete tiny llama model that the whole
// product can serve. Test code only; nothing of the product includes it.
#pragma once

#include "runtime/model/tensors/tensor.hpp"
#include "schema/result.hpp"

#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::testing {

// Little-endian bytes in order.
class byte_buffer {
public:
  template <class T>
  byte_buffer& put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
    return *this;
  }
  byte_buffer& put_bytes(std::span<const std::byte> bytes);
  byte_buffer& put_string(std::string_view text); // u64 length, then the bytes
  byte_buffer& pad_to(std::size_t alignment);
  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }

private:
  std::vector<std::byte> bytes_;
};

// Encodes one row, round to nearest; the K types choose scales by plain minima and maxima.
// Requires: dequantize_row decodes the type; values.size() is a whole number of blocks.
std::vector<std::byte> quantize(model::tensor_type type, std::span<const float> values);

// Blocks of random bytes with scales of about 0.05, so that every code and scale occurs. Elements
// of float types are quantised from random values. Requires: as for quantize().
std::vector<std::byte> random_blocks(model::tensor_type type, std::size_t elements,
                                     std::uint32_t seed);

class gguf_writer {
public:
  explicit gguf_writer(std::uint32_t version = 3) : version_(version) {}

  gguf_writer& set_u32(std::string_view key, std::uint32_t value);
  gguf_writer& set_u64(std::string_view key, std::uint64_t value);
  gguf_writer& set_i32(std::string_view key, std::int32_t value);
  gguf_writer& set_f32(std::string_view key, float value);
  gguf_writer& set_bool(std::string_view key, bool value);
  gguf_writer& set_string(std::string_view key, std::string_view value);
  gguf_writer& set_strings(std::string_view key, std::span<const std::string> values);
  gguf_writer& set_i32s(std::string_view key, std::span<const std::int32_t> values);
  gguf_writer& set_f32s(std::string_view key, std::span<const float> values);
  // Any value kind with any payload. Setters replace an existing key; add_raw never does.
  gguf_writer& set_raw(std::string_view key, std::uint32_t kind, const byte_buffer& payload);
  gguf_writer& add_raw(std::string_view key, std::uint32_t kind, const byte_buffer& payload);
  gguf_writer& erase(std::string_view key);
  // Also writes general.alignment.
  gguf_writer& alignment(std::uint32_t bytes);

  // `values` in row-major order, shape[0] contiguous.
  gguf_writer& add_tensor(std::string_view name, model::tensor_type type,
                          std::vector<std::uint64_t> shape, std::span<const float> values);
  // Writes the arguments unchecked; `offset` replaces the next free one.
  gguf_writer& add_tensor_bytes(std::string_view name, std::uint32_t type_number,
                                std::vector<std::uint64_t> shape, std::vector<std::byte> bytes,
                                std::optional<std::uint64_t> offset = {});
  gguf_writer& erase_tensor(std::string_view name);

  // The model in several files, as llama-gguf-split writes them. Tensors in their order, as many in
  // each; the first has all keys. Requires: 2 <= count <= number of tensors.
  std::vector<gguf_writer> split(std::uint32_t count) const;

  std::vector<std::byte> bytes() const;
  // Errors: io_failed.
  result<void> write(const std::filesystem::path& path) const;

private:
  struct entry {
    std::string key;
    std::uint32_t kind;
    std::vector<std::byte> payload;
  };
  struct tensor {
    std::string name;
    std::uint32_t type;
    std::vector<std::uint64_t> shape;
    std::vector<std::byte> bytes;
    std::optional<std::uint64_t> offset;
  };
  std::uint32_t version_;
  std::uint32_t alignment_ = 32;
  std::vector<entry> entries_;
  std::vector<tensor> tensors_;
};

// Errors: io_failed.
result<void> write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

// A llama model of random weights with a byte-level BPE vocabulary like SmolLM2's and a ChatML
// template. Three control tokens: 0 <|endoftext|>, 1 <|im_start|>, 2 <|im_end|>. Then the 256 byte
// tokens (3 + b is the b-th in the order of GPT-2's table), a few merges, and unused tokens up to
// `vocab`.
struct tiny_llama {
  std::uint32_t layers = 2;
  std::uint32_t hidden = 64; // a multiple of the type's block: 32, for K types 256
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t ffn = 128;
  std::uint32_t experts = 0; // number of experts, each of width `ffn`; 0: dense
  std::uint32_t experts_used = 0;
  std::uint32_t vocab = 320;
  std::uint32_t context = 2048;
  model::tensor_type type = model::tensor_type::f32;
  // For token_embd and output; by default `type`.
  std::optional<model::tensor_type> embedding_type = std::nullopt;
  bool has_tied_embeddings = false;
  // Zero head rows for control and unused tokens, so that a greedy answer does not end by itself.
  // Only without tied embeddings.
  bool never_ends = true;
  std::uint64_t seed = 1;
  std::string name = "tiny";
};

// The smallest vocabulary with all byte tokens, merges and control tokens.
std::uint32_t tiny_vocab_min();
// The writer, for tests that change a part before writing. Errors: invalid_value (inconsistent
// sizes).
result<gguf_writer> tiny_llama_writer(const tiny_llama& options);
// Errors: invalid_value, io_failed.
result<void> write_tiny_llama(const std::filesystem::path& path, const tiny_llama& options = {});

} // namespace baton::testing
