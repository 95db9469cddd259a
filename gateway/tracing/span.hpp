// The part of OpenTelemetry's span model that is used here, and its text in OTLP's JSON
// (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): ids in hex, 64-bit integers
// as strings, enumerations as numbers. Pure.
#pragma once

#include "gateway/tracing/trace_context.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace baton::gateway {

struct span_attribute {
  using value_type = std::variant<std::string, std::int64_t, double, std::vector<std::string>>;
  std::string_view key; // a literal
  value_type value;
};

struct span_event {
  std::uint64_t unix_nanos = 0;
  std::string_view name; // a literal
  std::vector<span_attribute> attributes;
};

// Numbers are OTLP's.
enum class span_kind : std::uint8_t { internal = 1, server = 2 };

struct span {
  trace_id trace{};
  span_id id{};
  std::optional<span_id> parent;
  bool is_parent_remote = false;
  std::uint8_t flags = 0; // of the trace
  std::string state;      // tracestate
  std::string name;
  span_kind kind = span_kind::internal;
  std::uint64_t begin_unix_nanos = 0;
  std::uint64_t end_unix_nanos = 0;
  std::vector<span_attribute> attributes;
  std::vector<span_event> events;
  std::uint32_t events_dropped = 0;
  std::string failure; // the name of the error; empty: none
};

// The body of a POST to /v1/traces. `version` is that of the build. Invalid UTF-8 is dropped.
std::string otlp_body(const std::vector<span_attribute>& resource, std::string_view version,
                      const std::vector<span>& spans);
// The number of spans that a collector rejected in a response with status 200 (partialSuccess). 0
// if the response cannot be read: its status reports success.
std::uint64_t rejected_spans(std::string_view answer);

} // namespace baton::gateway
