#include "gateway/http/http_answers.hpp"

#include "gateway/api/kserve/kserve_response.hpp"
#include "gateway/api/openai/embedding_reply.hpp"
#include "gateway/api/openai/openai_response.hpp"
#include "gateway/api/tgi/tgi_response.hpp"
#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/api/torchserve/torchserve_response.hpp"
#include "gateway/api/vllm/vllm_generate.hpp"
#include "gateway/routes/error_words.hpp"

#include <ctime>
#include <functional>
#include <memory>
#include <utility>

namespace baton::gateway {
namespace {

http_reply refuse(http_connection& client, api_family speaks, const rejected& no) {
  return errors_of(speaks).refusal(no, client.core().config().overload_status);
}

http_reply refuse(http_connection& client, const response_context& with, rejected no) {
  if (with.speaks == api_family::torchserve) {
    no.reason = torchserve_busy(std::move(no.reason), with.busy_model);
  }
  return refuse(client, with.speaks, no);
}

void note_end(const response_context& with, reply_times when) {
  if (with.ended_well) {
    when.ended = reply_times::clock::now();
    with.ended_well(when);
  }
}

} // namespace

reply_identity identity_of(http_connection& client, const granted& g) {
  return {g.ticket, std::time(nullptr), client.core().config().build, g.resume_key};
}

std::optional<http_reply> refusal_of(http_connection& client, api_family speaks,
                                     const stream_event& e) {
  if (const auto* r = std::get_if<rejected>(&e)) {
    return refuse(client, speaks, *r);
  }
  if (const auto* f = std::get_if<failed>(&e)) {
    return errors_of(speaks).failure(f->reason);
  }
  if (const auto* c = std::get_if<chunk>(&e)) {
    if (const auto failure = failure_of(*c)) {
      return errors_of(speaks).failure(*failure);
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

std::optional<http_reply> refusal_of(http_connection& client, const response_context& with,
                                     const stream_event& e) {
  if (const auto* r = std::get_if<rejected>(&e)) {
    return refuse(client, with, *r);
  }
  return refusal_of(client, with.speaks, e);
}

http_reply unanswered(http_connection& client, api_family speaks, const stream_event& e) {
  return refusal_of(client, speaks, e)
      .value_or(errors_of(speaks).failure(fail(errc::internal, "the answer was of another kind")));
}

asio::awaitable<after> whole_answer(http_connection& client, open_requests& open,
                                    const response_context& with, reply_times when) {
  const auto whole = with.whole();
  granted told;
  while (auto event = co_await client.next(open)) {
    if (auto refusal = refusal_of(client, with, *event)) {
      co_return co_await client.reply(*refusal);
    }
    if (const auto* g = std::get_if<granted>(&*event)) {
      told = told.ticket ? told : *g; // of several the first one's
      when.granted = reply_times::clock::now();
    } else if (auto* c = std::get_if<chunk>(&*event)) {
      const auto noted = client.handling();
      whole->add(std::move(*c));
    }
    if (whole->is_complete()) {
      when.ended = reply_times::clock::now();
      note_end(with, when);
      const auto reply = [&] {
        const auto noted = client.handling();
        return whole->reply(identity_of(client, told), when);
      }();
      co_return co_await client.reply(reply);
    }
  }
  co_return after::close; // the client is gone; dropping `open` cancels the ticket
}

// What waits in the stream, as one text: a write per token is what costs.
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
                                      const response_context& with, stream_writer& writer,
                                      std::string& lead, std::string& out) {
  take_available(client, open, writer, out);
  if (out.empty()) {
    co_return true; // text held back for the rest of a character
  }
  co_return co_await write_events(client, lead, out, writer.has_ended(), with.frames_itself);
}

asio::awaitable<after> event_answer(http_connection& client, open_requests& open,
                                    const response_context& with, reply_times when) {
  granted told;
  std::optional<stream_event> first;
  while ((first = co_await client.next(open))) {
    const auto* g = std::get_if<granted>(&*first);
    if (!g) {
      break;
    }
    told = told.ticket ? told : *g;
    when.granted = reply_times::clock::now();
  }
  if (!first) {
    co_return after::close;
  }
  if (auto refusal = refusal_of(client, with, *first)) { // nothing was sent: a plain HTTP error
    co_return co_await client.reply(*refusal);
  }
  client.framing.keeps_alive = client.framing.keeps_alive && !client.framing.is_http_1_0;
  const auto made = with.events(identity_of(client, told));
  auto& writer = *made;
  auto lead = event_stream_header(client.framing, with.event_headers, with.event_type);
  std::string out;
  writer.add(std::get<chunk>(*first), out);
  const auto ping_interval = client.limits().sse_ping_interval;
  for (bool is_ok = co_await write_available(client, open, with, writer, lead, out);
       !writer.has_ended();
       is_ok = co_await write_available(client, open, with, writer, lead, out)) {
    if (!is_ok || client.is_over()) {
      co_return after::close;
    }
    const auto before = http_connection::clock::now();
    co_await client.bell_of().wait(ping_interval);
    const bool has_comments = with.event_type == event_stream_type && !with.frames_itself;
    if (has_comments && http_connection::clock::now() - before >= ping_interval) {
      out += event_comment;
    }
  }
  const bool was_cut = open.is_cut();
  client.count_request(200);
  client.unwatch_client();
  if (!writer.has_failed()) {
    note_end(with, when);
  }
  const bool goes_on = client.framing.keeps_alive && !was_cut && !writer.is_broken();
  co_return goes_on ? after::next_request : after::close;
}

// Where the chunks of a stream that is gone on with are to begin: calls are read out of all of its
// text (openai_stream).
stream_position chunks_from(const openai_generate& call) {
  auto from = *call.resume;
  if (call.shape.calls) {
    from.from.assign(from.from.size(), {});
  }
  return from;
}

http_reply reply_with(std::string body) {
  http_reply r;
  r.body = std::move(body);
  return r;
}

http_reply reply_with(http_reply r) {
  return r;
}

// A question that is answered with one message of this type, or with why not.
template <class Told, class Body>
asio::awaitable<after> single_answer(http_connection& client, api_family speaks, open_result open,
                                     Body body_of, field_names client_names = {}) {
  if (!open) {
    co_return co_await client.reply(
        refuse(client, speaks, in_client_terms(client_names, open.refusal())));
  }
  const auto event = co_await client.next(*open);
  if (!event) {
    co_return after::close;
  }
  open->ended();
  const auto* told = std::get_if<Told>(&*event);
  if (!told) {
    co_return co_await client.reply(unanswered(client, speaks, *event));
  }
  if (told->failure) {
    co_return co_await client.reply(
        errors_of(speaks).failure(in_client_terms(client_names, *told->failure)));
  }
  co_return co_await client.reply(reply_with(body_of(*told)));
}

} // namespace

asio::awaitable<after> generation_answer(http_connection& client, open_results open,
                                         response_context with) {
  if (!open) {
    co_return co_await client.reply(refuse(client, with, open.refusal()));
  }
  reply_times when;
  when.read = client.started_at;
  when.opened = when.granted = reply_times::clock::now();
  client.set_stream(&*open);
  client.watch_client();
  const auto next = with.is_stream ? co_await event_answer(client, *open, with, when)
                                   : co_await whole_answer(client, *open, with, when);
  client.set_stream(nullptr);
  client.unwatch_client();
  if (client.is_client_gone()) {
    client.count_request(row_of(errc::cancelled).http_status); // nginx's 499
    client.core().http.counts().client_gone("http");
  }
  co_return next;
}

namespace {

// The first refusal is the call's; what was opened before it is cancelled. `words_of`: what the
// client calls the fields of the request at a place.
template <class WordsOf>
open_results open_each(http_connection& client, std::vector<generate> requests,
                       bool add_generation_prompt, bool is_stream, WordsOf words_of) {
  std::optional<open_requests> all;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto& request = requests[i];
    const auto choices = request.choices; // of each the same
    auto next = client.core().http.open(client.who, std::move(request), add_generation_prompt,
                                        is_stream, client.wake());
    if (!next) {
      return in_client_terms(words_of(i), next.refusal());
    }
    if (all) {
      all->add(*std::move(next), words_of(i));
    } else {
      all.emplace(*std::move(next), choices, words_of(i));
    }
  }
  return *std::move(all);
}

// One whose events have no ids: nobody can come back to the stream.
open_results open_alone(http_connection& client, generate request, field_names client_names) {
  const auto choices = request.choices;
  return one_of(client.core().http.open(client.who, std::move(request),
                                        /*add_generation_prompt=*/true, /*is_stream=*/false,
                                        client.wake()),
                choices, std::move(client_names));
}

open_results open_prompts(http_connection& client, openai_generate& call, bool has_event_ids) {
  // Nobody can come back to a stream of several.
  const bool is_stream = has_event_ids && call.shape.is_stream && call.further.empty();
  auto requests = std::move(call.further);
  requests.insert(requests.begin(), std::move(call.request));
  return open_each(client, std::move(requests), call.add_generation_prompt, is_stream,
                   [&](std::size_t) { return call.client_names; });
}

open_results open_resumed(http_connection& client, const openai_generate& call) {
  return one_of(client.core().http.resume(client.who, call.request.model, chunks_from(call),
                                          call.request.is_resumable, client.wake()),
                call.request.choices, call.client_names);
}

} // namespace

asio::awaitable<after> answer(http_connection& client, openai_generate call) {
  auto open =
      call.resume ? open_resumed(client, call) : open_prompts(client, call, /*has_event_ids=*/true);
  if (open && call.shape.model.empty()) {
    call.shape.model = open->model();
  }
  response_context with;
  with.is_stream = call.shape.is_stream;
  with.whole = [shape = call.shape] { return std::make_unique<openai_unary>(shape); };
  with.events = [shape = call.shape, from = call.resume](const reply_identity& who) {
    return std::make_unique<openai_stream>(shape, who, from);
  };
  co_return co_await generation_answer(client, std::move(open), std::move(with));
}

asio::awaitable<after> answer(http_connection& client, embedding_call call) {
  const auto inputs = call.requests.size();
  auto open = open_each(client, std::move(call.requests), /*add_generation_prompt=*/false,
                        /*is_stream=*/false, [](std::size_t) {
                          return field_names{{"prompt", "input"}};
                        });
  if (open && call.model.empty()) {
    call.model = open->model();
  }
  response_context with;
  with.whole = [&call, inputs] {
    return std::make_unique<embedding_reply>(call.model, call.format, inputs);
  };
  co_return co_await generation_answer(client, std::move(open), std::move(with));
}

asio::awaitable<after> answer(http_connection& client, tgi_generate call) {
  auto open = open_alone(client, std::move(call.request), tgi_field_names());
  response_context with;
  with.speaks = api_family::tgi;
  with.is_stream = call.shape.is_stream;
  with.whole = [shape = call.shape] { return std::make_unique<tgi_unary>(shape); };
  with.events = [shape = call.shape](const reply_identity&) {
    return std::make_unique<tgi_events>(shape);
  };
  with.event_headers = tgi_headers(call.shape);
  co_return co_await generation_answer(client, std::move(open), std::move(with));
}

asio::awaitable<after> answer(http_connection& client, kserve_generate call) {
  auto open = open_alone(client, std::move(call.request), std::move(call.client_names));
  response_context with;
  with.speaks = api_family::kserve;
  with.is_stream = call.shape.route == kserve_route::generate_stream;
  with.whole = [shape = call.shape] { return std::make_unique<kserve_unary>(shape); };
  with.events = [shape = call.shape](const reply_identity&) {
    return std::make_unique<kserve_events>(shape);
  };
  co_return co_await generation_answer(client, std::move(open), std::move(with));
}

asio::awaitable<after> answer(http_connection& client, vllm_generate call) {
  auto open = open_alone(client, call.request, call.client_names);
  response_context with;
  with.is_stream = call.is_stream;
  with.event_type = "application/x-ndjson";
  with.whole = [&call] { return std::make_unique<vllm_unary>(call); };
  with.events = [&call](const reply_identity&) { return std::make_unique<vllm_lines>(call); };
  co_return co_await generation_answer(client, std::move(open), std::move(with));
}

asio::awaitable<after> answer(http_connection& client, torchserve_generate call) {
  auto& core = client.core();
  auto& asked = call.call;
  const auto model = asked.request.model;
  core.facts->torchserve().asked(model, call.has_version);
  auto open = open_prompts(client, asked, /*has_event_ids=*/false);
  response_context with;
  with.speaks = api_family::torchserve;
  with.busy_model = model;
  with.is_stream = asked.shape.is_stream;
  with.event_type = media_type_of(call.speaks);
  with.frames_itself = true;
  with.ended_well = [&core, model, has_version = call.has_version](const reply_times& when) {
    core.facts->torchserve().predicted(model, has_version, when.granted - when.read,
                                       when.ended - when.read);
  };
  if (call.speaks == torchserve_format::openai) {
    with.whole = [shape = asked.shape] { return std::make_unique<openai_unary>(shape); };
    with.events = [shape = asked.shape, &client](const reply_identity& who) {
      return std::make_unique<torchserve_events>(shape, who, !client.framing.is_http_1_0);
    };
  } else {
    const auto& echo = asked.shape.echo; // of the one prompt
    const torchserve_shape shape{call.speaks, echo.empty() ? std::string() : echo.front(),
                                 asked.shape.has_logprobs};
    with.whole = [shape] { return std::make_unique<torchserve_unary>(shape); };
    with.events = [shape](const reply_identity&) {
      return std::make_unique<torchserve_pieces>(shape);
    };
  }
  co_return co_await generation_answer(client, std::move(open), std::move(with));
}

asio::awaitable<after> answer(http_connection& client, torchserve_batch call) {
  auto& core = client.core();
  const auto count = call.requests.size();
  response_context with;
  with.speaks = api_family::torchserve;
  with.busy_model = call.requests.front().model;
  for (std::size_t i = 0; i < count; ++i) {
    core.facts->torchserve().asked(with.busy_model, /*has_version=*/false);
  }
  with.whole = [count] { return std::make_unique<torchserve_predictions>(count); };
  with.ended_well = [&core, count, model = with.busy_model](const reply_times& when) {
    for (std::size_t i = 0; i < count; ++i) {
      core.facts->torchserve().predicted(model, /*has_version=*/false, when.granted - when.read,
                                         when.ended - when.read);
    }
  };
  auto open = open_each(client, std::move(call.requests), /*add_generation_prompt=*/true,
                        /*is_stream=*/false, [&](std::size_t i) { return call.client_names[i]; });
  co_return co_await generation_answer(client, std::move(open), std::move(with));
}

asio::awaitable<after> answer(http_connection& client, tokenize_call call) {
  const bool is_tgi = call.speaks == api_family::tgi;
  const auto text = is_tgi ? std::get<std::string>(call.input) : std::string();
  tokenize what;
  what.input = std::move(call.input);
  what.add_generation_prompt = call.add_generation_prompt;
  what.tools = std::move(call.tools);
  what.template_options = std::move(call.template_options);
  auto open = client.core().http.tokenize(client.who, call.model, std::move(what), client.wake());
  co_return co_await single_answer<tokenized>(
      client, call.speaks, std::move(open),
      [&](const tokenized& told) {
        return is_tgi ? tgi_tokenize_body(told, text) : tokenize_body(told, call.returns_pieces);
      },
      std::move(call.client_names));
}

asio::awaitable<after> answer(http_connection& client, detokenize_call call) {
  auto open =
      client.core().http.detokenize(client.who, call.model, std::move(call.ids), client.wake());
  co_return co_await single_answer<detokenized>(client, api_family::openai, std::move(open),
                                                detokenize_body);
}

asio::awaitable<after> answer(http_connection& client, repository_call call) {
  auto open = client.core().http.change(call.change, client.wake());
  co_return co_await single_answer<model_changed>(client, call.speaks, std::move(open), call.tell);
}

} // namespace baton::gateway
