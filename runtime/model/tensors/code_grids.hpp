// Points of several small numbers that the codes of the IQ1, IQ2 and IQ3 types are indexes of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace baton::model {

template <std::size_t Points, std::size_t Size>
using code_grid = std::array<std::array<std::int8_t, Size>, Points>;

extern const code_grid<256, 8> iq2_xxs_grid; // 8, 25, 43; signs are stored beside the index
extern const code_grid<512, 8> iq2_xs_grid;
extern const code_grid<1024, 8> iq2_s_grid;
extern const code_grid<256, 4> iq3_xxs_grid; // 4, 12, ... 52, 62
extern const code_grid<512, 4> iq3_s_grid;   // 1, 3, ... 15
extern const code_grid<2048, 8> iq1_grid;    // -1, 0, 1: of IQ1_S and IQ1_M

} // namespace baton::model
