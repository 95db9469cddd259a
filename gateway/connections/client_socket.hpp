// The socket of an accepted connection, plain or under TLS, with one interface for HTTP and
// WebSocket. It offers non-blocking reads and writes, the same as Asio operations, and a wait for
// input. Used on the connection's strand. Heavy: Asio.
#pragma once

#include "gateway/connections/tls.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/websocket/teardown.hpp>

#include <array>
#include <memory>
#include <utility>

namespace baton::gateway {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

class client_socket {
public:
  using executor_type = tcp::socket::executor_type;

  explicit client_socket(tcp::socket socket)
      : executor_(socket.get_executor()),
        layers_(std::make_shared<layers>(layers{std::move(socket), nullptr})) {}
  ~client_socket();
  client_socket(client_socket&& other) noexcept
      // NOLINTNEXTLINE(performance-move-constructor-init): get_executor holds after a move
      : executor_(other.executor_), layers_(std::move(other.layers_)) {}
  client_socket& operator=(client_socket&&) = delete;

  executor_type get_executor() { return executor_; }
  // False after a move. All members but get_executor require it.
  bool is_here() const noexcept { return layers_ != nullptr; }
  // The TCP socket beneath, for options, waits and cancels. With TLS its bytes are records.
  tcp::socket& plain() noexcept { return layers_->socket; }

  // All further bytes are TLS. False: the handshake failed. Requires: the socket does not block.
  asio::awaitable<bool> secure(const tls_context& context);
  // Waits until there is something to read.
  asio::awaitable<error_code> wait_readable();
  // Fails with asio::error::would_block if nothing can be transferred now.
  std::size_t read_some(asio::mutable_buffer to, error_code& ec);
  std::size_t write_some(asio::const_buffer from, error_code& ec);
  // Ends writing. The client sees the end of the stream after the last byte.
  void send_close_notify();
  void close(error_code& ec) { layers_->socket.close(ec); }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& to, Token&& token) {
    if (!layers_->tls) {
      return layers_->socket.async_read_some(to, std::forward<Token>(token));
    }
    return asio::async_compose<Token, void(error_code, std::size_t)>(reading<Buffers>{layers_, to},
                                                                     token, layers_->socket);
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& from, Token&& token) {
    if (!layers_->tls) {
      return layers_->socket.async_write_some(from, std::forward<Token>(token));
    }
    return asio::async_compose<Token, void(error_code, std::size_t)>(
        writing<Buffers>{layers_, from}, token, layers_->socket);
  }

private:
  static constexpr std::size_t record_bytes_max = 16 * 1024;

  // Operations under way share ownership: when one resumes, its socket may be closed or its
  // client_socket destroyed. TLS stores the number of the descriptor, and another connection may
  // reuse it. So TLS is not called once the socket is closed.
  struct layers {
    tcp::socket socket;
    std::unique_ptr<tls_session> tls; // null: plain
  };

  // Tries, waits until the socket is ready, and tries again. A result that is there at once is
  // posted: no handler runs inside the call that started the operation.
  template <class Operation>
  struct attempt {
    std::shared_ptr<layers> on;
    bool is_first = true;
    bool is_over = false;
    error_code ec = {};
    std::size_t bytes = 0;

    template <class Self>
    void advance(Self& self, error_code waited, tls_session::io (Operation::*one)()) {
      const bool now = std::exchange(is_first, false);
      if (!std::exchange(is_over, true)) {
        ec = !waited && !on->socket.is_open() ? asio::error::operation_aborted : waited;
        if (!ec) {
          const auto did = (static_cast<Operation*>(this)->*one)();
          bytes = did.bytes;
          if (did.step == tls_step::wants_read || did.step == tls_step::wants_write) {
            is_over = false;
            auto& beneath = on->socket; // moved into the wait and kept alive there
            beneath.async_wait(wait_for(did.step), std::move(self));
            return;
          }
          ec = error_of(did.step);
        }
        if (now) {
          auto& beneath = on->socket;
          asio::post(beneath.get_executor(), std::move(self));
          return;
        }
      }
      self.complete(ec, bytes);
    }
  };

  template <class Buffers>
  struct reading : attempt<reading<Buffers>> {
    Buffers to;
    reading(std::shared_ptr<layers> l, const Buffers& b) : attempt<reading>{std::move(l)}, to(b) {}
    template <class Self>
    void operator()(Self& self, error_code waited = {}) {
      this->advance(self, waited, &reading::one);
    }
    tls_session::io one() {
      for (auto b = asio::buffer_sequence_begin(to); b != asio::buffer_sequence_end(to); ++b) {
        const asio::mutable_buffer part(*b);
        if (part.size() > 0) {
          return this->on->tls->read(static_cast<char*>(part.data()), part.size());
        }
      }
      return {tls_step::done, 0};
    }
  };

  template <class Buffers>
  struct writing : attempt<writing<Buffers>> {
    Buffers from;
    writing(std::shared_ptr<layers> l, const Buffers& b)
        : attempt<writing>{std::move(l)}, from(b) {}
    template <class Self>
    void operator()(Self& self, error_code waited = {}) {
      this->advance(self, waited, &writing::one);
    }
    // Writes one record from all pieces, so a frame's header and its content leave together.
    tls_session::io one() {
      std::array<char, record_bytes_max> record;
      const auto size = asio::buffer_copy(asio::buffer(record), from);
      return this->on->tls->write(record.data(), size);
    }
  };

  static error_code error_of(tls_step step);
  static tcp::socket::wait_type wait_for(tls_step step) {
    return step == tls_step::wants_write ? tcp::socket::wait_write : tcp::socket::wait_read;
  }

  executor_type executor_;
  std::shared_ptr<layers> layers_; // null: moved from
};

// The functions that Beast's WebSocket requires of a socket besides reading and writing.
inline void beast_close_socket(client_socket& socket) {
  error_code ignored;
  socket.close(ignored);
}
inline void teardown(boost::beast::role_type role, client_socket& socket, error_code& ec) {
  socket.send_close_notify();
  boost::beast::websocket::teardown(role, socket.plain(), ec);
}
template <class Handler>
void async_teardown(boost::beast::role_type role, client_socket& socket, Handler&& handler) {
  socket.send_close_notify();
  boost::beast::websocket::async_teardown(role, socket.plain(), std::forward<Handler>(handler));
}

} // namespace baton::gateway
