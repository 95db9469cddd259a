// Heavy: Asio and Beast's HTTP parser.
#include "gateway/base/http_header.hpp"
#include "gateway/base/request_id.hpp"
#include "gateway/http/http_answers.hpp"
#include "gateway/http/http_connection.hpp"
#include "gateway/http/http_request.hpp"
#include "gateway/state/request_guard.hpp"
#include "gateway/websocket/websocket.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/beast/core/read_size.hpp>
#include <spdlog/spdlog.h>

namespace baton::gateway {
namespace {

namespace http = boost::beast::http;

// Reads requests one after the other, calls their handlers and carries out the results.
class http_session {
public:
  http_session(const http_api& api, std::shared_ptr<http_connection> client)
      : api_(api), client_(std::move(client)) {}
  asio::awaitable<void> run();

private:
  asio::awaitable<after> shake_hands();
  asio::awaitable<after> one_request(bool is_first);
  asio::awaitable<after> end_faulty(const http_request& request, const error& why);
  asio::awaitable<after> answer_request(http_request& request, bool is_first);
  asio::awaitable<bool> await_request(bool is_first);
  asio::awaitable<error_code> read_head(http_request& request, bool is_first);
  asio::awaitable<error_code> parse_until(http_request::parser& reader,
                                          bool (http_request::parser::*is_read)() const);
  asio::awaitable<after> judge_read_error(const http_request& request, error_code ec);
  asio::awaitable<void> wait_informed();
  asio::awaitable<after> serve(http_request& request, const found_route& route);
  asio::awaitable<after> carry_out(http_request& request, http_reply& reply);
  asio::awaitable<after> carry_out(http_request& request, websocket_upgrade& upgrade);
  asio::awaitable<after> carry_out(http_request&, generation_call& call) {
    return answer_generation(*client_, std::move(call));
  }
  asio::awaitable<after> carry_out(http_request&, message_call& call) {
    return answer_single(*client_, std::move(call));
  }
  asio::awaitable<after> carry_out(http_request&, worker_call& call) {
    return answer_worker(*client_, std::move(call));
  }
  asio::awaitable<after> carry_out(http_request&, std::shared_ptr<response_call>& call) {
    return answer_response(*client_, std::move(call));
  }
  void trace_refusal(const http_request& request, const principal& who, int status);

