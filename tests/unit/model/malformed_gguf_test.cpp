// Malformed files. Each must end in an error that names the fault. None may crash, read outside the
// file or need more memory than the file's size justifies.
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/model/slice.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <limits>

using namespace baton;
using model::gguf_file;
using model::tensor_type;
using testing::byte_buffer;
using testing::gguf_writer;

namespace {

constexpr std::uint64_t u64_max = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kind_u32 = 4;
constexpr std::uint32_t kind_string = 8;
constexpr std::uint32_t kind_array = 9;
constexpr std::uint32_t type_f32 = 0;
constexpr std::uint32_t type_q8_0 = 8;

struct gguf_lie {
  std::string_view what;
  std::vector<std::byte> bytes;
  errc code;
  std::string_view mentions; // a part of the message
};

byte_buffer head(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  return byte_buffer().put(std::uint32_t{0x46554747}).put(version).put(tensors).put(keys);
}

std::vector<std::byte> with_key(std::uint32_t kind, const byte_buffer& payload) {
  return gguf_writer().add_raw("k", kind, payload).bytes();
}

byte_buffer array_head(std::uint32_t kind, std::uint64_t count) {
  return byte_buffer().put(kind).put(count);
}

std::vector<std::byte> with_tensor(std::vector<std::uint64_t> shape, std::uint32_t type = type_f32,
                                   std::uint64_t offset = 0, std::size_t bytes = 64) {
  return gguf_writer()
      .add_tensor_bytes("t", type, std::move(shape), std::vector<std::byte>(bytes), offset)
      .bytes();
}

std::vector<std::byte> aligned_to(std::uint32_t alignment) {
  return gguf_writer().set_u32("general.alignment", alignment).bytes();
}

std::vector<gguf_lie> header_lies() {
  using enum errc;
  const auto nothing = byte_buffer().bytes();
  return {
      {"an empty file", nothing, bad_model_file, "the magic number"},
      {"another format", byte_buffer().put_bytes(std::as_bytes(std::span("PK\3\4....."))).bytes(),
       bad_model_file, "not a GGUF file"},
      {"version 1", head(0, 0, 1).bytes(), unsupported_model, "version 1"},
      {"version 4", head(0, 0, 4).bytes(), unsupported_model, "version 4"},
      {"version 0", head(0, 0, 0).bytes(), unsupported_model, "version 0"},
      {"big-endian", head(0, 0, 0x03000000).bytes(), unsupported_model, "big-endian"},
      {"2^63 tensors", head(1ULL << 63U, 0).bytes(), bad_model_file, "limits"},
      {"2^63 keys", head(0, 1ULL << 63U).bytes(), bad_model_file, "limits"},
      {"2^64 - 1 of both", head(u64_max, u64_max).bytes(), bad_model_file, "limits"},
      {"a tensor that is not there", head(1, 0).bytes(), bad_model_file, "a tensor name"},
      {"a key that is not there", head(0, 1).bytes(), bad_model_file, "a metadata key"},
      {"a key of 2^64 - 1 bytes", head(0, 1).put(u64_max).bytes(), bad_model_file, "limit"},
      {"a key that ends outside", head(0, 1).put(std::uint64_t{60000}).bytes(), bad_model_file,
       "ends inside a metadata key"},
      {"an empty key", head(0, 1).put_string("").put(kind_u32).put(1U).bytes(), bad_model_file,
       "empty"},
      {"a key with a control byte", head(0, 1).put_string("a\nb").put(kind_u32).put(1U).bytes(),
       bad_model_file, "printable"},
      {"a key twice",
       gguf_writer()
           .add_raw("k", kind_u32, byte_buffer().put(1U))
           .add_raw("k", kind_u32, byte_buffer().put(2U))
           .bytes(),
       bad_model_file, "key 'k' appears twice"},
  };
}

std::vector<gguf_lie> value_lies() {
  using enum errc;
  return {
      {"an unknown kind", with_key(13, byte_buffer().put(1U)), bad_model_file, "value kind 13"},
      {"a string of 2^64 - 1 bytes", with_key(kind_string, byte_buffer().put(u64_max)),
       bad_model_file, "'k'"},
      {"a string that ends outside",
       gguf_writer().add_raw("last", kind_string, byte_buffer().put(std::uint64_t{1000})).bytes(),
       bad_model_file, "ends inside the value of key 'last'"},
      {"an array of arrays", with_key(kind_array, array_head(kind_array, 1)), bad_model_file,
       "array of arrays"},
      {"an array of an unknown kind", with_key(kind_array, array_head(99, 1)), bad_model_file,
       "value kind 99"},
      {"an array of 2^62 numbers", with_key(kind_array, array_head(kind_u32, 1ULL << 62U)),
       bad_model_file, "limit"},
      {"an array longer than the file", with_key(kind_array, array_head(kind_u32, 1U << 20U)),
       bad_model_file, "the value of key 'k'"},
      {"more strings than the file", with_key(kind_array, array_head(kind_string, 1U << 20U)),
       bad_model_file, "the value of key 'k'"},
      {"alignment 0", aligned_to(0), bad_model_file, "general.alignment is 0"},
      {"alignment 48", aligned_to(48), bad_model_file, "general.alignment is 48"},
      {"alignment 4", aligned_to(4), bad_model_file, "general.alignment is 4"},
      {"alignment 2^31", aligned_to(1U << 31U), bad_model_file, "general.alignment"},
      {"alignment as text", gguf_writer().set_string("general.alignment", "32").bytes(),
       bad_model_file, "general.alignment"},
  };
}

std::vector<gguf_lie> tensor_lies() {
  using enum errc;
  const std::vector<std::byte> block(64);
  return {
      {"no dimension", with_tensor({}), bad_model_file, "'t' has 0 dimensions"},
      {"five dimensions", with_tensor({1, 1, 1, 1, 1}), bad_model_file, "5 dimensions"},
      {"a dimension of 0", with_tensor({4, 0}), bad_model_file, "size 0"},
      {"a product of 2^64", with_tensor({1ULL << 32U, 1ULL << 32U}), bad_model_file, "overflows"},
      {"bytes of 2^64", with_tensor({1ULL << 62U}), bad_model_file, "overflows"},
      {"bytes of 2^64 - 4", with_tensor({(1ULL << 62U) - 1}), bad_model_file, "beyond the end"},
      {"an offset that wraps", with_tensor({16}, type_f32, u64_max - 31), bad_model_file,
       "beyond the end"},
      {"an end that wraps", with_tensor({(1ULL << 62U) - 8}, type_f32, 64), bad_model_file,
       "beyond the end"},
      {"a crooked offset", with_tensor({4}, type_f32, 4), bad_model_file, "not a multiple of 32"},
      {"one row too many", with_tensor({16, 2}), bad_model_file, "beyond the end"},
      {"half a block", with_tensor({48}, type_q8_0), bad_model_file, "whole Q8_0 blocks"},
      {"an unknown type", with_tensor({16}, 4), unsupported_model, "unknown type 4"},
      {"a name of 65 bytes",
       gguf_writer().add_tensor_bytes(std::string(65, 'n'), type_f32, {16}, block).bytes(),
       bad_model_file, "65 bytes"},
      {"a name twice",
       gguf_writer()
           .add_tensor_bytes("t", type_f32, {16}, block)
           .add_tensor_bytes("t", type_f32, {16}, block)
           .bytes(),
       bad_model_file, "tensor 't' appears twice"},
      {"two tensors in one place",
       gguf_writer()
           .add_tensor_bytes("t", type_f32, {16}, block)
           .add_tensor_bytes("u", type_f32, {16}, block, 32)
           .bytes(),
       bad_model_file, "'t' and 'u' overlap"},
  };
}

// Small, with every part that a header can have.
std::vector<std::byte> small_model() {
  const std::vector<std::string> words = {"one", "two"};
  gguf_writer out;
  out.set_string("general.architecture", "llama")
      .set_u32("llama.block_count", 1)
      .set_strings("words", words)
      .set_bool("flag", true)
      .add_tensor("a.weight", tensor_type::f32, {4, 2}, std::vector<float>(8, 1.0F))
      .add_tensor("b.weight", tensor_type::q8_0, {32}, std::vector<float>(32, 1.0F));
  return out.bytes();
}

// Changes one byte of a file in place.
void patch(const std::filesystem::path& path, std::size_t at, std::byte value) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(value)).flush();
  REQUIRE(file.good());
}

