// FlashInfer's attention (flashinfer.cu), in builds with its headers (BATON_FLASHINFER). Every
// build can determine for which models it would be used.
#pragma once

#include "runtime/gpu/device/device.hpp"

#include <functional>

namespace baton::gpu {

// The permitted uses, so that one build can compare them or disable the library.
enum class attention_wanted { all, prompts, nothing };

// The parts of a model's attention that the templates in flashinfer.cu support. The decoding kernel
// reads all keys of a sequence, so it does not support windows.
attention_use flashinfer_use(const attention_shape& shape,
                             attention_wanted wanted = attention_wanted::all);

// Parses BATON_GPU_ATTENTION; null: all. Throws refused(invalid_value) with its value.
attention_wanted attention_wanted_of(const char* value);

// Memory from device::take and device::take_host; `stream` is the device's.
struct attention_memory {
  std::function<buffer(std::size_t bytes)> take, take_host;
  void* stream = nullptr;
};

// On the current CUDA device, sm_80 or later. Allocates all memory for any step. Throws
// refused(internal) with CUDA's message. Requires: flashinfer_use() supports a part of this shape.
std::unique_ptr<paged_attention> make_flashinfer(const attention_shape& shape,
                                                 const attention_memory& memory);

} // namespace baton::gpu
