#include "gateway/http/http_answers.hpp"

#include <ctime>
#include <utility>

namespace baton::gateway {
namespace {

void note_end(const generation_call& call, reply_times when) {
  if (call.ended_well) {
    when.ended = reply_times::clock::now();
    call.ended_well(when);
  }
}

} // namespace

http_reply refuse(http_connection& client, const api_family& family, const rejected& no) {
  return family.refusal(no, client.core().config().overload_status);
}

reply_identity identity_of(http_connection& client, const granted& g) {
  return {.ticket = g.ticket,
          .created = std::time(nullptr),
          .fingerprint = client.core().config().build,
          .resume_key = g.resume_key};
}

std::optional<http_reply> refusal_of(http_connection& client, const api_family& family,
                                     const stream_event& e) {
  if (const auto* r = std::get_if<rejected>(&e)) {
    return refuse(client, family, *r);
  }
  if (const auto* f = std::get_if<failed>(&e)) {
    return family.failure(f->reason);
  }
  if (const auto* c = std::get_if<chunk>(&e)) {
    if (const auto failure = failure_of(*c)) {
      return family.failure(*failure);
    }
  }
  return std::nullopt;
}

asio::awaitable<bool> write_events(http_connection& client, std::string& lead, std::string& events,
                                   bool is_last, bool is_framed) {
  auto bytes = std::exchange(lead, {});
  if (client.framing.is_http_1_0 || is_framed) {
    bytes += events;
  } else {
    if (!events.empty()) { // an empty chunk is the last one
      append_chunk(bytes, events);
    }
    bytes += is_last ? "0\r\n\r\n" : "";
  }
  events.clear();
  co_return co_await client.write(bytes);
}

namespace {

std::optional<http_reply> refusal_of(http_connection& client, const generation_call& call,
                                     const stream_event& e) {
  if (const auto* r = std::get_if<rejected>(&e)) {
    return refuse(client, call, *r);
  }
  return refusal_of(client, *call.family, e);
}

asio::awaitable<after> whole_answer(http_connection& client, open_requests& open,
                                    const generation_call& call, reply_times when) {
  const auto whole = call.whole(open.model());
  granted grant;
  while (auto event = co_await client.next(open)) {
    if (auto refusal = refusal_of(client, call, *event)) {
      co_return co_await client.reply(*refusal);
    }
    if (const auto* g = std::get_if<granted>(&*event)) {
      grant = grant.ticket ? grant : *g; // the first one of several
      when.granted = reply_times::clock::now();
    } else if (auto* c = std::get_if<chunk>(&*event)) {
      const auto noted = client.handling();
      whole->add(std::move(*c));
    }
    if (whole->is_complete()) {
      when.ended = reply_times::clock::now();
      note_end(call, when);
      const auto reply = [&] {
        const auto noted = client.handling();
        return whole->reply(identity_of(client, grant), when);
      }();
      co_return co_await client.reply(reply);
    }
  }
  co_return after::close; // the client is gone; dropping `open` cancels the ticket
}

// All events that wait in the stream, as one text: a write for each token would be expensive.
void take_available(http_connection& client, open_requests& open, stream_writer& writer,
                    std::string& out) {
  const auto noted = client.handling();
  while (auto event = open.next()) {
    if (const auto* c = std::get_if<chunk>(&*event)) {
      if (const auto failure = failure_of(*c)) {
        writer.fail(*failure, out);
      } else {
        writer.add(*c, out);
      }
    } else if (const auto* g = std::get_if<granted>(&*event)) {
      writer.moved_to(*g);
    } else if (const auto* f = std::get_if<failed>(&*event)) {
      writer.fail(f->reason, out);
    } else if (const auto* r = std::get_if<rejected>(&*event)) {
      writer.fail(r->reason, out);
    }
    if (writer.has_ended()) {
      break;
    }
  }
}

asio::awaitable<bool> write_available(http_connection& client, open_requests& open,
                                      const generation_call& call, stream_writer& writer,
                                      std::string& lead, std::string& out) {
  take_available(client, open, writer, out);
  if (out.empty()) {
    co_return true; // the text waits for the rest of a character
  }
  co_return co_await write_events(client, lead, out, writer.has_ended(), call.frames_itself);
}

asio::awaitable<after> event_answer(http_connection& client, open_requests& open,
                                    const generation_call& call, reply_times when) {
  granted grant;
  std::optional<stream_event> first;
  while ((first = co_await client.next(open))) {
    const auto* g = std::get_if<granted>(&*first);
    if (!g) {
      break;
    }
    grant = grant.ticket ? grant : *g;
    when.granted = reply_times::clock::now();
  }
  if (!first) {
    co_return after::close;
  }
  if (auto refusal =
          refusal_of(client, call, *first)) { // nothing has been sent: a plain HTTP error
    co_return co_await client.reply(*refusal);
  }
  client.framing.keeps_alive = client.framing.keeps_alive && !client.framing.is_http_1_0;
  auto who = identity_of(client, grant);
  who.times = when;
  const auto made = call.events(open.model(), who);
  auto& writer = *made;
  auto lead = event_stream_header(client.framing, call.event_headers, call.event_type);
  std::string out;
  writer.add(std::get<chunk>(*first), out);
  const auto ping_interval = client.limits().sse_ping_interval;
  for (bool is_ok = co_await write_available(client, open, call, writer, lead, out);
       !writer.has_ended();
       is_ok = co_await write_available(client, open, call, writer, lead, out)) {
    if (!is_ok || client.is_over()) {
      co_return after::close;
    }
    const auto before = http_connection::clock::now();
    co_await client.bell_of().wait(ping_interval);
    const bool has_comments = call.event_type == event_stream_type && !call.frames_itself;
    if (has_comments && http_connection::clock::now() - before >= ping_interval) {
      out += call.waiting;
    }
  }
  const bool was_cut = open.is_cut();
  client.count_request(200);
  client.unwatch_client();
  if (!writer.has_failed()) {
    note_end(call, when);
  }
  const bool goes_on = client.framing.keeps_alive && !was_cut && !writer.is_broken();
  co_return goes_on ? after::next_request : after::close;
}

field_names names_at(const std::vector<field_names>& client_names, std::size_t index) {
  return client_names.empty() ? field_names()
                              : client_names[std::min(index, client_names.size() - 1)];
}

// The first refusal refuses the call, and cancels what was opened before it.
open_results open_all(http_connection& client, generation_call& call) {
  auto& core = client.core();
  const auto choices = call.requests.front().terms.choices; // the same in each
  if (call.resume) {
    const auto& request = call.requests.front();
    return one_of(core.http.resume(client.who, request.model, *std::move(call.resume),
                                   request.is_resumable, client.wake()),
                  choices, names_at(call.client_names, 0));
  }
  std::optional<open_requests> all;
  for (std::size_t i = 0; i < call.requests.size(); ++i) {
    auto next = core.http.open(client.who, std::move(call.requests[i]), call.add_generation_prompt,
                               call.can_resume, client.wake());
    const auto client_names = names_at(call.client_names, i);
    if (!next) {
      return in_client_terms(client_names, next.refusal());
    }
    if (all) {
      all->add(*std::move(next), client_names);
    } else {
      all.emplace(*std::move(next), choices, client_names);
    }
  }
  if (call.order) {
    // The stream of its answer is closed at once: the root's failure is not the request's.
    static_cast<void>(core.http.change(*call.order, [] {}));
  }
  return *std::move(all);
}

open_result open_message(http_connection& client, message_call& call) {
  auto& http = client.core().http;
  if (auto* text = std::get_if<tokenize>(&call.request)) {
    return http.tokenize(client.who, call.model, std::move(*text), client.wake());
  }
  if (auto* tokens = std::get_if<detokenize>(&call.request)) {
    return http.detokenize(client.who, call.model, std::move(tokens->ids), client.wake());
  }
  return http.change(std::get<change_model>(call.request), client.wake());
}

} // namespace

asio::awaitable<after> answer_opened(http_connection& client, open_results open,
                                     const generation_call& call) {
  if (!open) {
    co_return co_await client.reply(refuse(client, call, open.refusal()));
  }
  reply_times when;
  when.read = client.started_at;
  when.opened = when.granted = reply_times::clock::now();
  client.set_stream(&*open);
  client.watch_client();
  const auto next = call.is_stream ? co_await event_answer(client, *open, call, when)
                                   : co_await whole_answer(client, *open, call, when);
  client.set_stream(nullptr);
  client.unwatch_client();
  if (client.is_client_gone()) {
    client.count_request(row_of(errc::cancelled).http_status); // nginx's 499
    client.core().http.counts().client_gone("http");
  }
  co_return next;
}

asio::awaitable<after> answer_generation(http_connection& client, generation_call call) {
  auto open = open_all(client, call);
  co_return co_await answer_opened(client, std::move(open), call);
}

asio::awaitable<after> answer_single(http_connection& client, message_call call) {
  const auto& family = *call.family;
  auto open = open_message(client, call);
  if (!open) {
    co_return co_await client.reply(
        refuse(client, family, in_client_terms(call.client_names, open.refusal())));
  }
  const auto event = co_await client.next(*open);
  if (!event) {
    co_return after::close;
  }
  open->ended();
  const auto written = call.writer(*event);
  if (!written) {
    co_return co_await client.reply(
        refusal_of(client, family, *event)
            .value_or(family.failure(fail(errc::internal, "the answer was of another kind"))));
  }
  if (!*written) {
    co_return co_await client.reply(
        family.failure(in_client_terms(call.client_names, written->error())));
  }
  co_return co_await client.reply(**written);
}

} // namespace baton::gateway
