#include "gateway/websocket/socket_requests.hpp"

#include "gateway/admission/open_requests.hpp"
#include "gateway/auth/crash_record.hpp"
#include "gateway/config/websocket_settings.hpp"
#include "gateway/request/response_writer.hpp"
#include "gateway/state/refusal.hpp"
#include "gateway/websocket/socket_events.hpp"

#include <algorithm>
#include <iterator>

namespace baton::gateway {
namespace {

// Bound of the queued replies: a client that sends without reading reaches it.
constexpr std::size_t replies_bytes_max = 256 * 1024;

} // namespace

socket_requests::socket_requests(admission& opener, principal who, socket_origin origin,
                                 std::function<void()> wake)
    : opener_(opener), who_(std::move(who)), origin_(std::move(origin)), wake_(std::move(wake)) {}

bool socket_requests::has_cut_stream() const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [](const auto& r) { return r.second.open.is_cut(); });
}

bool socket_requests::sends_only_bad_messages() const {
  return bad_in_row_ >= facts().config().websocket.bad_json_in_row_max;
}

bool socket_requests::has_too_many_replies() const {
  return replies_bytes_ > replies_bytes_max;
}

void socket_requests::collect(std::vector<std::string>& out) {
  std::move(replies_.begin(), replies_.end(), std::back_inserter(out));
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
}

void socket_requests::close_all() {
  for (const auto& [id, r] : requests_) {
    opener_.counts().client_gone("websocket");
    log(id, r, errc::cancelled);
  }
  requests_.clear();
}

void socket_requests::reply(std::string text) {
  replies_bytes_ += text.size();
  replies_.push_back(std::move(text));
  wake_();
}

void socket_requests::note(const socket_mistake& m) {
  bad_in_row_ = m.is_json ? 0 : bad_in_row_ + 1;
  opener_.counts().refused("websocket", m.reason.code);
  opener_.trace_refusal(who_, m.reason.code);
  refuse(m.id, refuse_here(m.reason, *facts().look()));
}

void socket_requests::refuse(const std::string& id, const rejected& no) {
  reply(socket_refusal_text(id, no));
}

void socket_requests::take(std::string_view text) {
  const crash_record::handling noted(facts().crashes(), {who_.name(), origin_.address});
  auto parsed = parse_socket_message(text, facts().config());
  if (const auto* mistake = std::get_if<socket_mistake>(&parsed)) {
    note(*mistake);
    return;
  }
  bad_in_row_ = 0;
  std::visit([this](auto& m) { take(std::move(m)); }, std::get<socket_message>(parsed));
}

bool socket_requests::has_room_for(const std::string& id) {
  if (requests_.contains(id)) {
    note({fail_param(errc::conflict, "id", "a request with the id '{}' is open", id), {}, true});
    return false;
  }
  if (requests_.size() >= facts().config().websocket.requests_per_socket_max) {
    note({fail(errc::overloaded, "the socket has {} open requests, its limit", requests_.size()),
          id, true});
    return false;
  }
  return true;
}

void socket_requests::log(const std::string& id, const socket_request& r, errc if_running) const {
  const auto& to = facts().access_log();
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

void socket_requests::take(socket_start&& m) {
  if (!has_room_for(m.id)) {
    return;
  }
  auto open = opener_.open(who_, std::move(m.call.request), m.call.add_generation_prompt,
                           /*is_stream=*/true, wake_);
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

void socket_requests::take(socket_resume&& m) {
  if (!has_room_for(m.id)) {
    return;
  }
  auto open = opener_.resume(who_, m.model, m.position, /*is_resumable=*/true, wake_);
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

void socket_requests::take(const socket_cancel& m) {
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

void socket_requests::take(const socket_ack& m) {
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
  wake_();
}

} // namespace baton::gateway
