// Heavy: Asio and Beast's HTTP parser.
#include "gateway/http_session.hpp"

#include "gateway/openai_response.hpp"
#include "gateway/websocket.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include <spdlog/spdlog.h>

#include <ctime>
#include <iterator>

namespace baton::gateway {
namespace {

namespace http = boost::beast::http;
using parser = http::request_parser<http::string_body>;

// Room for a header and what a client sends ahead; bodies are moved out as they come.
constexpr std::size_t buffer_bytes_max = 64 * 1024;
// What is read and thrown away after a refusal, so that the client sees the refusal before a reset.
constexpr std::size_t linger_bytes_max = 16u << 20;
constexpr std::chrono::milliseconds linger_time{2'000};

std::string_view view(boost::beast::string_view s) noexcept {
  return {s.data(), s.size()};
}

class http_session : public std::enable_shared_from_this<http_session> {
public:
  http_session(door_core& core, tcp::socket socket, std::uint64_t id)
      : core_(core), entry_(core, id), socket_(std::move(socket)),
        bell_(std::make_shared<bell>(socket_.get_executor())) {}

  void start();
  void stop() { // any thread
    asio::post(bell_executor(), [self = shared_from_this()] {
      self->is_stopping_ = true;
      error_code ignored;
      self->socket_.cancel(ignored);
      self->bell_->ring();
    });
  }

private:
  enum class after : std::uint8_t { next_request, close, linger, handed_over };
  using clock = std::chrono::steady_clock;

  asio::any_io_executor bell_executor() { return socket_.get_executor(); }
  asio::awaitable<void> run();
  asio::awaitable<after> one_request(bool is_first);
  asio::awaitable<error_code> read_head(parser& p, bool is_first);
  asio::awaitable<after> judge_read_error(error_code ec);
  asio::awaitable<after> serve(parser& p);
  std::optional<http_reply> refuse_head(parser& p) const;
  http_call call_of(const parser& p) const;
  asio::awaitable<after> reply(const http_reply& r, bool closes = false);
  asio::awaitable<bool> write(std::string_view bytes);
  asio::awaitable<void> linger();

  asio::awaitable<after> carry_out(openai_generate call);
  asio::awaitable<after> carry_out(tokenize_call call);
  asio::awaitable<after> carry_out(detokenize_call call);
  asio::awaitable<after> whole_answer(open_request& open, const reply_shape& shape);
  asio::awaitable<after> event_answer(open_request& open, const reply_shape& shape);
  asio::awaitable<bool> write_events(std::string& events, bool is_last);
  asio::awaitable<bool> write_available(open_request& open, event_writer& writer,
                                        std::string& out);
  reply_identity identity_of(ticket_id ticket) const {
    return {ticket, std::time(nullptr), core_.config().build};
  }
  asio::awaitable<std::optional<stream_event>> next_event_of(open_request& open);

  void watch_client();
  void unwatch_client();
  void on_readable();
  std::function<void()> wake() const {
    return [b = bell_] { b->ring(); };
  }

  door_core& core_;
  table_entry entry_;
  tcp::socket socket_;
  std::shared_ptr<bell> bell_;
  std::shared_ptr<watchdog> watchdog_;
  boost::beast::flat_buffer buffer_{buffer_bytes_max};
  // Of the request at hand:
  reply_framing framing_;
  std::string route_ = "other";
  clock::time_point started_at_;
  open_request* open_now_ = nullptr;
  bool is_writing_ = false;
  // Of the connection:
  bool is_client_gone_ = false;
  bool is_stopping_ = false;
  bool is_watching_ = false;
  std::uint64_t watch_round_ = 0;
  asio::cancellation_signal watch_signal_;
};

void http_session::start() {
  error_code ignored;
  const auto& limits = core_.config().http_bounds;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(
      asio::socket_base::send_buffer_size(static_cast<int>(limits.send_buffer_bytes)), ignored);
  socket_.non_blocking(true, ignored);
  std::weak_ptr<http_session> weak = weak_from_this();
  watchdog_ = std::make_shared<watchdog>(socket_.get_executor(), [weak] {
    if (auto self = weak.lock()) {
      error_code ec;
      self->socket_.cancel(ec);
    }
  });
  bell_->on_ring([weak] {
    auto self = weak.lock();
    // A slow reader was cut while its last write hangs: do not wait for the whole time-out.
    if (self && self->is_writing_ && self->open_now_ && self->open_now_->is_cut()) {
      self->watchdog_->arm(self->core_.config().http_bounds.cut_grace);
    }
  });
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->run(); },
      [self = shared_from_this()](std::exception_ptr e) {
        if (e) { // allocation failures; I/O comes as values
          spdlog::error("a connection ended with an exception");
        }
      });
}

asio::awaitable<void> http_session::run() {
  auto next = after::next_request;
  for (bool is_first = true; next == after::next_request && !is_stopping_; is_first = false) {
    next = co_await one_request(is_first);
  }
  if (next == after::linger) {
    co_await linger();
  }
  watchdog_->retire();
  bell_->on_ring(nullptr);
  error_code ignored;
  if (next != after::handed_over) {
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
  }
}

asio::awaitable<error_code> http_session::read_head(parser& p, bool is_first) {
  const auto& limits = core_.config().http_bounds;
  if (buffer_.size() == 0) {
    watchdog_->arm(is_first ? limits.header_timeout : limits.idle_timeout);
    auto [ec] = co_await socket_.async_wait(tcp::socket::wait_read, as_values);
    if (ec) {
      co_return asio::error::eof; // idle for too long, or the server stops: no word is due
    }
  }
  watchdog_->arm(limits.header_timeout);
  started_at_ = clock::now();
  auto [ec, n] = co_await http::async_read_header(socket_, buffer_, p, as_values);
  co_return ec;
}

asio::awaitable<http_session::after> http_session::judge_read_error(error_code ec) {
  framing_.keeps_alive = false;
  if (watchdog_->has_bitten()) {
    const auto e = fail(errc::request_timeout, "the request did not come in time");
    co_return co_await reply(error_reply(e), true);
  }
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
    const auto e = fail(errc::header_too_large, "the header has more than {} bytes",
                        core_.config().http_bounds.header_bytes_max);
    co_return co_await reply(error_reply(e), true);
  }
  if (ec == http::error::body_limit) {
    const auto e = fail(errc::payload_too_large, "the body has more than {} bytes",
                        core_.config().http_bounds.body_bytes_max);
    co_return co_await reply(error_reply(e), true);
  }
  const bool is_hang_up = ec == http::error::end_of_stream || ec == http::error::partial_message;
  if (!is_hang_up && ec.category() == http::make_error_code(http::error::bad_method).category()) {
    const auto e = fail(errc::invalid_request, "this is not HTTP/1.1: {}", ec.message());
    co_return co_await reply(error_reply(e), true);
  }
  co_return after::close;
}

