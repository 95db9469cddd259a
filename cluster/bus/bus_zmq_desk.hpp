// An encrypted request-reply server for processes outside the cluster. They know our key; their own
// key identifies them across requests. Asking here grants no access.
#pragma once

#include "cluster/config/curve_key.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace baton::cluster {

inline constexpr std::size_t question_bytes_max = 64 << 10;
inline constexpr std::size_t answer_bytes_max = 4 << 20; // a configuration of 1,000 nodes

class question_desk {
public:
  // Called from the server's own thread, one at a time.
  using give_answer =
      std::function<std::string(std::string_view question, const std::string& public_key)>;

  // Errors: bad_config, address_in_use, io_failed.
  static result<std::unique_ptr<question_desk>> open(const std::string& endpoint,
                                                     const key_pair& own, give_answer answer);
  ~question_desk();

private:
  struct state;
  explicit question_desk(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

// A connection to an RPC server, for one request at a time.
class desk_line {
public:
  // `server`: its endpoint, with its key. Errors: bad_config.
  static result<desk_line> open(const std::string& server, const key_pair& own);
  desk_line(desk_line&&) noexcept;
  desk_line& operator=(desk_line&&) = delete;
  ~desk_line();

  // After a timeout the client cannot be used again. Errors: bad_config, link_down (no answer in
  // time; a wrong key and an absent server look the same).
  result<std::string> ask(const std::string& question, std::chrono::milliseconds patience);

private:
  struct state;
  explicit desk_line(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

// One request. Errors: as rpc_client.
result<std::string> ask_desk(const std::string& server, const key_pair& own,
                             const std::string& question, std::chrono::milliseconds patience);

} // namespace baton::cluster