  const http_api& api_;
  std::shared_ptr<http_connection> client_;
};

asio::awaitable<void> http_session::run() {
  client_->prepare();
  auto next = after::close;
  try {
    next = client_->is_to_be_secured() ? co_await shake_hands() : after::next_request;
    for (bool is_first = true; next == after::next_request && !client_->is_stopping();
         is_first = false) {
      next = co_await one_request(is_first);
    }
    if (next == after::linger) {
      co_await client_->linger();
    }
  } catch (...) { // the error could not be written
    static_cast<void>(fault_here("http"));
    next = after::close;
  }
  client_->retire(next);
}

// A client that speaks plain HTTP gets an error in plain HTTP. All others that make no handshake in
// time get none, since they would not understand it.
asio::awaitable<after> http_session::shake_hands() {
  const auto context = client_->core().tls->look();
  client_->deadline().arm(client_->limits().handshake_timeout);
  if (co_await client_->socket().wait_readable()) {
    co_return after::close;
  }
  char first = 0;
  error_code ec;
  client_->socket().plain().receive(asio::buffer(&first, 1), tcp::socket::message_peek, ec);
  if (!ec && first >= 'A' && first <= 'Z') { // a method; TLS begins with 22
    client_->deadline().disarm();
    client_->framing.request_id = new_request_id();
    co_return co_await client_->reply(
        error_reply(fail(errc::invalid_request, "this port speaks HTTPS: use https://")), true);
  }
  const bool is_secure = !ec && co_await client_->socket().secure(*context);
  client_->deadline().disarm();
  if (!is_secure) {
    client_->core().http.counts().dropped("tls_handshake");
    co_return after::close;
  }
  co_return after::next_request;
}

// Waits for the first byte of a request. Empty lines before it do not lengthen the wait.
asio::awaitable<bool> http_session::await_request(bool is_first) {
  constexpr std::size_t empty_lines_max = 8; // no known client sends more
  constexpr std::size_t step = 4096;
  const auto& limits = client_->limits();
  auto& buffer = client_->buffer();
  client_->deadline().arm(is_first ? limits.header_timeout : limits.idle_timeout);
  auto skipped = skip_empty_lines(buffer, empty_lines_max);
  while (buffer.size() == 0 ||
         (buffer.size() == 1 && *static_cast<const char*>(buffer.cdata().data()) == '\r')) {
    if (co_await client_->socket().wait_readable()) { // an idle connection has no buffer
      co_return false;
    }
    auto [ec, n] = co_await client_->socket().async_read_some(buffer.prepare(step), as_values);
    if (ec) {
      co_return false;
    }
    buffer.commit(n);
    skipped += skip_empty_lines(buffer, empty_lines_max - skipped);
  }
  co_return true;
}

asio::awaitable<error_code> http_session::read_head(http_request& request, bool is_first) {
  const auto& limits = client_->limits();
  if (!co_await await_request(is_first)) {
    co_return asio::error::eof; // idle for too long, or the server stops: no reply
  }
  client_->deadline().arm(limits.header_timeout);
  client_->started_at = http_connection::clock::now();
  request.reader().eager(false); // the body is read once the header has been admitted
  co_return co_await parse_until(request.reader(), &http_request::parser::is_header_done);
}

// Like Beast's async_read_header and async_read, except that it parses in this coroutine. If their
// operations throw while they parse, no coroutine ends and the connection waits forever.
asio::awaitable<error_code> http_session::parse_until(http_request::parser& reader,
                                                      bool (http_request::parser::*is_read)()
                                                          const) {
  constexpr std::size_t piece_max = 64 * 1024;
  auto& buffer = client_->buffer();
  while (!(reader.*is_read)()) {
    error_code ec = http::error::need_more;
    if (buffer.size() > 0) {
      buffer.consume(reader.put(buffer.data(), ec));
    }
    if (ec && ec != http::error::need_more) {
      co_return ec;
    }
    if (!ec) {
      continue;
    }
    const auto size = boost::beast::read_size(buffer, piece_max);
    if (size == 0) {
      co_return http::error::buffer_overflow;
    }
    auto [failure, n] = co_await client_->socket().async_read_some(buffer.prepare(size), as_values);
    if (failure == asio::error::eof && reader.got_some()) {
      ec = {};
      reader.put_eof(ec);
      co_return ec;
    }
    if (failure) {
      co_return failure == asio::error::eof ? error_code(http::error::end_of_stream) : failure;
    }
    buffer.commit(n);
  }
  co_return error_code();
}

asio::awaitable<after> http_session::judge_read_error(const http_request& request, error_code ec) {
  client_->framing.keeps_alive = false;
  if (ec == asio::error::eof) {
    co_return after::close;
  }
  auto call = request.call();
  if (call.target.empty()) { // the parser sets nothing before the header's end
    const auto unread = client_->buffer().data();
    read_first_line(call, {static_cast<const char*>(unread.data()), unread.size()});
  }
  client_->begin_request(path_of(call.target));
  if (client_->deadline().has_expired()) {
    const auto late = http_api::refuse_early(
        call, fail(errc::request_timeout, "the request did not come in time"));
    trace_refusal(request, client_->who, late.status);
    co_return co_await client_->reply(late, true);
  }
  if (const auto e = read_error(ec, client_->limits())) {
    const auto refusal = http_api::refuse_early(call, *e);
    trace_refusal(request, client_->who, refusal.status);
    co_return co_await client_->reply(refusal, true);
  }
  co_return after::close;
}

asio::awaitable<after> http_session::one_request(bool is_first) {
  client_->framing = {};
  client_->framing.request_id = new_request_id(); // for bytes that are not a request
  client_->has_begun_answer = false;
  client_->route = client_->method = "other";
  client_->model.clear();
  client_->who = {};
  client_->started_at = http_connection::clock::now();
  client_->begin_request({});
  http_request request(client_->limits(), client_->listener());
  std::optional<error> fault;
  auto next = after::close;
  try {
    next = co_await answer_request(request, is_first);
  } catch (...) {
    fault = fault_here("http");
  }
  if (fault) { // an exception handler cannot co_await
    next = co_await end_faulty(request, *fault);
  }
  client_->end_request();
  co_return next;
}

// The bytes read ahead may lack a part of the next request, so the connection ends.
asio::awaitable<after> http_session::end_faulty(const http_request& request, const error& why) {
  client_->set_stream(nullptr);
  client_->unwatch_client();
  client_->deadline().disarm();
  if (client_->has_begun_answer) {
    co_return after::close;
  }
  const auto refusal = http_api::refuse_early(request.call(), why);
  trace_refusal(request, client_->who, refusal.status);
  co_return co_await client_->reply(refusal, /*closes=*/true);
}

asio::awaitable<after> http_session::answer_request(http_request& request, bool is_first) {
  const auto& limits = client_->limits();
  if (auto ec = co_await read_head(request, is_first); ec) {
    if (ec == http::error::body_limit) { // the header was read, with this length
      client_->route = http_api::find(request.call()).label;
      client_->method = known_method(request.call().method);
      client_->who.trace = request.trace_for(api_);
    }
    co_return co_await judge_read_error(request, ec);
  }
  client_->framing = request.framing();
  client_->begin_request(path_of(request.call().target));
  const auto route = http_api::find(request.call());
  client_->route = route.label;
  client_->framing.id_header = route.row ? route.row->id_header : std::string_view();
  client_->method = known_method(request.call().method);
  auto& reader = request.reader();
  auto admitted = request.admit_head(api_, route);
  client_->who = std::move(admitted.who);
  if (admitted.refusal) {
    trace_refusal(request, client_->who, admitted.refusal->status);
    // While the body is unread, the begin of the next request is unknown.
    co_return co_await client_->reply(*admitted.refusal,
                                      !reader.is_done() || !request.has_known_end());
  }
  if (auto refusal = request.refuse_suspect(route, client_->core().facts->crashes(),
                                            client_->crash_client())) {
    client_->core().facts->metrics().refused("http", errc::rate_limit_exceeded);
    trace_refusal(request, client_->who, refusal->status);
    co_return co_await client_->reply(*refusal, !reader.is_done());
  }
  if (request.expects_continue() && !reader.is_done()) {
    if (!co_await client_->write("HTTP/1.1 100 Continue\r\n\r\n")) {
      co_return after::close;
    }
    client_->has_begun_answer = false;
  }
  if (!reader.is_done()) {
    client_->deadline().arm(limits.body_timeout);
    reader.eager(true);
    if (auto ec = co_await parse_until(reader, &http_request::parser::is_done); ec) {
      co_return co_await judge_read_error(request, ec);
    }
  }
  client_->deadline().disarm();
  co_return co_await serve(request, route);
}

// A refused POST of a known route leaves a span. Reads of the gateway's own state leave none, and
// neither do unknown routes.
void http_session::trace_refusal(const http_request& request, const principal& who, int status) {
  constexpr int first_failure = 400;
  const bool is_known = client_->route != "other"; // then the header was read
  if (!api_.reads_traces() || status < first_failure || !is_known) {
    return;
  }
  if (request.call().method == "POST") {
    client_->core().http.trace_refusal(who, "POST " + client_->route, status);
  }
}

asio::awaitable<void> http_session::wait_informed() {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  const auto& core = client_->core();
  while (!core.connections.is_stopping() && !core.facts->is_informed()) {
    timer.expires_after(heads_look_interval);
    co_await timer.async_wait(as_values);
  }
}

asio::awaitable<after> http_session::serve(http_request& request, const found_route& route) {
  if (!client_->core().facts->is_informed()) {
    co_await wait_informed();
  }
  auto call = [&] {
    const auto noted = client_->handling();
    return api_.plan(request.call(), route);
  }();
  auto& body = request.reader().get().body(); // the handler has parsed it
  body.clear();
  body.shrink_to_fit();
  co_return co_await std::visit([&](auto& parsed) { return carry_out(request, parsed); }, call);
}

asio::awaitable<after> http_session::carry_out(http_request& request, http_reply& reply) {
  trace_refusal(request, client_->who, reply.status);
  return client_->reply(reply);
}

asio::awaitable<after> http_session::carry_out(http_request& request, websocket_upgrade&) {
  client_->deadline().disarm();
  client_->count_request(101);
  start_websocket_session(client_->core(), std::move(client_->socket()), request.reader().release(),
                          std::move(client_->who),
                          {client_->framing.request_id, client_->address()});
  co_return after::handed_over;
}

} // namespace

bool start_http_session(server_context& core, const http_api& api, listener_kind listener,
                        tcp::socket& socket) {
  const auto& bounds = core.config().http_bounds;
  const auto most =
      bounds.connections_max + (is_operators(listener) ? bounds.admin_connections_extra : 0);
  // The stop function needs the connection: until it exists there is nothing to stop.
  const auto id = core.connections.enter([] {}, most);
  if (!id) {
    return false;
  }
  auto client = std::make_shared<http_connection>(core, listener, std::move(socket), *id);
  core.connections.replace(*id, [weak = std::weak_ptr(client)] {
    if (auto self = weak.lock()) {
      self->stop();
    }
  });
  auto session = std::make_shared<http_session>(api, client);
  asio::co_spawn(
      client->socket().get_executor(), [session] { return session->run(); },
      [session](std::exception_ptr e) {
        if (e) { // allocation failures; I/O errors are values
          spdlog::error("a connection ended with an exception");
        }
      });
  return true;
}

} // namespace baton::gateway
