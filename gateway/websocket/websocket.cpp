// Heavy: Asio and Beast's WebSocket.
//
// One coroutine reads messages, one writes; both on the connection's strand.
#include "gateway/websocket/websocket.hpp"

#include "gateway/base/request_id.hpp"
#include "gateway/config/websocket_settings.hpp"
#include "gateway/state/request_guard.hpp"
#include "gateway/websocket/socket_protocol.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>

namespace baton::gateway {
namespace {

namespace websocket = boost::beast::websocket;
using upgrade_request = boost::beast::http::request<boost::beast::http::string_body>;

class websocket_session : public std::enable_shared_from_this<websocket_session> {
public:
  websocket_session(server_context& core, client_socket socket, std::uint64_t id, principal who,
                    socket_origin origin)
      : core_(core), entry_(core, id), request_id_(origin.request_id), ws_(std::move(socket)),
        bell_(std::make_shared<bell>(ws_.get_executor())),
        requests_(core.websocket, std::move(who), std::move(origin), [b = bell_] { b->ring(); }) {}

  void start(upgrade_request upgrade);
  void stop() { // any thread
    asio::post(ws_.get_executor(), [self = shared_from_this()] { self->end(); });
  }

private:
  asio::awaitable<void> run(upgrade_request upgrade);
  asio::awaitable<void> read_loop();
  asio::awaitable<bool> read_message(std::string& text, std::optional<error>& fault);
  asio::awaitable<void> write_loop();
  asio::awaitable<bool> write(std::string_view text);
  void end();

  server_context& core_;
  table_entry entry_;
  const std::string request_id_;
  websocket::stream<client_socket> ws_;
  std::shared_ptr<bell> bell_;
  std::shared_ptr<watchdog> watchdog_;
  socket_requests requests_;
  std::array<char, 4096> piece_; // of the message that is read
  bool is_over_ = false;
  bool is_writing_ = false;
  std::optional<websocket::close_code> close_with_;
};

void websocket_session::start(upgrade_request upgrade) {
  std::weak_ptr<websocket_session> weak = weak_from_this();
  watchdog_ = std::make_shared<watchdog>(ws_.get_executor(), [weak] {
    if (auto self = weak.lock()) {
      self->end();
    }
  });
  bell_->on_ring([weak] {
    auto self = weak.lock();
    // The socket itself blocks: do not wait for the whole time-out.
    if (self && self->is_writing_ && self->requests_.has_cut_stream()) {
      self->watchdog_->arm(self->core_.config().http_bounds.cut_grace);
    }
  });
  asio::co_spawn(
      ws_.get_executor(),
      [self = shared_from_this(), upgrade = std::move(upgrade)]() mutable {
        return self->run(std::move(upgrade));
      },
      [self = shared_from_this()](std::exception_ptr e) {
        if (e) {
          spdlog::error("a WebSocket ended with an exception");
          self->end();
        }
      });
}

void websocket_session::end() {
  is_over_ = true;
  error_code ignored;
  boost::beast::get_lowest_layer(ws_).close(ignored);
  bell_->ring();
}

asio::awaitable<void> websocket_session::run(upgrade_request upgrade) {
  apply_limits(core_.config(), ws_);
  const auto offered = upgrade[boost::beast::http::field::sec_websocket_protocol];
  const bool has_protocol = offers_protocol({offered.data(), offered.size()});
  ws_.set_option(websocket::stream_base::decorator([has_protocol, id = request_id_](
                                                       websocket::response_type& answer) {
    answer.set(boost::beast::string_view(request_id_header.data(), request_id_header.size()), id);
    if (has_protocol) {
      answer.set(boost::beast::http::field::sec_websocket_protocol,
                 {socket_protocol.data(), socket_protocol.size()});
    }
  }));
  auto [ec] = co_await ws_.async_accept(upgrade, as_values);
  if (ec) {
    co_return;
  }
  asio::co_spawn(
      ws_.get_executor(), [self = shared_from_this()] { return self->write_loop(); },
      [self = shared_from_this()](std::exception_ptr) { self->end(); });
  co_await read_loop();
  requests_.close_all();
  is_over_ = true;
  bell_->ring();
}

asio::awaitable<void> websocket_session::read_loop() {
  std::string text;
  while (!is_over_) {
    std::optional<error> fault;
    text.clear();
    if (!co_await read_message(text, fault)) {
      co_return;
    }
    if (!fault && ws_.got_text()) {
      fault = guarded("websocket", [&] { requests_.take(text); });
    } else if (!fault) {
      requests_.note({fail(errc::invalid_request, "messages must be text, not binary"), {}, false});
    }
    if (fault) {
      requests_.note({*fault, {}, true});
    }
    if (requests_.sends_only_bad_messages()) {
      close_with_ = websocket::close_code::policy_error;
      bell_->ring();
    }
    if (requests_.has_too_many_replies()) {
      end();
    }
  }
}

// False: the socket has ended. If memory is short, the message is read to its end and dropped. The
// text grows here and not in Beast: an exception inside Beast's operation would not end the
// coroutine, but leave the session waiting without end.
asio::awaitable<bool> websocket_session::read_message(std::string& text,
                                                      std::optional<error>& fault) {
  do {
    auto [ec, n] = co_await ws_.async_read_some(asio::buffer(piece_), as_values);
    if (ec) {
      co_return false;
    }
    if (!fault) {
      fault = guarded("websocket", [&, size = n] { text.append(piece_.data(), size); });
    }
  } while (!ws_.is_message_done());
  co_return true;
}

asio::awaitable<bool> websocket_session::write(std::string_view text) {
  is_writing_ = true;
  watchdog_->arm(core_.config().http_bounds.write_timeout);
  auto [ec, n] = co_await ws_.async_write(asio::buffer(text), as_values);
  watchdog_->disarm();
  is_writing_ = false;
  co_return !ec;
}

asio::awaitable<void> websocket_session::write_loop() {
  constexpr std::chrono::hours no_limit{24};
  std::vector<std::string> out;
  while (!is_over_) {
    out.clear();
    requests_.collect(out);
    for (const auto& text : out) {
      if (!co_await write(text)) {
        co_return;
      }
    }
    if (close_with_) {
      watchdog_->arm(core_.config().http_bounds.cut_grace);
      co_await ws_.async_close(*close_with_, as_values);
      co_return;
    }
    if (out.empty()) {
      co_await bell_->wait(no_limit);
    }
  }
}

} // namespace

void start_websocket_session(server_context& core, client_socket socket, upgrade_request upgrade,
                             principal who, socket_origin origin) {
  // The HTTP session was counted against the limit and leaves the table now.
  const auto id = core.connections.enter([] {}, SIZE_MAX);
  if (!id) {
    return; // the server is stopping
  }
  auto session = std::make_shared<websocket_session>(core, std::move(socket), *id, std::move(who),
                                                     std::move(origin));
  core.connections.replace(*id, [weak = std::weak_ptr(session)] {
    if (auto self = weak.lock()) {
      self->stop();
    }
  });
  session->start(std::move(upgrade));
}

} // namespace baton::gateway
