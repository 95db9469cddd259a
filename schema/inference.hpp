// What a worker model is asked and answers: named tensors, or one body of a content type. Part of
// messages.hpp. Nothing here is looked into on the way but for its size: which tensors a model
// takes is its handler's matter.
#pragma once

#include "schema/error.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton {

// Elements row by row, little-endian, as KServe's v2 protocol has them ("FP32", "BYTES", ...); of
// BYTES each element behind its length in four bytes.
struct tensor {
  std::string name;
  std::string datatype;
  std::vector<std::int64_t> shape;
  std::string data;
};

struct header_field {
  std::string name;
  std::string value;
};

// Client to gateway, and within `infer_batch` gateway to worker.
struct infer {
  std::uint64_t request = 0; // of whoever says it
  std::string model;
  std::string version; // empty: the one that there is
  std::vector<tensor> inputs;
  std::vector<std::string> outputs; // wanted of them; none named: all
  std::string body;
  std::string content_type;
  std::vector<header_field> headers; // of the client's call, for handlers that look at them
  std::string parameters;            // a JSON object, or empty
  std::string request_id;            // the client's name for it
  std::chrono::milliseconds deadline{0};
};

// Worker to gateway, gateway to client: one piece of an answer. Pieces are numbered from 0 without
// gaps; exactly one, the last, has `is_last`. A failure is the last.
struct inferred {
  std::uint64_t request = 0;
  std::uint32_t index = 0;
  bool is_last = false;
  std::vector<tensor> outputs;
  std::string body;
  std::string content_type;
  std::vector<header_field> headers; // for the client's answer
  std::string parameters;            // a JSON object, or empty
  std::uint16_t http_status = 0;     // 0: the handler has said none
  std::optional<error> failure;
};

// Gateway to worker: what it is to do next, together.
struct infer_batch {
  std::uint64_t batch = 0;
  std::vector<infer> items;
};

// Client to gateway, gateway to worker: nobody waits for its pieces any more.
struct cancel_infer {
  std::uint64_t request = 0;
};

enum class metric_kind : std::uint8_t { counter = 1, gauge };

// Something that a handler counts or measures, under a name and labels of its own.
struct handler_metric {
  std::string name;
  std::string help;
  metric_kind kind = metric_kind::counter;
  std::vector<header_field> labels;
  bool sets = false; // `value` is what it is from now on; else it is added
  double value = 0;
};

// Worker to gateway: what its handler has counted since the last of these.
struct handler_metrics {
  std::vector<handler_metric> all;
};

} // namespace baton
