// FlashInfer's attention (flashinfer.cu), in a build that has its headers (BATON_FLASHINFER); and
// for which models it is, which every build can say.
#pragma once

#include "runtime/gpu/device.hpp"

#include <functional>

namespace baton::gpu {

// What of it may be used, so that one build shows what each way gives, and can do without it.
enum class attention_wanted { all, prompts, nothing };

// What the templates that flashinfer.cu instantiates compute of such a model. Its decoding kernel
// reads all keys of a sequence, so that layers with a window are none of its.
attention_use flashinfer_use(const attention_shape& shape,
                             attention_wanted wanted = attention_wanted::all);

// What BATON_GPU_ATTENTION asks for; null: all. Throws refused(invalid_value), naming it.
attention_wanted attention_wanted_of(const char* value);

// Memory as device::take and device::take_host give it; `stream` is that of the device.
struct attention_memory {
  std::function<buffer(std::size_t bytes)> take, take_host;
  void* stream = nullptr;
};

// On the current CUDA device, of sm_80 or later. What any step needs is taken here. Throws
// refused(internal) with CUDA's words. Requires: flashinfer_use() of this shape has something.
std::unique_ptr<paged_attention> make_flashinfer(const attention_shape& shape,
                                                 const attention_memory& memory);

} // namespace baton::gpu
