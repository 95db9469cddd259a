// The settings, slices of a group and features of a model that the CPU engine accepts.
#pragma once

#include "runtime/cpu/forward/engine_cpu.hpp"

namespace baton::cpu {

// Errors: invalid_value (names the field).
result<void> check_settings(const config& c);
// The slices of all ranks, which cover the whole model; without a group, one slice. Errors:
// invalid_value.
result<std::vector<model::tensor_slice>> slices_of(const model::description& m, const config& c);
// Rejects everything that the kernels do not compute; nothing is ignored silently. Errors:
// unsupported_model (names the feature).
result<void> check_model(const model::description& m);

} // namespace baton::cpu