http_call http_session::call_of(const parser& p) const {
  const auto& m = p.get();
  http_call call;
  call.method = view(m.method_string());
  call.target = view(m.target());
  call.host = view(m[http::field::host]);
  call.origin = view(m[http::field::origin]);
  call.content_type = view(m[http::field::content_type]);
  call.content_encoding = view(m[http::field::content_encoding]);
  call.authorization = view(m[http::field::authorization]);
  call.is_websocket_upgrade = boost::beast::websocket::is_upgrade(m);
  call.body = m.body();
  return call;
}

// What is wrong with the request whatever its body says.
std::optional<http_reply> http_session::refuse_head(parser& p) const {
  const auto& m = p.get();
  const auto lines = std::distance(m.begin(), m.end());
  if (lines > static_cast<std::ptrdiff_t>(core_.config().http_bounds.header_lines_max)) {
    return error_reply(fail(errc::header_too_large, "the header has {} lines of at most {}", lines,
                            core_.config().http_bounds.header_lines_max));
  }
  if (m.version() >= 11 && m.count(http::field::host) != 1) { // RFC 9112, section 3.2
    return error_reply(fail(errc::invalid_request, "HTTP/1.1 needs one Host header"));
  }
  if (m.count(http::field::transfer_encoding) > 0 && m.count(http::field::content_length) > 0) {
    return error_reply( // RFC 9112, section 6.1: the way of request smuggling
        fail(errc::invalid_request, "Transfer-Encoding and Content-Length exclude each other"));
  }
  return core_.api.refuse_early(call_of(p));
}

