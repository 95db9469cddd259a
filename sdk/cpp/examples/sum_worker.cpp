// A worker model in a shared library, with a pure C boundary: sums each float32 input tensor to a
// tensor with one value. In nodes.toml:
//   command = ["build/dev/sdk/cpp/baton_worker_host", "build/dev/sdk/cpp/libbaton_sum_worker.so"]
#include "sdk/cpp/baton/worker_abi.h"

#include <cstdio>
#include <cstring>

namespace {

int model = 0; // there is nothing to load

void answer(const baton_request& request, const baton_worker_calls& calls) {
  const int64_t shape[1] = {1};
  for (std::size_t i = 0; i < request.inputs_count; ++i) {
    const baton_tensor& in = request.inputs[i];
    if (std::strcmp(in.datatype, "FP32") != 0)
      return calls.fail(request.work, "only FP32 can be summed");
    float sum = 0;
    for (std::size_t at = 0; at + sizeof(float) <= in.data_bytes; at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, static_cast<const char*>(in.data) + at, sizeof value);
      sum += value;
    }
    const baton_tensor out{.name = in.name,
                           .datatype = "FP32",
                           .shape = shape,
                           .dimensions = 1,
                           .data = &sum,
                           .data_bytes = sizeof sum};
    baton_piece piece{};
    piece.outputs = &out;
    piece.outputs_count = 1;
    calls.piece(request.work, &piece, i + 1 == request.inputs_count ? 1 : 0);
  }
}

} // namespace

uint32_t baton_worker_abi(void) {
  return BATON_WORKER_ABI_VERSION;
}

void* baton_worker_create(const char* const* options, size_t options_count, char* why,
                          size_t why_bytes) {
  if (options_count > 0 && std::strcmp(options[0], "refuse") == 0) {
    std::snprintf(why, why_bytes, "as it was asked to");
    return nullptr;
  }
  return &model;
}

void baton_worker_handle(void*, const baton_request* batch, size_t count,
                         const baton_worker_calls* calls) {
  for (size_t i = 0; i < count; ++i)
    answer(batch[i], *calls);
}

void baton_worker_destroy(void*) {}
