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
  std::uint64_t request = 0; // the sender's number
  std::string model;
  std::string version; // empty: the only version
  std::vector<tensor> inputs;
  std::vector<std::string> outputs; // the wanted ones; empty: all
  std::string body;
  std::string content_type;
  std::vector<header_field> headers; // headers of the client's call, for handlers that read them
  std::string parameters;            // a JSON object, or empty
  std::string request_id;            // the client's name for the request
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
  std::uint16_t http_status = 0;     // 0: the handler has set none
  std::optional<error> failure;
};

// Gateway to worker: the items that it executes next, together.
struct infer_batch {
  std::uint64_t batch = 0;
  std::vector<infer> items;
};

// Client to gateway, gateway to worker: the answer is no longer wanted.
struct cancel_infer {
  std::uint64_t request = 0;
};

enum class metric_kind : std::uint8_t { counter = 1, gauge };

// A counter or gauge of a handler, with its own name and labels.
struct handler_metric {
  std::string name;
  std::string help;
  metric_kind kind = metric_kind::counter;
  std::vector<header_field> labels;
  bool sets = false; // `value` replaces the metric's value; otherwise it is added
  double value = 0;
};

// Worker to gateway: changes of the handler's metrics since the previous message.
struct handler_metrics {
  std::vector<handler_metric> all;
};

} // namespace baton
