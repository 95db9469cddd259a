#include "gateway/http/http_connection.hpp"

#include "gateway/base/access_log.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include <utility>

namespace baton::gateway {
namespace {

// Room for a header and for what a client sends ahead; bodies are moved out as they arrive.
constexpr std::size_t buffer_bytes_max = 64 * 1024;
// Bytes to read and drop after a refusal, so that the client sees the refusal before a reset.
constexpr std::size_t linger_bytes_max = 16u << 20;
constexpr std::chrono::milliseconds linger_time{2'000};

} // namespace

http_connection::http_connection(server_context& core, listener_kind listener, tcp::socket socket,
                                 std::uint64_t id)
    : core_(core), listener_(listener), entry_(core, id), socket_(std::move(socket)),
      bell_(std::make_shared<bell>(socket_.get_executor())), buffer_(buffer_bytes_max) {}

void http_connection::prepare() {
  error_code ignored;
  auto& socket = socket_.plain();
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(
      asio::socket_base::send_buffer_size(static_cast<int>(limits().send_buffer_bytes)), ignored);
  socket.non_blocking(true, ignored);
  const auto from = socket.remote_endpoint(ignored);
  const auto host = from.address().to_string();
  address_ = fmt::format("{}:{}", from.address().is_v6() ? "[" + host + "]" : host, from.port());
  std::weak_ptr<http_connection> weak = weak_from_this();
  watchdog_ = std::make_shared<watchdog>(socket_.get_executor(), [weak] {
    if (auto self = weak.lock(); self && self->socket_.is_here()) {
      error_code ec;
      self->socket_.plain().cancel(ec);
    }
  });
  bell_->on_ring([weak] {
    auto self = weak.lock();
    if (self && self->is_writing_ && self->stream_ && self->stream_->is_cut()) {
      self->watchdog_->arm(self->limits().cut_grace);
    }
  });
}

void http_connection::retire(after how) {
  watchdog_->retire();
  bell_->on_ring(nullptr);
  if (how != after::handed_over) {
    error_code ignored;
    socket_.send_close_notify();
    socket_.plain().shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
  }
}

void http_connection::stop() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->is_stopping_ = true;
    if (error_code ignored; self->socket_.is_here()) {
      self->socket_.plain().cancel(ignored);
    }
    self->bell_->ring();
  });
}

// The socket of a client that keeps up has room: no watchdog and no round of the event loop then.
asio::awaitable<bool> http_connection::write(std::string_view bytes) {
  has_begun_answer = true;
  bytes_ += bytes.size();
  error_code now;
  bytes.remove_prefix(socket_.write_some(asio::buffer(bytes), now));
  if (bytes.empty() || (now && now != asio::error::would_block && now != asio::error::try_again)) {
    co_return !now;
  }
  is_writing_ = true;
  watchdog_->arm(limits().write_timeout);
  auto [ec, n] = co_await asio::async_write(socket_, asio::buffer(bytes), as_values);
  watchdog_->disarm();
  is_writing_ = false;
  co_return !ec;
}

void http_connection::set_stream(const open_requests* stream) {
  if (stream_ && !stream) {
    model = stream_->model();
    usage_ = stream_->usage();
  }
  stream_ = stream;
}

void http_connection::begin_request(std::string_view path) {
  path_ = path;
  key_.clear();
  status_ = 0;
  bytes_ = 0;
  usage_.reset();
}

void http_connection::end_request() {
  const auto& log = core_.facts->access_log();
  if (!log || (status_ == 0 && path_.empty())) {
    return; // no request arrived
  }
  access_entry e;
  e.protocol = "http";
  e.method = method;
  e.path = path_;
  e.status = status_ == 0 ? row_of(errc::cancelled).http_status : status_; // nginx's 499
  e.bytes = bytes_;
  e.seconds = std::chrono::duration<double>(clock::now() - started_at).count();
  e.client = address_;
  e.key = key_.empty() ? who.name() : key_;
  e.request_id = framing.request_id;
  e.model = model;
  e.usage = usage_;
  log->write(e);
}

void http_connection::count_request(int status) {
  status_ = status;
  key_ = who.name();
  const auto took = std::chrono::duration<double>(clock::now() - started_at).count();
  core_.facts->metrics().http_request(route, method, status, took);
  core_.facts->torchserve().answered(status);
}

asio::awaitable<after> http_connection::reply(const http_reply& r, bool closes) {
  unwatch_client();
  framing.keeps_alive = framing.keeps_alive && !closes && !is_stopping_;
  count_request(r.status);
  const auto bytes = render(r, framing);
  if (!co_await write(bytes)) {
    co_return after::close;
  }
  if (closes) {
    co_return after::linger;
  }
  co_return framing.keeps_alive ? after::next_request : after::close;
}

asio::awaitable<void> http_connection::linger() {
  error_code ec;
  socket_.send_close_notify();
  socket_.plain().shutdown(tcp::socket::shutdown_send, ec);
  watchdog_->arm(linger_time);
  char sink[4096];
  for (std::size_t read = 0; !ec && read < linger_bytes_max && !watchdog_->has_expired();) {
    auto [e, n] = co_await socket_.plain().async_read_some(asio::buffer(sink), as_values);
    ec = e;
    read += n;
  }
}

void http_connection::watch_client() {
  if (buffer_.size() >= buffer_.max_size() / 2 || is_client_gone_) {
    return; // it pipelines a lot: the next write shows its hang-up
  }
  is_watching_ = true;
  socket_.plain().async_wait(
      tcp::socket::wait_read,
      asio::bind_cancellation_slot(
          watch_signal_.slot(), [self = shared_from_this(), round = watch_round_](error_code ec) {
            if (!ec && round == self->watch_round_) {
              self->on_readable();
            }
          }));
}

void http_connection::unwatch_client() {
  ++watch_round_;
  if (std::exchange(is_watching_, false)) {
    watch_signal_.emit(asio::cancellation_type::total);
  }
}

void http_connection::on_readable() {
  constexpr std::size_t step = 4096;
  error_code ec;
  const auto n = socket_.read_some(buffer_.prepare(step), ec);
  buffer_.commit(n);
  if (ec && ec != asio::error::would_block && ec != asio::error::try_again) {
    is_client_gone_ = true;
    is_watching_ = false;
    bell_->ring();
    return;
  }
  watch_client();
}

} // namespace baton::gateway
