#include "gateway/websocket/socket_events.hpp"

#include "gateway/admission/open_requests.hpp"
#include "gateway/request/response_writer.hpp"
#include "gateway/state/request_guard.hpp"
#include "gateway/websocket/websocket_messages.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

bool append_chunk(const std::string& id, socket_request& r, const chunk& c,
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

bool append_ready(const std::string& id, socket_request& r, std::vector<std::string>& out) {
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

} // namespace

bool append_events(const std::string& id, socket_request& r, std::vector<std::string>& out) {
  bool has_ended = false;
  if (const auto fault = guarded("websocket", [&] { has_ended = append_ready(id, r, out); })) {
    out.push_back(socket_error_text(id, *fault));
    r.status = row_of(fault->code).http_status;
    return true;
  }
  return has_ended;
}

} // namespace baton::gateway
