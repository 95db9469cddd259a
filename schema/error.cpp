#include "schema/error.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <array>

namespace baton {
namespace {

constexpr std::array table{
    errc_row{errc::invalid_request, "invalid_request", 400, false, "invalid_request_error"},
    errc_row{errc::unsupported_parameter, "unsupported_parameter", 400, false,
             "invalid_request_error"},
    errc_row{errc::invalid_value, "invalid_value", 400, false, "invalid_request_error"},
    errc_row{errc::unauthorized, "unauthorized", 401, false, "authentication_error"},
    errc_row{errc::forbidden, "forbidden", 403, false, "permission_error"},
    errc_row{errc::not_found, "not_found", 404, false, "invalid_request_error"},
    errc_row{errc::model_not_found, "model_not_found", 404, false, "invalid_request_error"},
    errc_row{errc::method_not_allowed, "method_not_allowed", 405, false, "invalid_request_error"},
    errc_row{errc::payload_too_large, "payload_too_large", 413, false, "invalid_request_error"},
    errc_row{errc::unsupported_media_type, "unsupported_media_type", 415, false,
             "invalid_request_error"},
    errc_row{errc::unprocessable, "unprocessable", 422, false, "invalid_request_error"},
    errc_row{errc::header_too_large, "header_too_large", 431, false, "invalid_request_error"},
    errc_row{errc::context_length_exceeded, "context_length_exceeded", 400, false,
             "invalid_request_error"},
    errc_row{errc::template_failed, "template_failed", 400, false, "invalid_request_error"},
    errc_row{errc::request_timeout, "request_timeout", 408, true, "timeout_error"},
    errc_row{errc::conflict, "conflict", 409, false, "invalid_request_error"},
    errc_row{errc::overloaded, "overloaded", 503, true, "overloaded_error", true},
    errc_row{errc::no_job_ticket, "no_job_ticket", 503, true, "overloaded_error", true},
    errc_row{errc::draining, "draining", 503, true, "overloaded_error"},
    errc_row{errc::not_ready, "not_ready", 503, true, "overloaded_error"},
    errc_row{errc::queue_timeout, "queue_timeout", 408, true, "timeout_error"},
    errc_row{errc::rate_limit_exceeded, "rate_limit_exceeded", 429, true, "rate_limit_error"},
    errc_row{errc::cancelled, "cancelled", 499, false, "invalid_request_error"},
    errc_row{errc::deadline_exceeded, "deadline_exceeded", 504, true, "timeout_error"},
    errc_row{errc::slow_reader, "slow_reader", 499, false, "invalid_request_error"},
    errc_row{errc::quarantined, "quarantined", 500, false, "server_error"},
    errc_row{errc::pipeline_lost, "pipeline_lost", 503, true, "server_error"},
    errc_row{errc::ticket_not_found, "ticket_not_found", 404, false, "invalid_request_error"},
    errc_row{errc::worker_lost, "worker_lost", 503, true, "server_error"},
    errc_row{errc::handler_failed, "handler_failed", 500, false, "server_error"},
    errc_row{errc::internal, "internal", 500, false, "server_error"},
    errc_row{errc::bad_frame, "bad_frame", 500, false, "server_error"},
    errc_row{errc::stale_epoch, "stale_epoch", 500, true, "server_error"},
    errc_row{errc::link_down, "link_down", 503, true, "server_error"},
    errc_row{errc::back_pressure, "back_pressure", 503, true, "server_error"},
    errc_row{errc::version_mismatch, "version_mismatch", 500, false, "server_error"},
    errc_row{errc::crash_loop, "crash_loop", 503, false, "server_error"},
    errc_row{errc::start_failed, "start_failed", 503, false, "server_error"},
    errc_row{errc::bad_config, "bad_config", 500, false, "server_error"},
    errc_row{errc::unknown_key, "unknown_key", 500, false, "server_error"},
    errc_row{errc::bad_model_file, "bad_model_file", 500, false, "server_error"},
    errc_row{errc::unsupported_model, "unsupported_model", 500, false, "server_error"},
    errc_row{errc::does_not_fit, "does_not_fit", 500, false, "server_error"},
    errc_row{errc::io_failed, "io_failed", 500, false, "server_error"},
    errc_row{errc::address_in_use, "address_in_use", 500, false, "server_error"},
};

static_assert(std::is_sorted(table.begin(), table.end(),
                             [](const errc_row& a, const errc_row& b) { return a.code < b.code; }));

const errc_row* find(std::uint16_t number) noexcept {
  auto it =
      std::lower_bound(table.begin(), table.end(), number, [](const errc_row& r, std::uint16_t n) {
        return static_cast<std::uint16_t>(r.code) < n;
      });
  return it != table.end() && static_cast<std::uint16_t>(it->code) == number ? &*it : nullptr;
}

} // namespace

std::span<const errc_row> errc_table() noexcept {
  return table;
}

const errc_row& row_of(errc code) noexcept {
  const auto* row = find(static_cast<std::uint16_t>(code));
  ENSURE(row != nullptr, "errc {} has no row", static_cast<int>(code));
  return *row;
}

std::optional<errc> errc_from(std::uint16_t number) noexcept {
  const auto* row = find(number);
  return row ? std::optional(row->code) : std::nullopt;
}

} // namespace baton
