/* A worker model in a shared library, behind a boundary of plain C: any language that can export
 * these four functions. `baton_worker_host LIBRARY.so [OPTION ...]` is the process that loads it
 * (docs/apis/workers/libraries-and-other-languages.md). All calls come from one thread. Texts are
 * UTF-8 and end with 0; bytes are counted. The caller owns the arguments; they are valid until the
 * call returns. */
#ifndef BATON_WORKER_ABI_H
#define BATON_WORKER_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A host loads libraries of every version from 1 on: later versions only add. Additions of version
 * 2 are marked. */
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

typedef struct baton_work baton_work; /* one request of the batch, and the way to answer it */

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

/* Further fields of a request (version 2); valid until the batch is answered. Unset: "", 0. */
typedef struct baton_details {
  const char* id;              /* chosen by the client */
  const char* parameters;      /* a JSON object */
  const baton_header* headers; /* of the client's call */
  size_t headers_count;
  const char* const* outputs; /* requested outputs; none: all */
  size_t outputs_count;
} baton_details;

/* One piece of an answer; unset fields are zero. */
typedef struct baton_piece {
  const void* body;
  size_t body_bytes;
  const char* content_type;
  const baton_tensor* outputs;
  size_t outputs_count;
  /* Version 2; read from the first piece, for HTTP APIs. */
  const char* parameters; /* a JSON object */
  const baton_header* headers;
  size_t headers_count;
  uint32_t status;
} baton_piece;

/* A request to another model (version 2): a worker model, with tensors or one body, or a language
 * model, with the tensors of Triton's vLLM backend. Unset fields are zero. */
typedef struct baton_question {
  const char* model;
  const char* version; /* NULL: the newest */
  const void* body;
  size_t body_bytes;
  const char* content_type;
  const baton_tensor* inputs;
  size_t inputs_count;
  const char* const* outputs; /* requested outputs; none: all */
  size_t outputs_count;
  const char* parameters; /* a JSON object */
  const baton_header* headers;
  size_t headers_count;
  const char* id;
  int64_t deadline_ms; /* for the whole answer, enforced by the cluster; 0: none */
} baton_question;

typedef struct baton_call baton_call; /* an open request */

/* Results of `next`. */
enum {
  BATON_CALL_ENDED = 0, /* the last piece has already been returned */
  BATON_CALL_PIECE = 1,
  BATON_CALL_LATE = 2,  /* timeout: call again */
  BATON_CALL_FAILED = 3 /* the answer has failed, or never began */
};

/* Functions that the library may call while it handles a batch. */
typedef struct baton_worker_calls {
  /* Sends a piece at once, and waits for credit. No effect once the request has ended. */
  void (*piece)(baton_work* work, const baton_piece* piece, int is_last);
  /* Ends the request with a failure (handler_failed). */
  void (*fail)(baton_work* work, const char* why);
  /* Not 0: the client no longer waits for the answer. */
  int (*is_cancelled)(const baton_work* work);
  /* Version 2. */
  const baton_details* (*details)(baton_work* work);
  /* Calls another model of the cluster, through the gateway, as any client. These three may be used
   * from any thread, each baton_call by one at a time. Reasons are "name: message", at most
   * `why_bytes` bytes with their 0. NULL: the call failed, with the reason in `why`. */
  baton_call* (*ask)(const baton_question* question, char* why, size_t why_bytes);
  /* One of BATON_CALL_*; waits at most `timeout_ms`. The piece is valid until the next `next` or
   * `close` of this call. */
  int (*next)(baton_call* call, int64_t timeout_ms, baton_piece* piece, char* why,
              size_t why_bytes);
  /* Required once for every call; cancels it if it has not ended. */
  void (*close)(baton_call* call);
} baton_worker_calls;

/* Functions that the library exports. */

/* The BATON_WORKER_ABI_VERSION that it was compiled with. */
uint32_t baton_worker_abi(void);
/* Loads the model and returns `self` for the other functions. NULL: it failed, with a reason of at
 * most `why_bytes` bytes with its 0 in `why`. */
void* baton_worker_create(const char* const* options, size_t options_count, char* why,
                          size_t why_bytes);
/* Answers the whole batch; a request without a last piece fails. Must not throw. */
void baton_worker_handle(void* self, const baton_request* batch, size_t count,
                         const baton_worker_calls* calls);
void baton_worker_destroy(void* self);

#ifdef __cplusplus
}
#endif

#endif
