// Goal: packing loses nothing. Method: reads every type back by rows, against the scalar decoder;
// GPTQ against its formula over the stored tensors.
#include "runtime/cpu/panels/panel.hpp"
#include "runtime/cpu/panels/weight_block.hpp"
#include "runtime/model/checkpoint/checkpoint.hpp"
#include "runtime/model/open/open_model.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/unit/cpu/isas.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

using namespace baton;
using namespace baton::testing;

namespace {

// A model's matrix, packed and read back.
std::vector<float> through_panels(const model::model_file& file, const model::tensor_view& tensor) {
  const std::size_t rows = tensor.rows(), columns = tensor.columns(),
                    row_bytes = tensor.row_bytes();
  cpu::packed_matrix matrix{*cpu::panel_format_of(tensor.type), rows, columns, nullptr,
                            cpu::code_table_of(tensor.type)};
  std::vector<std::byte> memory(matrix.size_bytes()), raw;
  matrix.panels = memory.data();
  for (std::size_t first = 0; first < rows; first += cpu::panel_rows) {
    const auto count = std::min(cpu::panel_rows, rows - first);
    raw.resize(count * row_bytes);
    REQUIRE(file.copy_rows(tensor.name, first, count, raw));
    cpu::pack_panel(tensor.type, raw.data(), count, row_bytes, columns,
                    memory.data() + first / cpu::panel_rows * matrix.panel_bytes());
  }
  std::vector<float> values(rows * columns);
  for (std::size_t r = 0; r < rows; ++r)
    cpu::unpack_row(matrix, r, values.data() + r * columns);
  return values;
}

// Element by element: scale * (code - zero), [out, in].
std::vector<float> gptq_weights(const model::safetensors_file& file, const std::string& module,
                                std::uint32_t added_to_zeros) {
  const auto stored = [&](const std::string& part) -> const model::tensor_view& {
    const auto found =
        std::ranges::find(file.tensors(), module + "." + part, &model::tensor_view::name);
    REQUIRE(found != file.tensors().end());
    return *found;
  };
  const auto word = [](const model::tensor_view& tensor, std::size_t index) {
    std::uint32_t value = 0;
    std::memcpy(&value, tensor.bytes.data() + index * sizeof(value), sizeof(value));
    return value;
  };
  const auto &codes = stored("qweight"), &zeros = stored("qzeros"), &scales = stored("scales");
  const std::size_t in = codes.rows() * 8, out = codes.columns(), group = in / scales.rows();
  std::vector<float> weights(out * in);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t k = 0; k < in; ++k) {
      const std::size_t at = k / group * out + o;
      const auto code = word(codes, k / 8 * out + o) >> (4 * (k % 8)) & 15U;
      const auto zero = (word(zeros, at / 8) + added_to_zeros) >> (4 * (o % 8)) & 15U;
      std::uint16_t scale = 0;
      std::memcpy(&scale, scales.bytes.data() + at * sizeof(scale), sizeof(scale));
      weights[o * in + k] = model::f16_to_f32(scale) *
                            static_cast<float>(static_cast<int>(code) - static_cast<int>(zero));
    }
  return weights;
}

} // namespace

TEST_CASE("panels hold the weights of a GPTQ directory to the last bit") {
  const auto families = std::filesystem::path(BATON_SOURCE_DIR) / "tests/data/model/families";
  for (const auto& [name, added] :
       {std::pair{"gptq_llama", 0x11111111U}, {"gptq_qwen2", 0U}, {"gptq_rows", 0x11111111U}}) {
    CAPTURE(name);
    const auto directory = model::open_model(families / name);
    const auto file = model::safetensors_file::open(families / name / "model.safetensors");
    REQUIRE(directory);
    REQUIRE(file);
    for (const auto& [module, tensor] : {std::pair{"self_attn.k_proj", "blk.0.attn_k.weight"},
                                         {"self_attn.q_proj", "blk.0.attn_q.weight"},
                                         {"mlp.down_proj", "blk.0.ffn_down.weight"}}) {
      CAPTURE(module);
      const auto view = (*directory)->find(tensor);
      REQUIRE(view);
      const auto found = through_panels(**directory, *view);
      const auto expected = gptq_weights(*file, std::string("model.layers.0.") + module, added);
      CHECK(first_difference(expected, found) == -1);
    }
  }
}

TEST_CASE("a row read back from panels has the bits of the scalar decoder") {
  constexpr std::size_t columns = 512, rows = 45; // one full panel and a part
  for (const auto& traits : model::tensor_type_table()) {
    const auto format = cpu::panel_format_of(traits.type);
    CHECK(format.has_value() == traits.is_supported);
    if (!format)
      continue;
    CAPTURE(traits.name);
    const auto raw = random_blocks(traits.type, rows * columns, 7);
    const std::size_t row_bytes = raw.size() / rows;
    cpu::packed_matrix matrix{*format, rows, columns, nullptr, cpu::code_table_of(traits.type)};
    std::vector<std::byte> memory(matrix.size_bytes());
    matrix.panels = memory.data();
    cpu::pack_panel(traits.type, raw.data(), 32, row_bytes, columns, memory.data());
    cpu::pack_panel(traits.type, raw.data() + 32 * row_bytes, rows - 32, row_bytes, columns,
                    memory.data() + matrix.panel_bytes());
    std::vector<float> expected(columns), found(columns);
    for (std::size_t r = 0; r < rows; ++r) {
      model::dequantize_row(traits.type, raw.data() + r * row_bytes, expected.data(), columns);
      cpu::unpack_row(matrix, r, found.data());
      CAPTURE(r);
      CHECK(first_difference(expected, found) == -1);
    }
  }
}

TEST_CASE("packed weights grow as the memory of a matrix does") {
  for (const auto& traits : model::tensor_type_table()) {
    const auto format = cpu::panel_format_of(traits.type);
    if (!format)
      continue;
    CAPTURE(traits.name);
    const cpu::packed_matrix matrix{*format, 64, 512, nullptr};
    const double file = 64.0 * 512 / traits.block_elements * traits.block_bytes;
    CHECK(cpu::packed_growth(traits.type) ==
          doctest::Approx(static_cast<double>(matrix.size_bytes()) / file));
  }
  CHECK(cpu::packed_growth(model::tensor_type::q4_1) == 1.0);
  CHECK(cpu::packed_growth(model::tensor_type::iq4_nl) == 1.0);
  CHECK(cpu::packed_growth(model::tensor_type::q2_k) == doctest::Approx(8 / 2.625));
}

TEST_CASE("the panel layouts have the sizes that the kernels were measured with") {
  const auto bytes = [](cpu::panel_format f) { return cpu::layout_of(f).record_bytes(); };
  CHECK(bytes(cpu::panel_format::nibble_zero_point) == 576);
  CHECK(bytes(cpu::panel_format::nibble_min) == 640);
  CHECK(bytes(cpu::panel_format::byte) == 1088);
  CHECK(bytes(cpu::panel_format::f16) == 2048);
  CHECK(bytes(cpu::panel_format::nibble_two_scales) == 768);
  CHECK(bytes(cpu::panel_format::nibble_two_mins) == 1024);
  CHECK(bytes(cpu::panel_format::table) == 576);
  CHECK(bytes(cpu::panel_format::table_f32) == 640);
  CHECK(bytes(cpu::panel_format::table_two_scales) == 768);
  for (std::size_t f = 0; f < cpu::panel_format_count; ++f)
    CHECK(bytes(static_cast<cpu::panel_format>(f)) % 64 == 0);
}
