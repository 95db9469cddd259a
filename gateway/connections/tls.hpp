// TLS of accepted connections: TLS 1.2 or newer, forward secrecy, no renegotiation, no resumption,
// http/1.1 only. It works on a non-blocking descriptor without an event loop. Each call goes as far
// as it can and returns what to wait for. OpenSSL types stay out of this header.
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

// A certificate and its key as read from the files. Immutable; sessions hold it.
class tls_context {
public:
  // Both files are PEM: the certificate first, then the intermediate ones. Errors: bad_config, with
  // the file and the fault: unreadable, empty, has a password, does not match.
  static result<std::shared_ptr<const tls_context>> load(const std::string& certificate,
                                                         const std::string& key);
  ~tls_context();
  // When the certificate expires; far in the future if it has no end.
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

// One connection. One thread at a time; reads and writes may interleave.
class tls_session {
public:
  // Requires: the descriptor does not block and outlives the session.
  tls_session(const tls_context& context, int descriptor);
  ~tls_session();
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;

  // Call it until it is done, before read and write.
  tls_step shake_hands();
  struct io {
    tls_step step = tls_step::failed;
    std::size_t bytes = 0; // if done
  };
  io read(char* to, std::size_t size);
  // After wants_write the same bytes, or more of them, must be offered again.
  io write(const char* from, std::size_t size);
  // OpenSSL has read bytes from the descriptor that read() has not returned yet.
  bool has_buffered() const;
  // Sends close_notify if it can be written at once.
  void send_close_notify();

private:
  tls_step step_of(int returned);

  ssl_st* ssl_;
  bool is_usable_ = true; // no call has failed
};

// The certificate for new connections. Any thread may replace it while connections are open.
class certificate_store {
public:
  // Errors: as tls_context::load.
  static result<std::shared_ptr<certificate_store>> open(std::string certificate, std::string key);
  certificate_store(std::string certificate, std::string key,
                    std::shared_ptr<const tls_context> first);

  std::shared_ptr<const tls_context> look() const;
  // Reads the files again. Errors: as tls_context::load; the old certificate then stays in use.
  result<void> reload();

private:
  const std::string certificate_;
  const std::string key_;
  mutable std::mutex mutex_;
  std::shared_ptr<const tls_context> now_;
};

} // namespace baton::gateway
