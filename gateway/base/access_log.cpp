#include "gateway/base/access_log.hpp"

#include "gateway/base/log_format.hpp"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

namespace baton::gateway {
namespace {

constexpr std::size_t value_bytes_max = 256; // of a text from the client

// Escapes a client's text: it must not break a line or a field.
void append_value(std::string& out, std::string_view text) {
  for (const auto c : text.substr(0, value_bytes_max)) {
    if (c > ' ' && c <= '~' && c != '"' && c != '=' && c != '\\') {
      out += c;
    } else {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
}

void append(std::string& out, std::string_view name, std::string_view text) {
  if (!text.empty()) {
    fmt::format_to(std::back_inserter(out), " {}=", name);
    append_value(out, text);
  }
}

} // namespace

std::string access_line(const access_entry& e) {
  auto out = fmt::format("door={}", e.protocol);
  append(out, "method", e.method);
  append(out, "path", e.path);
  fmt::format_to(std::back_inserter(out), " status={} bytes={} seconds={:.6f}", e.status, e.bytes,
                 e.seconds);
  append(out, "client", e.client);
  append(out, "key", e.key);
  append(out, "request_id", e.request_id);
  append(out, "id", e.message_id);
  append(out, "model", e.model);
  if (e.usage) {
    if (e.usage->ticket) {
      fmt::format_to(std::back_inserter(out), " ticket={}", e.usage->ticket.value);
    }
    fmt::format_to(std::back_inserter(out), " prompt_tokens={} output_tokens={}",
                   e.usage->prompt_tokens, e.usage->output_tokens);
  }
  return out;
}

bool is_poll(const access_entry& e) noexcept {
  constexpr int first_failure = 400;
  constexpr std::string_view polls[] = {
      "/health",
      "/ping",
      "/metrics",
      "/load",
      "/cluster",
      "/v2/health/live",
      "/v2/health/ready",
      "/grpc.health.v1.Health/Check",
      "/inference.GRPCInferenceService/ServerLive",
      "/inference.GRPCInferenceService/ServerReady",
      "/org.pytorch.serve.grpc.inference.InferenceAPIsService/Ping"};
  const bool is_well = e.protocol == "grpc" ? e.status == 0 : e.status < first_failure;
  return is_well && (e.path.starts_with("/page/") ||
                     std::find(std::begin(polls), std::end(polls), e.path) != std::end(polls));
}

access_log::access_log(std::shared_ptr<spdlog::logger> to) : to_(std::move(to)) {}

result<std::shared_ptr<access_log>> access_log::open(const std::string& file) {
  try {
    auto sink =
        std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file, file_bytes_max, files_max);
    auto logger = std::make_shared<spdlog::logger>("access", std::move(sink));
    logger->set_formatter(log_format(/*has_colors=*/false));
    logger->set_level(spdlog::get_level());
    logger->flush_on(spdlog::level::trace); // a killed gateway loses no line
    return std::make_shared<access_log>(std::move(logger));
  } catch (const spdlog::spdlog_ex& e) {
    return fail(errc::io_failed, "{}: no access log: {}", file, e.what());
  }
}

void access_log::write(const access_entry& e) {
  const auto level = is_poll(e) ? spdlog::level::debug : spdlog::level::info;
  if (to_->should_log(level)) {
    to_->log(level, "{}", access_line(e));
  }
}

} // namespace baton::gateway
