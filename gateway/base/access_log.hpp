// A line for each request that a gateway has answered, in a file of its own that is bounded. What
// was asked, and keys, are in no line. Any thread.
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

// Of all prompts and choices of a request, as far as they were told to its client.
struct request_usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t output_tokens = 0;
  ticket_id ticket; // the first one's; 0: none was granted
};

struct access_entry {
  std::string_view door;   // "http", "websocket" or "grpc"
  std::string_view method; // of HTTP
  std::string_view path;   // without its query
  int status = 0;          // HTTP's; over gRPC its code
  std::uint64_t bytes = 0; // of the answer, with its header; over gRPC of its messages
  double seconds = 0;
  std::string_view client; // address and port
  std::string_view key;    // the name of its API key; empty: none
  std::string_view request_id;
  std::string_view message_id{};        // a WebSocket's name for one of its requests
  std::string_view model;               // its own name; empty: none was asked
  std::optional<request_usage> usage{}; // none: no language model has answered
};

// What is written of it, without time and level.
std::string access_line(const access_entry& e);
// What machines ask again and again, and is answered well: told at the level "debug" alone.
bool is_poll(const access_entry& e) noexcept;

class access_log {
public:
  static constexpr std::size_t file_bytes_max = 16u << 20;
  static constexpr std::size_t files_max = 2; // besides the one that is written

  // Of the level that the process has. Errors: io_failed.
  static result<std::shared_ptr<access_log>> open(const std::string& file);
  void write(const access_entry& e);

  explicit access_log(std::shared_ptr<spdlog::logger> to);

private:
  std::shared_ptr<spdlog::logger> to_;
};

} // namespace baton::gateway
