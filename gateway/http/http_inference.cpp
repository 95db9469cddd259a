// A worker model's answer over HTTP: whole if it has one piece, or if its writer wants it whole;
// else chunked, piece by piece. Heavy: Asio.
#include "gateway/base/http_header.hpp"
#include "gateway/http/http_answers.hpp"

#include <algorithm>
#include <utility>

namespace baton::gateway {
namespace {

// The bytes of the next event.
struct taken {
  std::string bytes;
  bool is_last = false;
};

result<taken> take(worker_call& call, stream_event& e) {
  if (auto* f = std::get_if<failed>(&e))
    return std::move(f->reason);
  if (auto* r = std::get_if<rejected>(&e))
    return std::move(r->reason);
  auto* piece = std::get_if<inferred>(&e);
  if (!piece)
    return fail(errc::internal, "the answer was of another kind");
  const bool is_last = piece->is_last;
  auto bytes = call.writer->take(std::move(*piece));
  if (!bytes)
    return bytes.error();
  return taken{*std::move(bytes), is_last};
}

void append_piece(std::string& out, std::string_view body, bool is_last, bool is_chunked) {
  if (!is_chunked)
    out += body;
  else if (!body.empty()) // an empty chunk is the end
    append_chunk(out, body);
  if (is_last && is_chunked)
    out += "0\r\n\r\n";
}

// The ends of events cannot be seen in a body that is compressed.
bool is_coded(const http_reply& head) {
  return std::any_of(head.headers.begin(), head.headers.end(), [](const auto& field) {
    return lower(field.first) == "content-encoding" && lower(field.second) != "identity";
  });
}

bool is_between_events(const worker_call& call, const http_reply& head, std::string_view sent) {
  return call.takes_comments && !is_coded(head) && takes_comment(head.content_type, sent);
}

void note_end(const worker_call& call, const open_requests& open, reply_times when) {
  if (!call.ended_well)
    return;
  when.granted = std::max(open.begun_at(), when.read);
  when.ended = reply_times::clock::now();
  call.ended_well(when);
}

// If the writer has no text for a failure, the connection closes before the answer's end.
asio::awaitable<after> rest_of(http_connection& client, open_requests& open, worker_call& call,
                               const http_reply& head, std::string out, bool is_between,
                               reply_times when) {
  const bool is_chunked = !client.framing.is_http_1_0;
  const auto ping_interval = client.limits().sse_ping_interval;
  for (;;) {
    bool is_over = false;
    bool is_broken = false;
    bool is_well = false;
    while (auto event = is_over ? std::nullopt : open.next()) {
      const auto piece = take(call, *event);
      const auto tail = piece ? std::string() : call.writer->failure_tail(piece.error());
      is_broken = !piece && tail.empty();
      is_well = piece && piece->is_last;
      is_over = !piece || piece->is_last;
      if (!is_broken)
        append_piece(out, piece ? piece->bytes : tail, is_over, is_chunked);
      if (piece && !piece->bytes.empty())
        is_between = is_between_events(call, head, piece->bytes);
    }
    if (!out.empty() && !co_await client.write(std::exchange(out, {})))
      co_return after::close;
    if (is_broken)
      co_return after::close;
    if (is_well)
      note_end(call, open, when);
    if (is_over)
      co_return client.framing.keeps_alive ? after::next_request : after::close;
    if (client.is_over())
      co_return after::close;
    const auto before = http_connection::clock::now();
    co_await client.bell_of().wait(ping_interval);
    if (is_between && http_connection::clock::now() - before >= ping_interval)
      append_piece(out, event_comment, /*is_last=*/false, is_chunked);
  }
}

asio::awaitable<after> send_answer(http_connection& client, open_requests& open, worker_call& call,
                                   reply_times when) {
  taken so_far;
  do {
    auto event = co_await client.next(open);
    if (!event)
      co_return after::close; // dropping `open` cancels the worker's request
    if (auto* no = std::get_if<rejected>(&*event))
      co_return co_await client.reply(refuse(client, call, std::move(*no)));
    const auto piece = take(call, *event);
    if (!piece)
      co_return co_await client.reply(call.family->failure(piece.error()));
    so_far.bytes += piece->bytes;
    so_far.is_last = piece->is_last;
  } while (!so_far.is_last && !call.writer->is_streamed());
  auto reply = call.writer->head();
  if (so_far.is_last) {
    note_end(call, open, when);
    reply.body = std::move(so_far.bytes);
    co_return co_await client.reply(reply);
  }
  client.framing.keeps_alive = client.framing.keeps_alive && !client.framing.is_http_1_0;
  const bool is_between = is_between_events(call, reply, so_far.bytes);
  auto out = stream_header(reply, client.framing);
  append_piece(out, so_far.bytes, /*is_last=*/false, !client.framing.is_http_1_0);
  client.count_request(reply.status);
  co_return co_await rest_of(client, open, call, reply, std::move(out), is_between, when);
}

} // namespace

asio::awaitable<after> answer_worker(http_connection& client, worker_call call) {
  reply_times when;
  when.read = client.started_at;
  auto open = one_of(client.core().http.infer(client.who, std::move(call.request), client.wake()),
                     /*choices=*/1);
  if (!open)
    co_return co_await client.reply(refuse(client, call, open.refusal()));
  when.opened = reply_times::clock::now();
  client.set_stream(&*open);
  client.watch_client();
  const auto next = co_await send_answer(client, *open, call, when);
  client.set_stream(nullptr);
  client.unwatch_client();
  if (client.is_client_gone())
    client.core().http.counts().client_gone("http");
  co_return next;
}

} // namespace baton::gateway
