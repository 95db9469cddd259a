/* A worker model in a shared library, behind a boundary of plain C: any language that can export
 * these four functions. `baton_worker_host LIBRARY.so [OPTION ...]` is the process that loads it
 * (docs/apis/workers/libraries-and-other-languages.md). All calls come from one thread. Texts are UTF-8 and end with 0; bytes are
 * counted. What is given is the giver's and good until the call returns. */
#ifndef BATON_WORKER_ABI_H
#define BATON_WORKER_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a library was compiled with, back to 1, is loaded: nothing of a version changes in later
 * ones. What came with version 2 is marked. */
#define BATON_WORKER_ABI_VERSION 2u

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

typedef struct baton_header {
  const char* name;
  const char* value;
} baton_header;

typedef struct baton_request {
  baton_work* work;
  const void* body;
  size_t body_bytes;
  const char* content_type;
  const baton_tensor* inputs;
  size_t inputs_count;
} baton_request;

/* What else a request says (version 2); good until the batch is answered. Nothing said: "", 0. */
typedef struct baton_details {
  const char* id;              /* the client's name for it */
  const char* parameters;      /* a JSON object */
  const baton_header* headers; /* of the client's call */
  size_t headers_count;
  const char* const* outputs; /* wanted of them; none: all */
  size_t outputs_count;
} baton_details;

/* One piece of an answer; zero what is not said. */
typedef struct baton_piece {
  const void* body;
  size_t body_bytes;
  const char* content_type;
  const baton_tensor* outputs;
  size_t outputs_count;
  /* Version 2; of the first piece, where a door speaks HTTP. */
  const char* parameters; /* a JSON object */
  const baton_header* headers;
  size_t headers_count;
  uint32_t status;
} baton_piece;

/* A question to another model (version 2): a worker model, with tensors or one body, or a language
 * model, with the tensors of Triton's vLLM backend. Zero what is not said. */
typedef struct baton_question {
  const char* model;
  const char* version; /* NULL: the newest */
  const void* body;
  size_t body_bytes;
  const char* content_type;
  const baton_tensor* inputs;
  size_t inputs_count;
  const char* const* outputs; /* wanted of them; none: all */
  size_t outputs_count;
  const char* parameters; /* a JSON object */
  const baton_header* headers;
  size_t headers_count;
  const char* id;
  int64_t deadline_ms; /* of the whole answer, kept by the cluster; 0: none */
} baton_question;

typedef struct baton_call baton_call; /* a question that is open */

/* What `next` says. */
enum {
  BATON_CALL_ENDED = 0, /* the answer had its last piece before */
  BATON_CALL_PIECE = 1,
  BATON_CALL_LATE = 2,  /* nothing came in time: it may be asked again */
  BATON_CALL_FAILED = 3 /* the answer ends with this, or has never begun */
};

/* What the library may call while it handles a batch. */
typedef struct baton_worker_calls {
  /* Sends a piece at once, and waits for room. Nothing once the request has ended. */
  void (*piece)(baton_work* work, const baton_piece* piece, int is_last);
  /* Ends the request with a failure (handler_failed). */
  void (*fail)(baton_work* work, const char* why);
  /* Not 0: nobody waits for the answer any more. */
  int (*is_cancelled)(const baton_work* work);
  /* Version 2. */
  const baton_details* (*details)(baton_work* work);
  /* Asks another model of the cluster, through the gateway, as any client. These three may be
   * called from any thread, each call from one at a time. Reasons are "name: words", of at most
   * `why_bytes` bytes with their 0. NULL: it cannot be asked, and why. */
  baton_call* (*ask)(const baton_question* question, char* why, size_t why_bytes);
  /* One of BATON_CALL_*; waits for `timeout_ms` at most. The piece is good until the next `next` or
   * `close` of this call. */
  int (*next)(baton_call* call, int64_t timeout_ms, baton_piece* piece, char* why,
              size_t why_bytes);
  /* Once for every call, ended or not: what has not ended is cancelled. */
  void (*close)(baton_call* call);
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
