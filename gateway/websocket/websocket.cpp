// Heavy: Asio and Beast's WebSocket.
//
// One coroutine reads messages, one writes; both on the connection's strand. States of a request on
// a socket:
//
//   start -> opened --granted, tokens...--> done | error
//               |  un-acked tokens = window -> held back (buffers up to the stream's bound)
//               +--cancel--> error{cancelled}
#include "gateway/websocket/websocket.hpp"

#include "gateway/admission/open_requests.hpp"
#include "gateway/api/openai/openai_response.hpp"
#include "gateway/auth/crash_record.hpp"
#include "gateway/base/access_log.hpp"
#include "gateway/base/request_id.hpp"
#include "gateway/config/websocket_settings.hpp"
#include "gateway/request/response_writer.hpp"
#include "gateway/state/refusal.hpp"
#include "gateway/state/request_guard.hpp"
#include "gateway/websocket/socket_protocol.hpp"
#include "gateway/websocket/socket_request.hpp"
#include "gateway/websocket/websocket_messages.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <spdlog/spdlog.h>

#include <array>
#include <deque>
#include <map>

namespace baton::gateway {
namespace {

namespace websocket = boost::beast::websocket;
using upgrade_request = boost::beast::http::request<boost::beast::http::string_body>;

// Bound of the queued replies: a client that sends without reading reaches it.
constexpr std::size_t replies_bytes_max = 256 * 1024;

class websocket_session : public std::enable_shared_from_this<websocket_session> {
public:
  websocket_session(server_context& core, client_socket socket, std::uint64_t id, principal who,
                    socket_origin origin)
      : core_(core), entry_(core, id), who_(std::move(who)), origin_(std::move(origin)),
        ws_(std::move(socket)), bell_(std::make_shared<bell>(ws_.get_executor())) {}

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

  void take(std::string_view text);
  void take(socket_start&& m);
  void take(socket_resume&& m);
  bool has_room_for(const std::string& id);
  void log(const std::string& id, const socket_request& r, errc if_running) const;
  void take(const socket_cancel& m);
  void take(const socket_ack& m);
  void note(const socket_mistake& m);
  void refuse(const std::string& id, const rejected& no);
  void reply(std::string text);

  // Appends the messages that are ready now; true if the request has ended.
  bool append_events(const std::string& id, socket_request& r, std::vector<std::string>& out);
  bool collect(const std::string& id, socket_request& r, std::vector<std::string>& out);
  bool append_chunk(const std::string& id, socket_request& r, const chunk& c,
                    std::vector<std::string>& out);

