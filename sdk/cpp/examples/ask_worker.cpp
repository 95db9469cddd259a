// A worker model in a shared library that calls another model, with a pure C boundary. The
// request's tensors go to the model named by its parameter "model". The answer is returned piece by
// piece, with the id of the request as a header. In nodes.toml:
//   command = ["build/dev/sdk/cpp/baton_worker_host", "build/dev/sdk/cpp/libbaton_ask_worker.so"]
#include "sdk/cpp/baton/worker_abi.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

constexpr int64_t silence_ms_max = 60'000; // limit for the next piece

int nothing = 0; // there is nothing to load

// {"model": "NAME"}, read in the simplest way.
std::string model_of(const char* parameters) {
  const std::string text = parameters;
  const std::string key = "\"model\": \"";
  const auto at = text.find(key);
  if (at == std::string::npos)
    return {};
  const auto begin = at + key.size();
  return text.substr(begin, text.find('"', begin) - begin);
}

void answer(const baton_request& request, const baton_worker_calls& calls) {
  std::array<char, 512> why{};
  const baton_details& details = *calls.details(request.work);
  const auto model = model_of(details.parameters);
  baton_question question{};
  question.model = model.c_str();
  question.inputs = request.inputs;
  question.inputs_count = request.inputs_count;
  question.outputs = details.outputs;
  question.outputs_count = details.outputs_count;
  baton_call* call = calls.ask(&question, why.data(), why.size());
  if (call == nullptr)
    return calls.fail(request.work, why.data());
  const baton_header id{"x-request-id", details.id};
  int came = BATON_CALL_PIECE;
  while (came == BATON_CALL_PIECE && calls.is_cancelled(request.work) == 0) {
    baton_piece piece{};
    came = calls.next(call, silence_ms_max, &piece, why.data(), why.size());
    piece.headers = &id;
    piece.headers_count = 1;
    if (came == BATON_CALL_PIECE)
      calls.piece(request.work, &piece, 0);
  }
  calls.close(call);
  if (came == BATON_CALL_LATE || came == BATON_CALL_FAILED)
    return calls.fail(request.work, why.data());
  const baton_piece end{};
  calls.piece(request.work, &end, 1);
}

} // namespace

uint32_t baton_worker_abi(void) {
  return BATON_WORKER_ABI_VERSION;
}

void* baton_worker_create(const char* const*, size_t, char*, size_t) {
  return &nothing;
}

void baton_worker_handle(void*, const baton_request* batch, size_t count,
                         const baton_worker_calls* calls) {
  for (size_t i = 0; i < count; ++i)
    answer(batch[i], *calls);
}

void baton_worker_destroy(void*) {}
