// One table of errors for wire, HTTP, logs and docs. Numbers are on the wire: never renumbered,
// never reused.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace baton {

enum class errc : std::uint16_t {
  // Client errors.
  invalid_request = 1,
  unsupported_parameter = 2,
  invalid_value = 3,
  unauthorized = 4,
  forbidden = 5,
  not_found = 6,
  model_not_found = 7,
  method_not_allowed = 8,
  payload_too_large = 9,
  unsupported_media_type = 10,
  unprocessable = 11,
  header_too_large = 12,
  context_length_exceeded = 13,
  template_failed = 14,
  request_timeout = 15,
  conflict = 16,
  // Load: refused now, may be retried.
  overloaded = 30,
  no_job_ticket = 31,
  draining = 32,
  not_ready = 33,
  queue_timeout = 34,
  rate_limit_exceeded = 35, // of an API key; `param` names the quota
  // Ends of an accepted ticket other than success.
  cancelled = 50,
  deadline_exceeded = 51,
  slow_reader = 52,
  quarantined = 53,
  pipeline_lost = 54,
  ticket_not_found = 55,
  worker_lost = 56,    // after part of the answer was sent
  handler_failed = 57, // a failure of the operator's own code
  // Errors of the cluster itself.
  internal = 70,
  bad_frame = 71,
  stale_epoch = 72,
  link_down = 73,
  back_pressure = 74,
  version_mismatch = 75,
  crash_loop = 76,
  start_failed = 77,
  // Files and configuration.
  bad_config = 90,
  unknown_key = 91,
  bad_model_file = 92,
  unsupported_model = 93,
  does_not_fit = 94,
  io_failed = 95,
  address_in_use = 96,
};

struct errc_row {
  errc code;
  std::string_view name; // as in JSON bodies, logs and docs
  int http_status;
  bool retryable;
  std::string_view type; // OpenAI's error.type
  // Refused for load alone: another pipeline may take the request, and the operator chooses the
  // HTTP status.
  bool is_for_load = false;
};

// All rows, ordered by number. docs/reference/protocol.md and the JSON bodies are derived from it.
std::span<const errc_row> errc_table() noexcept;
const errc_row& row_of(errc code) noexcept;
inline bool is_for_load(errc code) noexcept {
  return row_of(code).is_for_load;
}
// Empty for a number unknown to this build (from a newer peer).
std::optional<errc> errc_from(std::uint16_t number) noexcept;

// A failure as a value. `param` names the offending request field or configuration key, if any.
struct error {
  errc code = errc::internal;
  std::string message;
  std::string param;

  friend bool operator==(const error&, const error&) = default;
};

} // namespace baton
