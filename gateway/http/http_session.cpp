// Heavy: Asio and Beast's HTTP parser.
#include "gateway/http/http_session.hpp"

#include "gateway/base/http_header.hpp"
#include "gateway/base/request_id.hpp"
#include "gateway/http/http_answers.hpp"
#include "gateway/http/http_connection.hpp"
#include "gateway/http/http_request.hpp"
#include "gateway/http/http_responses.hpp"
#include "gateway/state/request_guard.hpp"
#include "gateway/websocket/websocket.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/beast/core/read_size.hpp>
#include <spdlog/spdlog.h>

namespace baton::gateway {
namespace {

namespace http = boost::beast::http;

// Reads requests one after the other and carries out what the routes say.
class http_session {
public:
  explicit http_session(std::shared_ptr<http_connection> client) : client_(std::move(client)) {}
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
  asio::awaitable<after> serve(http_request& request);
  void trace_refusal(const http_request& request, const principal& who, int status);

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
  } catch (...) { // not even an error could be written
    static_cast<void>(fault_here("http"));
    next = after::close;
  }
  client_->retire(next);
}

// A client that speaks HTTP all the same is told so; all others that make no handshake in time get
// no word, since none would be understood.
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

// Until there is the first byte of a request. Empty lines before it do not lengthen the wait.
asio::awaitable<bool> http_session::await_request(bool is_first) {
  constexpr std::size_t empty_lines_max = 8; // more than that is no client's habit
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
    co_return asio::error::eof; // idle for too long, or the server stops: no word is due
  }
  client_->deadline().arm(limits.header_timeout);
  client_->started_at = http_connection::clock::now();
  request.reader().eager(false); // the body is read once the header has been admitted
  co_return co_await parse_until(request.reader(), &http_request::parser::is_header_done);
}

// As Beast's async_read_header and async_read, but that it parses in this coroutine: what parsing
// throws inside of their operations ends no coroutine, it leaves the connection waiting.
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
  if (call.target.empty()) { // the parser looks at nothing before the header's end
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
  client_->framing.request_id = new_request_id(); // of what is no request
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
  if (fault) { // nothing can be waited for where an exception is handled
    next = co_await end_faulty(request, *fault);
  }
  client_->end_request();
  co_return next;
}

// What was read ahead of this client's next request is not known to be whole: the connection ends.
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
    if (ec == http::error::body_limit) { // the header is read, and says so
      client_->route = http_api::route_name(request.call());
      client_->method = known_method(request.call().method);
      client_->who.trace = request.trace_for(client_->core().api);
    }
    co_return co_await judge_read_error(request, ec);
  }
  client_->framing = request.framing();
  client_->begin_request(path_of(request.call().target));
  client_->route = http_api::route_name(request.call());
  client_->method = known_method(request.call().method);
  auto& reader = request.reader();
  auto admitted = request.admit_head(client_->core().api);
  client_->who = std::move(admitted.who);
  if (admitted.refusal) {
    trace_refusal(request, client_->who, admitted.refusal->status);
    // Without its body read the connection has no known next request.
    co_return co_await client_->reply(*admitted.refusal,
                                      !reader.is_done() || !request.has_known_end());
  }
  if (auto refusal =
          request.refuse_suspect(client_->core().facts->crashes(), client_->crash_client())) {
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
  co_return co_await serve(request);
}

// Of what a desk would have been asked for; what is read of the gateway itself has no trace, nor
// has what is no route.
void http_session::trace_refusal(const http_request& request, const principal& who, int status) {
  constexpr int first_failure = 400;
  const bool is_known = client_->route != "other"; // its header is read, then
  if (!client_->core().api.reads_traces() || status < first_failure || !is_known) {
    return;
  }
  if (request.call().method == "POST") {
    client_->core().http.trace_refusal(who, "POST " + client_->route, status);
  }
}

asio::awaitable<after> http_session::serve(http_request& request) {
  auto plan = [&] {
    const auto noted = client_->handling();
    return client_->core().api.plan(request.call());
  }();
  if (auto* r = std::get_if<http_reply>(&plan)) {
    trace_refusal(request, client_->who, r->status);
    co_return co_await client_->reply(*r);
  }
  if (std::holds_alternative<websocket_upgrade>(plan)) {
    client_->deadline().disarm();
    client_->count_request(101);
    start_websocket_session(client_->core(), std::move(client_->socket()),
                            request.reader().release(), std::move(client_->who),
                            {client_->framing.request_id, client_->address()});
    co_return after::handed_over;
  }
  auto& body = request.reader().get().body(); // the plan has what it says
  body.clear();
  body.shrink_to_fit();
  if (auto* g = std::get_if<openai_generate>(&plan)) {
    co_return co_await answer(*client_, std::move(*g));
  }
  if (auto* g = std::get_if<tgi_generate>(&plan)) {
    co_return co_await answer(*client_, std::move(*g));
  }
  if (auto* g = std::get_if<vllm_generate>(&plan)) {
    co_return co_await answer(*client_, std::move(*g));
  }
  if (auto* e = std::get_if<embedding_call>(&plan)) {
    co_return co_await answer(*client_, std::move(*e));
  }
  if (auto* r = std::get_if<response_create>(&plan)) {
    co_return co_await answer(*client_, std::move(*r));
  }
  if (auto* q = std::get_if<response_question>(&plan)) {
    co_return co_await answer(*client_, std::move(*q));
  }
  if (auto* g = std::get_if<torchserve_generate>(&plan)) {
    co_return co_await answer(*client_, std::move(*g));
  }
  if (auto* b = std::get_if<torchserve_batch>(&plan)) {
    co_return co_await answer(*client_, std::move(*b));
  }
  if (auto* g = std::get_if<kserve_generate>(&plan)) {
    co_return co_await answer(*client_, std::move(*g));
  }
  if (auto* t = std::get_if<tokenize_call>(&plan)) {
    co_return co_await answer(*client_, std::move(*t));
  }
  if (auto* w = std::get_if<worker_call>(&plan)) {
    co_return co_await answer(*client_, std::move(*w));
  }
  if (auto* m = std::get_if<repository_call>(&plan)) {
    co_return co_await answer(*client_, std::move(*m));
  }
  co_return co_await answer(*client_, std::move(std::get<detokenize_call>(plan)));
}

} // namespace

bool start_http_session(server_context& core, listener_kind listener, tcp::socket& socket) {
  const auto& bounds = core.config().http_bounds;
  const auto most =
      bounds.connections_max + (is_operators(listener) ? bounds.admin_connections_extra : 0);
  // The stop function is known only with the connection: until then there is nothing to stop.
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
  auto session = std::make_shared<http_session>(client);
  asio::co_spawn(
      client->socket().get_executor(), [session] { return session->run(); },
      [session](std::exception_ptr e) {
        if (e) { // allocation failures; I/O comes as values
          spdlog::error("a connection ended with an exception");
        }
      });
  return true;
}

} // namespace baton::gateway