// Reads everything that a file offers.
void read_all(const gguf_file& file) {
  std::size_t good = 0;
  for (const auto& key : file.keys()) {
    good += file.get_u32(key).has_value() + file.get_u64(key).has_value() +
            file.get_f32(key).has_value() + file.get_bool(key).has_value() +
            file.get_string(key).has_value() + file.get_strings(key).has_value() +
            file.get_i32s(key).has_value() + file.get_f32s(key).has_value();
  }
  for (const auto& tensor : file.tensors()) {
    if (model::tensor_type_traits(tensor.type).is_supported) {
      std::vector<float> row(tensor.columns());
      for (std::uint64_t i = 0; i < tensor.rows(); ++i) {
        model::dequantize_row(tensor.type, tensor.row(i).data(), row.data(), row.size());
      }
    }
  }
  if (const auto d = model::describe(file)) {
    good += model::stage_bytes(*d, file, model::whole(*d)).has_value();
  }
  CHECK(good < 1000); // keeps the compiler from removing the reads
}

} // namespace

TEST_CASE("a malformed file is rejected with the name of the fault") {
  const testing::scratch_directory scratch;
  for (const auto& lies : {header_lies(), value_lies(), tensor_lies()}) {
    for (const auto& gguf_lie : lies) {
      CAPTURE(gguf_lie.what);
      REQUIRE(testing::write_file(scratch / "a.gguf", gguf_lie.bytes));
      const auto file = gguf_file::open(scratch / "a.gguf");
      REQUIRE_FALSE(file);
      CHECK(file.error().code == gguf_lie.code);
      CHECK_MESSAGE(file.error().message.find(gguf_lie.mentions) != std::string::npos,
                    file.error().message);
      CHECK(file.error().message.find("a.gguf") != std::string::npos);
    }
  }
}

