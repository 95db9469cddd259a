// TLS of accepted connections: TLS 1.2 or newer, forward secrecy, no renegotiation, no resumption,
// http/1.1 alone. Knows a descriptor that does not block, and no event loop: each call goes as far
// as it can and says what to wait for. OpenSSL stays behind the wall.
#pragma once

#include "schema/result.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

struct ssl_ctx_st;
struct ssl_st;

namespace baton::gateway {

// A certificate and its key, as they were when they were read. Never changes; sessions hold it.
class tls_context {
public:
  // Both in PEM; the certificate first, then those between it and the root. Errors: bad_config,
  // with the file and what is wrong: it cannot be read, holds none, has a password, does not fit.
  static result<std::shared_ptr<const tls_context>> load(const std::string& certificate,
                                                         const std::string& key);
  ~tls_context();
  // When the certificate ends; far away if it does not say.
  std::chrono::system_clock::time_point ends_at() const;
  tls_context(const tls_context&) = delete;
  tls_context& operator=(const tls_context&) = delete;

private:
  friend class tls_session;
  explicit tls_context(ssl_ctx_st* ssl) : ssl_(ssl) {}
  ssl_ctx_st* ssl_;
};

enum class tls_step : std::uint8_t {
  done,
  wants_read, // wait until the descriptor can be read, then call again
  wants_write,
  closed, // by the peer
  failed,
};

// One connection. Not for several threads at once, but reading and writing may take turns.
class tls_session {
public:
  // Requires: the descriptor does not block, and outlives the session.
  tls_session(const tls_context& context, int descriptor);
  ~tls_session();
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;

  // First of all, until it is done.
  tls_step shake_hands();
  struct io {
    tls_step step = tls_step::failed;
    std::size_t bytes = 0; // if done
  };
  io read(char* to, std::size_t size);
  // After wants_write the same bytes, or more of them, must be offered again.
  io write(const char* from, std::size_t size);
  // Something was read from the descriptor and not yet from here.
  bool has_buffered() const;
  // Says that nothing more will come (close_notify), if that can be said at once.
  void say_goodbye();

private:
  tls_step step_of(int returned);

  ssl_st* ssl_;
  bool is_usable_ = true; // no call has failed
};

// The certificate for new connections; it may be exchanged while others are open. Any thread.
class tls_keeper {
public:
  // Errors: as tls_context::load.
  static result<std::shared_ptr<tls_keeper>> open(std::string certificate, std::string key);
  tls_keeper(std::string certificate, std::string key, std::shared_ptr<const tls_context> first);

  std::shared_ptr<const tls_context> look() const;
  // Reads the files again. Errors: as tls_context::load; then all stays as it is.
  result<void> reload();

private:
  const std::string certificate_;
  const std::string key_;
  mutable std::mutex mutex_;
  std::shared_ptr<const tls_context> now_;
};

} // namespace baton::gateway