  server_context& core_;
  table_entry entry_;
  principal who_;
  const socket_origin origin_;
  websocket::stream<client_socket> ws_;
  std::shared_ptr<bell> bell_;
  std::shared_ptr<watchdog> watchdog_;
  std::map<std::string, socket_request, std::less<>> requests_;
  std::deque<std::string> replies_;
  std::size_t replies_bytes_ = 0;
  std::array<char, 4096> piece_; // of the message that is read
  std::uint32_t bad_in_row_ = 0;
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
    if (!self || !self->is_writing_) {
      return;
    }
    for (const auto& [id, r] : self->requests_) {
      if (r.open.is_cut()) { // the socket itself blocks: do not wait for the whole time-out
        self->watchdog_->arm(self->core_.config().http_bounds.cut_grace);
        return;
      }
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
  ws_.set_option(websocket::stream_base::decorator([has_protocol, id = origin_.request_id](
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
  // The client has closed the connection or is gone: cancel its tickets.
  for (const auto& [id, r] : requests_) {
    core_.websocket.counts().client_gone("websocket");
    log(id, r, errc::cancelled);
  }
  requests_.clear();
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
      fault = guarded("websocket", [&] { take(text); });
    } else if (!fault) {
      note({fail(errc::invalid_request, "messages must be text, not binary"), {}, false});
    }
    if (fault) {
      note({*fault, {}, true});
    }
    if (bad_in_row_ >= core_.config().websocket.bad_json_in_row_max) {
      close_with_ = websocket::close_code::policy_error;
      bell_->ring();
    }
    if (replies_bytes_ > replies_bytes_max) {
      end(); // the client sends and does not read
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

void websocket_session::reply(std::string text) {
  replies_bytes_ += text.size();
  replies_.push_back(std::move(text));
  bell_->ring();
}

void websocket_session::note(const socket_mistake& m) {
  bad_in_row_ = m.is_json ? 0 : bad_in_row_ + 1;
  core_.websocket.counts().refused("websocket", m.reason.code);
  core_.websocket.trace_refusal(who_, m.reason.code);
  refuse(m.id, refuse_here(m.reason, *core_.facts->look()));
}

void websocket_session::refuse(const std::string& id, const rejected& no) {
  reply(socket_refusal_text(id, no));
}

void websocket_session::take(std::string_view text) {
  const crash_record::handling noted(core_.facts->crashes(), {who_.name(), origin_.address});
  auto parsed = parse_socket_message(text, core_.config());
  if (const auto* mistake = std::get_if<socket_mistake>(&parsed)) {
    note(*mistake);
    return;
  }
  bad_in_row_ = 0;
  std::visit([this](auto& m) { take(std::move(m)); }, std::get<socket_message>(parsed));
}

bool websocket_session::has_room_for(const std::string& id) {
  if (requests_.contains(id)) {
    note({fail_param(errc::conflict, "id", "a request with the id '{}' is open", id), {}, true});
    return false;
  }
  if (requests_.size() >= core_.config().websocket.requests_per_socket_max) {
    note({fail(errc::overloaded, "the socket has {} open requests, its limit", requests_.size()),
          id, true});
    return false;
  }
  return true;
}

void websocket_session::log(const std::string& id, const socket_request& r, errc if_running) const {
  const auto& to = core_.facts->access_log();
  if (!to) {
    return;
  }
  constexpr int well = 200;
  const bool is_over = r.choices_left == 0;
  access_entry e;
  e.protocol = "websocket";
  e.path = "/v1/stream";
  e.status = r.status ? r.status : is_over ? well : row_of(if_running).http_status;
  e.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - r.began).count();
  e.client = origin_.address;
  e.key = who_.name();
  e.request_id = origin_.request_id;
  e.message_id = id;
  e.model = r.open.model();
  e.usage = r.used;
  to->write(e);
}

void websocket_session::take(socket_start&& m) {
  if (!has_room_for(m.id)) {
    return;
  }
  auto open = core_.websocket.open(who_, std::move(m.call.request), m.call.add_generation_prompt,
                                   /*is_stream=*/true, [b = bell_] { b->ring(); });
  if (!open) {
    refuse(m.id, in_client_terms(m.call.client_names, open.refusal()));
    return;
  }
  const auto choices = m.call.shape.choices;
  requests_.emplace(std::move(m.id), socket_request{.open = *std::move(open),
                                                    .shape = std::move(m.call.shape),
                                                    .client_names = std::move(m.call.client_names),
                                                    .window = m.window,
                                                    .sent = std::vector<std::uint32_t>(choices, 0),
                                                    .acked = std::vector<std::uint32_t>(choices, 0),
                                                    .choices_left = choices});
}

void websocket_session::take(socket_resume&& m) {
  if (!has_room_for(m.id)) {
    return;
  }
  auto open = core_.websocket.resume(who_, m.model, m.position, /*is_resumable=*/true,
                                     [b = bell_] { b->ring(); });
  if (!open) {
    refuse(m.id, open.refusal());
    return;
  }
  reply_shape shape;
  shape.has_logprobs = true; // present where the request asked for them
  shape.choices = static_cast<std::uint32_t>(m.position.from.size());
  std::vector<std::uint32_t> had;
  for (const auto& point : m.position.from) {
    had.push_back(point.index);
  }
  const auto choices = shape.choices;
  requests_.emplace(std::move(m.id), socket_request{.open = *std::move(open),
                                                    .shape = std::move(shape),
                                                    .client_names = {},
                                                    .window = m.window,
                                                    .sent = had,
                                                    .acked = had,
                                                    .choices_left = choices});
}

void websocket_session::take(const socket_cancel& m) {
  const auto it = requests_.find(m.id);
  if (it == requests_.end()) {
    // It may have ended while the message was in transit: answer, but do not count a mistake.
    reply(socket_error_text(m.id, fail(errc::not_found, "no request with this id is open")));
    return;
  }
  it->second.open.close(cancel_reason::client_asked);
  log(m.id, it->second, errc::cancelled);
  requests_.erase(it);
  reply(socket_error_text(m.id, fail(errc::cancelled, "cancelled by the client")));
}

void websocket_session::take(const socket_ack& m) {
  const auto it = requests_.find(m.id);
  if (it == requests_.end()) {
    return; // an ack of the last tokens crosses the end of the request
  }
  auto& r = it->second;
  if (m.choice >= r.sent.size() || m.index > r.sent[m.choice]) {
    note({fail_param(errc::invalid_value, "index", "token {} was not sent yet", m.index), m.id,
          true});
    return;
  }
  r.acked[m.choice] = std::max(r.acked[m.choice], m.index);
  if (m.window) {
    r.window = m.window;
  }
  bell_->ring();
}

bool websocket_session::append_chunk(const std::string& id, socket_request& r, const chunk& c,
                                     std::vector<std::string>& out) {
  r.used.output_tokens += c.count;
  if (const auto failure = failure_of(c)) {
    r.status = row_of(failure->code).http_status;
    out.push_back(socket_error_text(id, in_client_terms(r.client_names, *failure)));
    return true; // dropping the request cancels its other choices
  }
  if (c.count > 0 || !c.text.empty()) {
    out.push_back(tokens_text(id, c, r.shape));
    r.sent[c.choice] = c.index;
  }
  if (c.finish == finish::none) {
    return false;
  }
  r.used.prompt_tokens = c.prompt_tokens;
  const bool is_last = --r.choices_left == 0;
  out.push_back(done_text(id, c, r.shape, is_last));
  if (is_last) {
    r.open.ended();
  }
  return is_last;
}

bool websocket_session::collect(const std::string& id, socket_request& r,
                                std::vector<std::string>& out) {
  std::optional<chunk> merged; // adjacent chunks of one choice become one message
  const auto flush = [&] {
    const bool is_over = merged && append_chunk(id, r, *merged, out);
    merged.reset();
    return is_over;
  };
  auto room = r.room();
  while (auto event = r.open.next(room)) {
    if (auto* c = std::get_if<chunk>(&*event)) {
      room -= std::min(room, r.window ? c->count : 0);
      const bool joins = merged && merged->choice == c->choice && !failure_of(*c);
      if (joins) {
        merged->index = c->index;
        merged->count += c->count;
        merged->text += c->text;
        merged->details.insert(merged->details.end(), c->details.begin(), c->details.end());
        merged->finish = c->finish;
        merged->prompt_tokens = c->prompt_tokens;
        merged->cached_tokens = c->cached_tokens;
        merged->output_tokens = c->output_tokens;
        continue;
      }
      if (flush()) {
        return true;
      }
      merged = std::move(*c);
      continue;
    }
    if (flush()) {
      return true;
    }
    if (const auto* g = std::get_if<granted>(&*event)) {
      r.used.ticket = g->ticket;
      out.push_back(granted_text(id, *g));
      continue;
    }
    const auto* refused = std::get_if<rejected>(&*event);
    const auto* broken = std::get_if<failed>(&*event);
    if (refused || broken) {
      r.status = row_of(refused ? refused->reason.code : broken->reason.code).http_status;
      out.push_back(refused
                        ? socket_refusal_text(id, in_client_terms(r.client_names, *refused))
                        : socket_error_text(id, in_client_terms(r.client_names, broken->reason)));
      r.open.ended();
      return true;
    }
  }
  return flush();
}

// An exception ends only this request.
bool websocket_session::append_events(const std::string& id, socket_request& r,
                                      std::vector<std::string>& out) {
  bool has_ended = false;
  if (const auto fault = guarded("websocket", [&] { has_ended = collect(id, r, out); })) {
    out.push_back(socket_error_text(id, *fault));
    r.status = row_of(fault->code).http_status;
    return true;
  }
  return has_ended;
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
    for (auto& text : replies_) {
      out.push_back(std::move(text));
    }
    replies_.clear();
    replies_bytes_ = 0;
    for (auto it = requests_.begin(); it != requests_.end();) {
      if (!append_events(it->first, it->second, out)) {
        ++it;
        continue;
      }
      log(it->first, it->second, errc::cancelled);
      it = requests_.erase(it);
    }
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