asio::awaitable<http_session::after> http_session::one_request(bool is_first) {
  const auto& limits = core_.config().http_bounds;
  framing_ = {};
  route_ = "other";
  started_at_ = clock::now();
  parser p;
  p.header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
  p.body_limit(limits.body_bytes_max);
  auto on_chunk = [most = limits.chunk_extension_bytes_max](std::uint64_t,
                                                            boost::beast::string_view extensions,
                                                            error_code& ec) {
    if (extensions.size() > most) {
      ec = http::error::bad_chunk_extension;
    }
  };
  p.on_chunk_header(on_chunk);
  if (auto ec = co_await read_head(p, is_first); ec) {
    co_return co_await judge_read_error(ec);
  }
  const auto& m = p.get();
  framing_ = {m.version() < 11, m.keep_alive(), m.method() == http::verb::head};
  route_ = http_api::route_name(view(m.target()));
  if (auto refusal = refuse_head(p)) {
    // Without its body read the connection has no known next request.
    co_return co_await reply(*refusal, !p.is_done());
  }
  if (http::token_list(m[http::field::expect]).exists("100-continue") && m.version() >= 11) {
    if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) {
      co_return after::close;
    }
  }
  if (!p.is_done()) {
    watchdog_->arm(limits.body_timeout);
    auto [ec, n] = co_await http::async_read(socket_, buffer_, p, as_values);
    if (ec) {
      co_return co_await judge_read_error(ec);
    }
  }
  watchdog_->disarm();
  co_return co_await serve(p);
}

asio::awaitable<http_session::after> http_session::serve(parser& p) {
  auto plan = core_.api.plan(call_of(p));
  if (auto* r = std::get_if<http_reply>(&plan)) {
    co_return co_await reply(*r);
  }
  if (std::holds_alternative<websocket_upgrade>(plan)) {
    watchdog_->disarm();
    start_websocket_session(core_, std::move(socket_), p.release());
    co_return after::handed_over;
  }
  p.get().body().clear();
  p.get().body().shrink_to_fit();
  if (auto* g = std::get_if<openai_generate>(&plan)) {
    co_return co_await carry_out(std::move(*g));
  }
  if (auto* t = std::get_if<tokenize_call>(&plan)) {
    co_return co_await carry_out(std::move(*t));
  }
  co_return co_await carry_out(std::move(std::get<detokenize_call>(plan)));
}

asio::awaitable<bool> http_session::write(std::string_view bytes) {
  is_writing_ = true;
  watchdog_->arm(core_.config().http_bounds.write_timeout);
  auto [ec, n] = co_await asio::async_write(socket_, asio::buffer(bytes), as_values);
  watchdog_->disarm();
  is_writing_ = false;
  co_return !ec;
}

asio::awaitable<http_session::after> http_session::reply(const http_reply& r, bool closes) {
  unwatch_client();
  framing_.keeps_alive = framing_.keeps_alive && !closes && !is_stopping_;
  const auto took = std::chrono::duration<double>(clock::now() - started_at_).count();
  core_.facts->metrics().http_request(route_, r.status, took);
  if (!co_await write(render(r, framing_))) {
    co_return after::close;
  }
  if (closes) {
    co_return after::linger;
  }
  co_return framing_.keeps_alive ? after::next_request : after::close;
}

// The client may still be sending: closing now would reset the connection under our answer.
asio::awaitable<void> http_session::linger() {
  error_code ec;
  socket_.shutdown(tcp::socket::shutdown_send, ec);
  watchdog_->arm(linger_time);
  char sink[4096];
  for (std::size_t read = 0; !ec && read < linger_bytes_max && !watchdog_->has_bitten();) {
    auto [e, n] = co_await socket_.async_read_some(asio::buffer(sink), as_values);
    ec = e;
    read += n;
  }
}

