// A worker model's answer over HTTP: whole if it comes in one piece, else chunked, piece by piece.
// Heavy: Asio.
#include "gateway/http_answers.hpp"
#include "gateway/speaker.hpp"
#include "gateway/worker_reply.hpp"

#include <utility>

namespace baton::gateway {
namespace {

// Of a request of which nothing was sent yet.
http_reply refusal_of(http_connection& client, const rejected& no) {
  return errors_of(api_family::openai).refusal(no, client.core().config().overload_status);
}

std::optional<http_reply> refusal_of(http_connection& client, const stream_event& e) {
  if (const auto* r = std::get_if<rejected>(&e))
    return refusal_of(client, *r);
  if (const auto* f = std::get_if<failed>(&e))
    return errors_of(api_family::openai).failure(f->reason);
  const auto& piece = std::get<inferred>(e);
  if (auto ok = check_raw(piece); !ok)
    return errors_of(api_family::openai).failure(ok.error());
  return std::nullopt;
}

void append_piece(std::string& out, const std::string& body, bool is_last, bool is_chunked) {
  if (!is_chunked)
    out += body;
  else if (!body.empty()) // an empty chunk is the end
    append_chunk(out, body);
  if (is_last && is_chunked)
    out += "0\r\n\r\n";
}

// An answer that breaks off has no end: the connection is closed before it.
asio::awaitable<after> rest_of(http_connection& client, open_requests& open, std::string out) {
  const bool is_chunked = !client.framing.is_http_1_0;
  for (;;) {
    bool is_over = false;
    bool is_broken = false;
    while (auto event = is_over ? std::nullopt : open.next()) {
      const auto* piece = std::get_if<inferred>(&*event);
      is_broken = !piece || !check_raw(*piece);
      is_over = is_broken || piece->is_last;
      if (!is_broken)
        append_piece(out, piece->body, piece->is_last, is_chunked);
    }
    if (!out.empty() && !co_await client.write(std::exchange(out, {})))
      co_return after::close;
    if (is_broken)
      co_return after::close;
    if (is_over)
      co_return client.framing.keeps_alive ? after::next_request : after::close;
    if (client.is_over())
      co_return after::close;
    co_await client.bell_of().wait(std::chrono::hours{24});
  }
}

asio::awaitable<after> tell(http_connection& client, open_requests& open) {
  const auto first = co_await client.next(open);
  if (!first)
    co_return after::close; // dropping `open` tells the worker
  const auto* piece = std::get_if<inferred>(&*first);
  if (const auto refusal = refusal_of(client, *first))
    co_return co_await client.reply(*refusal);
  auto reply = raw_reply(*piece);
  if (piece->is_last)
    co_return co_await client.reply(reply);
  client.framing.keeps_alive = client.framing.keeps_alive && !client.framing.is_http_1_0;
  auto out = stream_header(reply, client.framing);
  append_piece(out, piece->body, /*is_last=*/false, !client.framing.is_http_1_0);
  client.count_request(reply.status);
  co_return co_await rest_of(client, open, std::move(out));
}

} // namespace

asio::awaitable<after> answer(http_connection& client, worker_call call) {
  auto open = one_of(client.core().http.infer(client.who, std::move(call.request), client.wake()),
                     /*choices=*/1);
  if (!open)
    co_return co_await client.reply(refusal_of(client, open.refusal()));
  client.set_stream(&*open);
  client.watch_client();
  const auto next = co_await tell(client, *open);
  client.set_stream(nullptr);
  client.unwatch_client();
  if (client.is_client_gone())
    client.core().http.counts().client_gone("http");
  co_return next;
}

} // namespace baton::gateway
