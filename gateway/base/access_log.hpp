// A bounded log file with one line for each answered request. Lines contain no prompts and no keys.
// Any thread.
//
//   2026-01-31T12:00:00.123 info door=http method=POST path=/v1/completions status=200 ...
#pragma once

#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace baton::gateway {

// Over all prompts and choices of a request, as far as its client knows them.
struct request_usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t output_tokens = 0;
  ticket_id ticket; // the first one's; 0: none was granted
};

struct access_entry {
  std::string_view protocol; // "http", "websocket" or "grpc"
  std::string_view method;   // of HTTP
  std::string_view path;     // without its query
  int status = 0;            // HTTP's; over gRPC its code
  std::uint64_t bytes = 0;   // of the response with its header; over gRPC of its messages
  double seconds = 0;
  std::string_view client; // address and port
  std::string_view key;    // the name of its API key; empty: none
  std::string_view request_id;
  std::string_view message_id{};        // the id of a WebSocket message
  std::string_view model;               // the model's own name; empty: no model was requested
  std::optional<request_usage> usage{}; // empty: no language model has answered
};

// The text of a log line, without time and level.
std::string access_line(const access_entry& e);
// Whether it is a successful poll by a machine. Polls are logged at the level debug only.
bool is_poll(const access_entry& e) noexcept;

class access_log {
public:
  static constexpr std::size_t file_bytes_max = 16u << 20;
  static constexpr std::size_t files_max = 2; // besides the current one

  // Takes the log level of the process. Errors: io_failed.
  static result<std::shared_ptr<access_log>> open(const std::string& file);
  void write(const access_entry& e);

  explicit access_log(std::shared_ptr<spdlog::logger> to);

private:
  std::shared_ptr<spdlog::logger> to_;
};

} // namespace baton::gateway
