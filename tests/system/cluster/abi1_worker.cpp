// A library for version 1 of sdk/cpp/baton/worker_abi.h. That version is written out here,
// independent of today's header. It echoes its body.
#include <cstdint>
#include <cstring>

extern "C" {

struct tensor_1 {
  const char* name;
  const char* datatype;
  const std::int64_t* shape;
  std::size_t dimensions;
  const void* data;
  std::size_t data_bytes;
};
struct request_1 {
  void* work;
  const void* body;
  std::size_t body_bytes;
  const char* content_type;
  const tensor_1* inputs;
  std::size_t inputs_count;
};
struct piece_1 {
  const void* body;
  std::size_t body_bytes;
  const char* content_type;
  const tensor_1* outputs;
  std::size_t outputs_count;
};
struct calls_1 {
  void (*piece)(void* work, const piece_1* piece, int is_last);
  void (*fail)(void* work, const char* why);
  int (*is_cancelled)(const void* work);
};

std::uint32_t baton_worker_abi() {
  return 1;
}

void* baton_worker_create(const char* const*, std::size_t, char* why, std::size_t) {
  return why; // any pointer
}

void baton_worker_handle(void*, const request_1* batch, std::size_t count, const calls_1* calls) {
  for (std::size_t i = 0; i < count; ++i) {
    struct {
      piece_1 piece;
      unsigned char beyond[128]; // beyond this version: must not be read
    } answer;
    std::memset(&answer, 0xFF, sizeof answer);
    answer.piece = {batch[i].body, batch[i].body_bytes, batch[i].content_type, nullptr, 0};
    calls->piece(batch[i].work, &answer.piece, 1);
  }
}

void baton_worker_destroy(void*) {}
}
