// FlashInfer's attention (flashinfer.cu), in a build that has its headers (BATON_FLASHINFER); and
// for which models it is, which every build can say.
#pragma once

#include "runtime/gpu/device.hpp"

#include <functional>
#include <string_view>

namespace baton::gpu {

// What the templates that flashinfer.cu instantiates compute of such a model. Its decoding kernel
// reads all keys of a sequence, so that layers with a window are none of its. `wanted`: "own" for
// nothing, "prompts" for those alone; else all.
attention_use flashinfer_use(const attention_shape& shape, std::string_view wanted = {});

// Memory as device::take and device::take_host give it; `stream` is that of the device.
struct attention_memory {
  std::function<buffer(std::size_t bytes)> take, take_host;
  void* stream = nullptr;
};

// On the current CUDA device, of sm_80 or later. What single rows need is taken here, what prompts
// need as they come. Throws refused(internal) with CUDA's words. Requires: flashinfer_use() of this
// shape has something.
std::unique_ptr<paged_attention> make_flashinfer(const attention_shape& shape,
                                                 const attention_memory& memory);

} // namespace baton::gpu