TEST_CASE("a file cut at any byte is rejected") {
  const testing::scratch_directory scratch;
  const auto bytes = small_model();
  REQUIRE(testing::write_file(scratch / "a.gguf", bytes));
  REQUIRE(gguf_file::open(scratch / "a.gguf"));
  for (std::size_t size = bytes.size(); size-- > 0;) {
    std::filesystem::resize_file(scratch / "a.gguf", size);
    const auto file = gguf_file::open(scratch / "a.gguf");
    REQUIRE_MESSAGE(!file, size);
    REQUIRE(file.error().code == errc::bad_model_file);
  }
}

TEST_CASE("a file with any one byte changed is rejected or read, never a crash") {
  const testing::scratch_directory scratch;
  const auto bytes = small_model();
  std::size_t refused = 0;
  REQUIRE(testing::write_file(scratch / "a.gguf", bytes));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const unsigned flip : {0x01U, 0x80U, 0xFFU}) {
      patch(scratch / "a.gguf", at, bytes[at] ^ static_cast<std::byte>(flip));
      if (const auto file = gguf_file::open(scratch / "a.gguf")) {
        read_all(*file);
      } else {
        ++refused;
      }
    }
    patch(scratch / "a.gguf", at, bytes[at]);
  }
  CHECK(refused > 300); // magic, counts, lengths, kinds, shapes and offsets
}

TEST_CASE("a whole model with a damaged header is rejected or described, never a crash") {
  const testing::scratch_directory scratch;
  const auto writer =
      testing::tiny_llama_writer({.layers = 1, .hidden = 32, .heads = 2, .ffn = 32});
  REQUIRE(writer);
  const auto bytes = writer->bytes();
  REQUIRE(testing::write_file(scratch / "a.gguf", bytes));
  for (std::size_t at = 0; at < 1200; ++at) { // the sizes of the model and some tokens
    patch(scratch / "a.gguf", at, bytes[at] ^ std::byte{0x81});
    if (const auto file = gguf_file::open(scratch / "a.gguf")) {
      read_all(*file);
    }
    patch(scratch / "a.gguf", at, bytes[at]);
  }
}
