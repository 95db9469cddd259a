// Requests and answers of a worker model: named tensors, or one body with a content type. Part of
// messages.hpp. Only sizes are checked on the way: the handler decides which tensors its model
// takes.
#pragma once

#include "schema/error.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton {

// Elements in row-major order, little-endian, as in KServe's v2 protocol ("FP32", "BYTES", ...).
// Each BYTES element follows its length in four bytes.
struct tensor {
#include "schema/members/tensor.inc"
};

struct header_field {
#include "schema/members/header_field.inc"
};

// Client to gateway, and within `infer_batch` gateway to worker.
struct infer {
#include "schema/members/infer.inc"
};

// Worker to gateway, gateway to client: one piece of an answer. Pieces are numbered from 0 without
// gaps; exactly one, the last, has `is_last`. A failure is the last.
struct inferred {
#include "schema/members/inferred.inc"
};

// Gateway to worker: the items that it executes next, together.
struct infer_batch {
#include "schema/members/infer_batch.inc"
};

// Client to gateway, gateway to worker: the answer is no longer wanted.
struct cancel_infer {
#include "schema/members/cancel_infer.inc"
};

enum class metric_kind : std::uint8_t { counter = 1, gauge };

// A counter or gauge of a handler, with its own name and labels.
struct handler_metric {
#include "schema/members/handler_metric.inc"
};

// Worker to gateway: changes of the handler's metrics since the previous message.
struct handler_metrics {
#include "schema/members/handler_metrics.inc"
};

} // namespace baton
