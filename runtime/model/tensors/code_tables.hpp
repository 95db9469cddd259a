// The numbers that four-bit codes stand for, in types whose steps are uneven. Plain arrays: kernels
// for several instruction sets share this header.
#pragma once

#include <cstdint>

namespace baton::model {

// IQ4_NL and IQ4_XS: non-linear steps, as the format defines them (kvalues_iq4nl in ggml).
inline constexpr std::int8_t iq4_numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};
// MXFP4: twice the values of E2M1 (OCP Microscaling Formats 1.0): a sign, two bits of exponent and
// one of mantissa. Zero has no sign here, as in ggml.
inline constexpr std::int8_t e2m1_numbers[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                 0, -1, -2, -3, -4, -6, -8, -12};

// The numbers of the points of code_grids.hpp with their signs. IQ1 has eighths; one table serves
// it and IQ2.
inline constexpr std::int8_t iq1_iq2_numbers[16] = {1,  7,  9,  8,  25,  43,  0, 0,
                                                    -1, -7, -9, -8, -25, -43, 0, 0};
inline constexpr std::int8_t iq3_s_numbers[16] = {1,  3,  5,  7,  9,  11,  13,  15,
                                                  -1, -3, -5, -7, -9, -11, -13, -15};
inline constexpr std::int8_t iq3_xxs_numbers[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                                    -4, -12, -20, -28, -36, -44, -52, -62};

} // namespace baton::model
