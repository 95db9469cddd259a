// Goal: packing loses nothing. Method: every type, read back by rows, against the scalar decoder.
#include "runtime/cpu/panel.hpp"
#include "runtime/cpu/weight_block.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/unit/cpu/isas.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::testing;

TEST_CASE("a row read back from panels has the bits of the scalar decoder") {
  constexpr std::size_t columns = 512, rows = 45; // one full panel and a part
  for (const auto& traits : model::tensor_type_table()) {
    const auto format = cpu::panel_format_of(traits.type);
    CHECK(format.has_value() == traits.is_supported);
    if (!format)
      continue;
    CAPTURE(traits.name);
    const auto raw = quantize(traits.type, random_floats(rows * columns, 7));
    const std::size_t row_bytes = raw.size() / rows;
    cpu::packed_matrix matrix{*format, rows, columns, nullptr};
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

TEST_CASE("the panel layouts have the sizes that the kernels were measured with") {
  const auto bytes = [](cpu::panel_format f) { return cpu::layout_of(f).record_bytes(); };
  CHECK(bytes(cpu::panel_format::nibble_zero_point) == 576);
  CHECK(bytes(cpu::panel_format::nibble_min) == 640);
  CHECK(bytes(cpu::panel_format::byte) == 1088);
  CHECK(bytes(cpu::panel_format::f16) == 2048);
  for (std::size_t f = 0; f < cpu::panel_format_count; ++f)
    CHECK(bytes(static_cast<cpu::panel_format>(f)) % 64 == 0);
}
