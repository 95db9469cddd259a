// The stored answers of /v1/responses: they can be generated in the background, read again and
// cancelled. Heavy: Asio.
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/http/http_answers.hpp"
#include "gateway/request/request_check.hpp"
#include "gateway/state/refusal.hpp"
#include "schema/ensure.hpp"

#include <boost/asio/co_spawn.hpp>
#include <spdlog/spdlog.h>

#include <iterator>
#include <mutex>
#include <utility>

namespace baton::gateway {
namespace {

using clock = std::chrono::steady_clock;

http_reply removed_reply(const std::string& id) {
  const nlohmann::ordered_json body{{"id", id}, {"object", "response"}, {"deleted", true}};
  return json_reply(json_text(body));
}

error no_such(std::string_view id) {
  return fail_param(errc::not_found, "response_id", "there is no response '{}'", id);
}

// The previous conversation and the new items. Errors: invalid_value.
result<chat_prompt> conversation_of(http_connection& client, response_create& call) {
  chat_prompt all;
  if (!call.previous.empty()) {
    const auto before =
        client.core().responses.find(call.previous, client.who.name(), clock::now());
    if (!before) {
      return fail_param(errc::invalid_value, "previous_response_id",
                        "there is no response '{}' to continue", call.previous);
    }
    const bool is_known = !before->asked.empty(); // else it was recovered by its id
    if (!before->is_over() || before->has_failed() || !is_known) {
      return fail_param(errc::invalid_value, "previous_response_id",
                        "the response '{}' has no conversation to continue", call.previous);
    }
    all = before->conversation();
  }
  auto& items = std::get<chat_prompt>(call.call.request.input);
  all.insert(all.end(), std::make_move_iterator(items.begin()),
             std::make_move_iterator(items.end()));
  return all;
}

// A stream rings its connection first, and later the task that continues the request.
class wake_target {
public:
  explicit wake_target(std::function<void()> to) : to_(std::move(to)) {}
  void ring() {
    const std::lock_guard lock(mutex_);
    to_();
  }
  void redirect(std::function<void()> to) {
    const std::lock_guard lock(mutex_);
    to_ = std::move(to);
  }

private:
  std::mutex mutex_;
  std::function<void()> to_;
};

void take(kept_response& kept, stream_event& event) {
  if (const auto* c = std::get_if<chunk>(&event)) {
    if (const auto failure = failure_of(*c)) {
      kept.fail(*failure);
    } else {
      kept.add(*c);
    }
  } else if (const auto* f = std::get_if<failed>(&event)) {
    kept.fail(f->reason);
  } else if (const auto* r = std::get_if<rejected>(&event)) {
    kept.fail(r->reason);
  }
}

// Runs until the response is complete or cancelled. A server that stops leaves the ticket, so that
// the response can be recovered.
asio::awaitable<void> make_in_background(server_context& core, std::shared_ptr<kept_response> kept,
                                         open_requests open, std::shared_ptr<bell> wake,
                                         std::uint64_t connection_id) {
  const auto is_over = [&] { return core.connections.is_stopping() || kept->is_over(); };
  while (auto event = co_await next_event(open, *wake, is_over)) {
    take(*kept, *event);
  }
  if (kept->is_over()) {
    open.close(cancel_reason::client_asked);
  }
  kept->fail(fail(errc::cancelled, "the server stops")); // no effect on a complete one
  core.connections.leave(connection_id);
}

// Sends the response as it is now, or its events as they arrive.
asio::awaitable<after> send_response(http_connection& client, std::shared_ptr<kept_response> kept,
                                     bool is_stream, std::optional<std::uint64_t> starting_after) {
  if (!is_stream || client.framing.is_head) {
    co_return co_await client.reply(json_reply(kept->body()));
  }
  client.framing.keeps_alive = client.framing.keeps_alive && !client.framing.is_http_1_0;
  response_events writer(kept->shape, kept->who, nullptr, starting_after);
  auto lead = event_stream_header(client.framing);
  std::string out;
  writer.begin(out);
  kept->watch(&client, client.wake());
  client.watch_client();
  bool is_ok = true;
  std::size_t piece = 0;
  while (is_ok && !client.is_over()) {
    const auto news = kept->since(piece);
    piece += news.pieces.size();
    for (const auto& c : news.pieces) {
      writer.add(c, out);
    }
    if (news.failure) {
      writer.fail(*news.failure, out);
    }
    if (!out.empty() || !lead.empty() || writer.has_ended()) {
      is_ok = co_await write_events(client, lead, out, writer.has_ended());
    }
    if (writer.has_ended()) {
      break;
    }
    if (news.pieces.empty()) {
      const auto before = clock::now();
      co_await client.bell_of().wait(client.limits().sse_ping_interval);
      if (clock::now() - before >= client.limits().sse_ping_interval) {
        out += event_comment;
      }
    }
  }
  kept->unwatch(&client);
  client.unwatch_client();
  client.count_request(200);
  const bool is_next = is_ok && writer.has_ended() && client.framing.keeps_alive;
  co_return is_next ? after::next_request : after::close;
}

// A response that has background_start in the background, or the refusal. Neither, if the client is
// gone.
struct background_start {
  std::shared_ptr<kept_response> kept;
  std::optional<http_reply> refusal;
};

http_reply refusal_here(server_context& core, const error& why, std::string_view model) {
  return refusal_reply(refuse_here(why, *core.facts->look(), model), core.config().overload_status);
}

// `open` rings `ring`. The client waits until the ticket is granted, and gets a refusal up to then
// as any other request.
asio::awaitable<background_start> begin_background(http_connection& client, open_results open,
                                                   std::shared_ptr<wake_target> ring,
                                                   response_shape shape, chat_prompt asked) {
  auto& core = client.core();
  if (!open) {
    co_return background_start{nullptr,
                               refusal_reply(open.refusal(), core.config().overload_status)};
  }
  if (shape.model.empty()) {
    shape.model = open->model();
  }
  client.watch_client();
  const auto event = co_await client.next(*open);
  client.unwatch_client();
  if (!event) {
    open->close(cancel_reason::client_gone);
    co_return background_start{};
  }
  const auto* ticket = std::get_if<granted>(&*event);
  if (!ticket) {
    co_return background_start{
        nullptr,
        refusal_of(client, openai_family, *event)
            .value_or(error_reply(fail(errc::internal, "the answer was of another kind")))};
  }
  auto kept = std::make_shared<kept_response>(std::string(client.who.name()), shape,
                                              identity_of(client, *ticket), std::move(asked));
  if (auto ok = core.responses.enter(kept, clock::now()); !ok) {
    open->close(cancel_reason::client_gone);
    co_return background_start{nullptr, refusal_here(core, ok.error(), shape.model)};
  }
  asio::any_io_executor strand = asio::make_strand(core.io);
  const auto wake = std::make_shared<bell>(strand);
  const auto& config = core.config();
  const auto connection_id =
      core.connections.enter([wake] { wake->ring(); },
                             config.http_bounds.connections_max + config.responses.background_max);
  if (!connection_id) {
    kept->cancel();
    open->close(cancel_reason::client_gone);
    co_return background_start{
        nullptr, refusal_here(core, fail(errc::overloaded, "too many connections"), shape.model)};
  }
  kept->on_cancel([wake] { wake->ring(); });
  ring->redirect([wake] { wake->ring(); });
  asio::co_spawn(
      strand,
      [&core, kept, wake, connection_id = *connection_id,
       open = std::make_shared<open_requests>(std::move(*open))]() {
        return make_in_background(core, kept, std::move(*open), wake, connection_id);
      },
      [](std::exception_ptr e) {
        if (e) { // allocation failures
          spdlog::error("a response in the background ended with an exception");
        }
      });
  co_return background_start{std::move(kept), std::nullopt};
}

// Recovers a response that an earlier run of a gateway began, if the head still has its ticket. The
// request is not known any more.
asio::awaitable<background_start> recover_response(http_connection& client, std::string_view id) {
  const auto& config = client.core().config();
  const auto position = response_position(id);
  if (!position || config.shares_http || client.core().responses.knows(id, clock::now())) {
    co_return background_start{nullptr, error_reply(no_such(id))};
  }
  const auto like = parse_response(
      R"({"input":"","background":true,"metadata":{"recovered":"its request is not known any more"}})",
      config);
  ENSURE(like, "the body of a response: {}", like.error().message);
  const auto ring = std::make_shared<wake_target>(client.wake());
  auto open = one_of(client.core().http.resume(client.who, {}, *position, /*is_resumable=*/true,
                                               [ring] { ring->ring(); }),
                     1, response_field_names());
  auto out = co_await begin_background(client, std::move(open), ring, like->shape, {});
  if (out.refusal && out.refusal->status == row_of(errc::ticket_not_found).http_status) {
    out.refusal = error_reply(no_such(id));
  }
  co_return out;
}

asio::awaitable<after> create_response(http_connection& client, response_create call) {
  auto asked = conversation_of(client, call);
  if (!asked) {
    co_return co_await client.reply(error_reply(asked.error()));
  }
  chat_prompt input;
  if (!call.instructions.empty()) {
    input.push_back({.role = "system", .content = std::move(call.instructions), .name = {}});
  }
  input.insert(input.end(), asked->begin(), asked->end());
  auto& request = call.call.request;
  request.input = std::move(input);
  // Checks it together with the previous conversation.
  if (auto ok = check_ranges(request, client.core().config().request); !ok) {
    co_return co_await client.reply(
        error_reply(in_client_terms(response_field_names(), ok.error())));
  }
  call.shape.calls = call.call.shape.calls;
  call.shape.reads_reasoning = call.call.shape.reads_reasoning;
  if (call.shape.is_background) {
    const bool is_kept = can_be_taken_up(call.shape);
    request.is_resumable = is_kept;
    const auto ring = std::make_shared<wake_target>(client.wake());
    auto open = one_of(client.core().http.open(client.who, std::move(request),
                                               /*add_generation_prompt=*/true, is_kept,
                                               [ring] { ring->ring(); }),
                       1, response_field_names());
    auto out =
        co_await begin_background(client, std::move(open), ring, call.shape, *std::move(asked));
    if (out.refusal) {
      co_return co_await client.reply(*out.refusal);
    }
    if (!out.kept) {
      co_return after::close;
    }
    co_return co_await send_response(client, std::move(out.kept), call.shape.is_stream,
                                     std::nullopt);
  }
  auto open = one_of(client.core().http.open(client.who, std::move(request),
                                             /*add_generation_prompt=*/true, /*is_stream=*/false,
                                             client.wake()),
                     1, response_field_names());
  auto shape = call.shape;
  if (open && shape.model.empty()) {
    shape.model = open->model();
  }
  keep_answer keep;
  if (shape.is_stored) {
    keep = [&client, shape, asked = *std::move(asked)](const reply_identity& who, answer_log log) {
      auto kept =
          std::make_shared<kept_response>(std::string(client.who.name()), shape, who, asked);
      kept->set_log(std::move(log));
      // A complete response has room, unless all others are still running: then it is lost.
      if (auto ok = client.core().responses.enter(std::move(kept), clock::now()); !ok) {
        spdlog::warn("a response could not be stored: {}", ok.error().message);
      }
    };
  }
  generation_call with;
  with.is_stream = shape.is_stream;
  with.whole = [&](const std::string&) { return std::make_unique<response_unary>(shape, keep); };
  with.events = [&](const std::string&, const reply_identity& who) {
    return std::make_unique<response_events>(shape, who, keep);
  };
  with.family = &openai_family;
  co_return co_await answer_opened(client, std::move(open), with);
}

asio::awaitable<after> answer_question(http_connection& client, response_question question) {
  using kind = response_question::kind;
  auto& store = client.core().responses;
  const auto now = clock::now();
  auto kept = store.find(question.id, client.who.name(), now);
  if (!kept) {
    auto out = co_await recover_response(client, question.id);
    if (out.refusal) {
      co_return co_await client.reply(*out.refusal);
    }
    if (!out.kept) {
      co_return after::close;
    }
    kept = std::move(out.kept);
  }
  switch (question.what) {
  case kind::remove:
    store.remove(question.id, client.who.name(), now);
    co_return co_await client.reply(removed_reply(kept->id));
  case kind::cancel:
    if (!kept->shape.is_background) {
      co_return co_await client.reply(error_reply(
          fail_param(errc::invalid_value, "response_id",
                     "only responses in the background can be cancelled: close the connection of "
                     "others")));
    }
    kept->cancel();
    co_return co_await client.reply(json_reply(kept->body()));
  case kind::whole:
  case kind::events:
    break;
  }
  co_return co_await send_response(client, std::move(kept), question.what == kind::events,
                                   question.starting_after);
}

} // namespace

asio::awaitable<after> answer_response(http_connection& client,
                                       std::shared_ptr<response_call> call) {
  if (auto* create = std::get_if<response_create>(&call->what)) {
    return create_response(client, std::move(*create));
  }
  return answer_question(client, std::move(std::get<response_question>(call->what)));
}

} // namespace baton::gateway
