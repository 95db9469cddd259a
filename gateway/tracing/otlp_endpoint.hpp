// The address for spans, as an operator writes it. Pure.
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace baton::gateway {

// An OTLP/HTTP collector (https://opentelemetry.io/docs/specs/otlp/#otlphttp).
struct otlp_endpoint {
  std::string host; // a name or an address; IPv6 without brackets
  std::uint16_t port = 0;
  std::string path; // of traces: "/v1/traces" after the path of a base URL
  std::string host_header() const;
  friend bool operator==(const otlp_endpoint&, const otlp_endpoint&) = default;
};

// "http://127.0.0.1:4318": a base URL, or the URL of traces itself. Errors: bad_config (param
// "otlp_endpoint"), with the mistake in the text.
result<otlp_endpoint> parse_otlp_endpoint(std::string_view text);

} // namespace baton::gateway
