/* A worker model in a shared library, behind a boundary of plain C: any language that can export
 * these four functions. `baton_worker_host LIBRARY.so [OPTION ...]` is the process that loads it
 * (docs/workers.md). All calls come from one thread. Texts are UTF-8 and end with 0; bytes are
 * counted. What is given is the giver's and good until the call returns. */
#ifndef BATON_WORKER_ABI_H
#define BATON_WORKER_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BATON_WORKER_ABI_VERSION 1u

/* Elements row by row, little-endian; datatypes are KServe's ("FP32", "BYTES", ...). */
typedef struct baton_tensor {
  const char* name;
  const char* datatype;
  const int64_t* shape;
  size_t dimensions;
  const void* data;
  size_t data_bytes;
} baton_tensor;

typedef struct baton_work baton_work; /* one request of the batch, and the way of its answer */

typedef struct baton_request {
  baton_work* work;
  const void* body;
  size_t body_bytes;
  const char* content_type;
  const baton_tensor* inputs;
  size_t inputs_count;
} baton_request;

/* One piece of an answer; zero what is not said. */
typedef struct baton_piece {
  const void* body;
  size_t body_bytes;
  const char* content_type;
  const baton_tensor* outputs;
  size_t outputs_count;
} baton_piece;

/* What the library may call while it handles a batch. */
typedef struct baton_worker_calls {
  /* Sends a piece at once, and waits for room. Nothing once the request has ended. */
  void (*piece)(baton_work* work, const baton_piece* piece, int is_last);
  /* Ends the request with a failure (handler_failed). */
  void (*fail)(baton_work* work, const char* why);
  /* Not 0: nobody waits for the answer any more. */
  int (*is_cancelled)(const baton_work* work);
} baton_worker_calls;

/* What the library exports. */

/* BATON_WORKER_ABI_VERSION, as it was compiled with. */
uint32_t baton_worker_abi(void);
/* Loads the model: what is then given to the others. NULL, with a reason of at most `why_bytes`
 * bytes with its 0: it cannot. */
void* baton_worker_create(const char* const* options, size_t options_count, char* why,
                          size_t why_bytes);
/* Answers all of the batch; a request that is left without a last piece fails. Must not throw. */
void baton_worker_handle(void* self, const baton_request* batch, size_t count,
                         const baton_worker_calls* calls);
void baton_worker_destroy(void* self);

#ifdef __cplusplus
}
#endif

#endif