// Reads ahead while an answer is made, so that a client's hang-up is seen at once. What a client
// sends ahead is kept for its turn, as far as the buffer goes.
void http_session::watch_client() {
  if (buffer_.size() >= buffer_.max_size() / 2 || is_client_gone_) {
    return; // it pipelines a lot: its hang-up shows at the next write
  }
  is_watching_ = true;
  socket_.async_wait(
      tcp::socket::wait_read,
      asio::bind_cancellation_slot(watch_signal_.slot(), [self = shared_from_this(),
                                                          round = watch_round_](error_code ec) {
        if (!ec && round == self->watch_round_) {
          self->on_readable();
        }
      }));
}

void http_session::unwatch_client() {
  ++watch_round_;
  if (std::exchange(is_watching_, false)) {
    watch_signal_.emit(asio::cancellation_type::total);
  }
}

void http_session::on_readable() {
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

asio::awaitable<std::optional<stream_event>> http_session::next_event_of(open_request& open) {
  return next_event(open, *bell_, [this] { return is_client_gone_ || is_stopping_; });
}

asio::awaitable<http_session::after> http_session::carry_out(openai_generate call) {
  auto open = core_.http.open(std::move(call.request), call.add_generation_prompt, wake());
  if (!open) {
    co_return co_await reply(error_reply(open.error()));
  }
  if (call.shape.model.empty()) {
    call.shape.model = open->model();
  }
  open_now_ = &*open;
  watch_client();
  const auto next = call.shape.is_stream ? co_await event_answer(*open, call.shape)
                                         : co_await whole_answer(*open, call.shape);
  open_now_ = nullptr;
  unwatch_client();
  if (is_client_gone_) {
    core_.http.counts().client_gone("http");
  }
  co_return next;
}

// The error that an event means for a request of which nothing was sent yet.
std::optional<http_reply> refusal_of(const stream_event& e) {
  if (const auto* r = std::get_if<rejected>(&e)) {
    return error_reply(r->reason, r->retry_after);
  }
  if (const auto* f = std::get_if<failed>(&e)) {
    return error_reply(f->reason);
  }
  if (const auto* c = std::get_if<chunk>(&e)) {
    if (const auto failure = failure_of(*c)) {
      return error_reply(*failure);
    }
  }
  return std::nullopt;
}

bool is_terminal(const stream_event& e) {
  return std::holds_alternative<rejected>(e) || std::holds_alternative<failed>(e);
}

asio::awaitable<http_session::after> http_session::whole_answer(open_request& open,
                                                                const reply_shape& shape) {
  whole_reply answer(shape);
  ticket_id ticket;
  while (auto event = co_await next_event_of(open)) {
    if (auto refusal = refusal_of(*event)) {
      if (is_terminal(*event)) {
        open.ended();
      }
      co_return co_await reply(*refusal);
    }
    if (const auto* g = std::get_if<granted>(&*event)) {
      ticket = g->ticket;
    } else if (auto* c = std::get_if<chunk>(&*event)) {
      answer.add(std::move(*c));
    }
    if (answer.is_complete()) {
      open.ended();
      http_reply r;
      r.body = answer.body(identity_of(ticket));
      co_return co_await reply(r);
    }
  }
  co_return after::close; // the client is gone; dropping `open` cancels the ticket
}

asio::awaitable<bool> http_session::write_events(std::string& events, bool is_last) {
  if (framing_.is_http_1_0) {
    const bool ok = co_await write(events);
    events.clear();
    co_return ok;
  }
  std::string framed;
  framed.reserve(events.size() + 32);
  if (!events.empty()) {
    append_chunk(framed, events);
  }
  if (is_last) {
    framed += "0\r\n\r\n";
  }
  events.clear();
  co_return co_await write(framed);
}

// Everything that waits in the stream goes out in one write: a write per token is what costs.
asio::awaitable<bool> http_session::write_available(open_request& open, event_writer& writer,
                                                    std::string& out) {
  while (auto event = open.next()) {
    if (const auto* c = std::get_if<chunk>(&*event)) {
      if (const auto failure = failure_of(*c)) {
        writer.fail(*failure, out);
      } else {
        writer.add(*c, out);
      }
    } else if (const auto* f = std::get_if<failed>(&*event)) {
      open.ended();
      writer.fail(f->reason, out);
    } else if (const auto* r = std::get_if<rejected>(&*event)) {
      open.ended();
      writer.fail(r->reason, out);
    }
    if (writer.has_ended()) {
      break;
    }
  }
  if (out.empty()) {
    co_return true; // text held back for the rest of a character
  }
  co_return co_await write_events(out, writer.has_ended());
}

asio::awaitable<http_session::after> http_session::event_answer(open_request& open,
                                                                const reply_shape& shape) {
  ticket_id ticket;
  std::optional<stream_event> first;
  while ((first = co_await next_event_of(open))) {
    const auto* g = std::get_if<granted>(&*first);
    if (!g) {
      break;
    }
    ticket = g->ticket;
  }
  if (!first) {
    co_return after::close;
  }
  if (auto refusal = refusal_of(*first)) { // nothing was sent: a plain HTTP error is still possible
    if (is_terminal(*first)) {
      open.ended();
    }
    co_return co_await reply(*refusal);
  }
  framing_.keeps_alive = framing_.keeps_alive && !framing_.is_http_1_0;
  event_writer writer(shape, identity_of(ticket));
  auto header = event_stream_header(framing_);
  std::string out;
  writer.add(std::get<chunk>(*first), out);
  if (!co_await write(header)) {
    co_return after::close;
  }
  const auto ping_interval = core_.config().http_bounds.sse_ping_interval;
  for (bool is_ok = co_await write_available(open, writer, out); !writer.has_ended();
       is_ok = co_await write_available(open, writer, out)) {
    if (!is_ok || is_client_gone_ || is_stopping_) {
      co_return after::close;
    }
    const auto before = clock::now();
    co_await bell_->wait(ping_interval);
    if (clock::now() - before >= ping_interval) {
      out += ": waiting\n\n"; // a comment: keeps proxies from giving up
    }
  }
  const bool was_cut = open.is_cut();
  open.ended();
  const auto took = std::chrono::duration<double>(clock::now() - started_at_).count();
  core_.facts->metrics().http_request(route_, 200, took);
  unwatch_client();
  co_return framing_.keeps_alive && !was_cut ? after::next_request : after::close;
}

asio::awaitable<http_session::after> http_session::carry_out(tokenize_call call) {
  auto open = core_.http.tokenize(call.model, std::move(call.input), call.add_generation_prompt,
                                  wake());
  if (!open) {
    co_return co_await reply(error_reply(open.error()));
  }
  const auto event = co_await next_event_of(*open);
  if (!event) {
    co_return after::close;
  }
  open->ended();
  const auto* answer = std::get_if<tokenized>(&*event);
  if (!answer) {
    co_return co_await reply(refusal_of(*event).value_or(http_reply{}));
  }
  if (answer->failure) {
    co_return co_await reply(error_reply(*answer->failure));
  }
  http_reply r;
  r.body = tokenize_body(*answer, call.returns_pieces);
  co_return co_await reply(r);
}

asio::awaitable<http_session::after> http_session::carry_out(detokenize_call call) {
  auto open = core_.http.detokenize(call.model, std::move(call.ids), wake());
  if (!open) {
    co_return co_await reply(error_reply(open.error()));
  }
  const auto event = co_await next_event_of(*open);
  if (!event) {
    co_return after::close;
  }
  open->ended();
  const auto* answer = std::get_if<detokenized>(&*event);
  if (!answer) {
    co_return co_await reply(refusal_of(*event).value_or(http_reply{}));
  }
  if (answer->failure) {
    co_return co_await reply(error_reply(*answer->failure));
  }
  http_reply r;
  r.body = detokenize_body(*answer);
  co_return co_await reply(r);
}

} // namespace

bool start_http_session(door_core& core, tcp::socket& socket) {
  // The stop function is known only with the session: until then there is nothing to stop.
  const auto id = core.connections.enter([] {}, core.config().http_bounds.connections_max);
  if (!id) {
    return false;
  }
  auto session = std::make_shared<http_session>(core, std::move(socket), *id);
  core.connections.replace(*id, [weak = std::weak_ptr(session)] {
    if (auto self = weak.lock()) {
      self->stop();
    }
  });
  session->start();
  return true;
}

} // namespace baton::gateway
