#include "gateway/reception.hpp"

#include "gateway/request_check.hpp"
#include "schema/limits.hpp"

#include <utility>

namespace baton::gateway {

open_request::open_request(desk_actor desk, std::shared_ptr<stream> out, std::string model,
                           cancel_reason if_lost)
    : desk_(std::move(desk)), stream_(std::move(out)), model_(std::move(model)), if_lost_(if_lost) {
}

open_request::~open_request() {
  close(if_lost_);
}

open_request::open_request(open_request&& other) noexcept
    : desk_(std::move(other.desk_)), stream_(std::move(other.stream_)),
      model_(std::move(other.model_)), if_lost_(other.if_lost_), is_ended_(other.is_ended_) {}

open_request& open_request::operator=(open_request&& other) noexcept {
  if (this != &other) {
    close(if_lost_);
    desk_ = std::move(other.desk_);
    stream_ = std::move(other.stream_);
    model_ = std::move(other.model_);
    if_lost_ = other.if_lost_;
    is_ended_ = other.is_ended_;
  }
  return *this;
}

void open_request::close(cancel_reason why) noexcept {
  if (!stream_) {
    return;
  }
  stream_->detach();
  if (!std::exchange(is_ended_, true)) {
    caf::anon_send(desk_, close_request{stream_->number(), why});
  }
}

reception::reception(desk_actor desk, std::shared_ptr<board> facts, std::string door)
    : desk_(std::move(desk)), facts_(std::move(facts)), door_(std::move(door)) {}

error reception::refuse(error why) {
  counts().refused(door_, why.code);
  return why;
}

result<model_card> reception::admit(std::string_view model, const generate* request) {
  auto card = find_model(*facts_->look(), facts_->config().model_aliases, model);
  if (!card) {
    return refuse(card.error());
  }
  if (request) {
    if (auto ok = check_against_model(*request, *card); !ok) {
      return refuse(ok.error());
    }
  }
  if (!facts_->enter()) {
    return refuse(fail(errc::overloaded,
                       "the gateway serves {} requests, its limit; try again later",
                       facts_->config().requests_max));
  }
  counts().request_opened(door_);
  return card;
}

std::shared_ptr<stream> reception::new_stream(std::function<void()> wake) {
  return std::make_shared<stream>(facts_->next_number(), facts_->config().stream_buffer_max_bytes,
                                  std::move(wake));
}

namespace {

cancel_reason if_lost(bool is_resumable) {
  return is_resumable ? cancel_reason::client_lost : cancel_reason::client_gone;
}

} // namespace

result<open_request> reception::open(generate request, bool add_generation_prompt, bool is_stream,
                                     std::function<void()> wake) {
  if (auto ok = check_limits(request); !ok) {
    return refuse(ok.error());
  }
  auto card = admit(request.model, &request);
  if (!card) {
    return card.error();
  }
  auto out = new_stream(std::move(wake));
  request.request = out->number();
  request.model = card->name;
  const auto lost = if_lost(request.is_resumable || !request.request_id.empty());
  caf::anon_send(desk_, open_generate{out, std::move(request), add_generation_prompt, is_stream});
  return open_request(desk_, std::move(out), card->name, lost);
}

result<open_request> reception::resume(std::string_view model, stream_position from,
                                       bool is_resumable, std::function<void()> wake) {
  auto card = admit(model, nullptr);
  if (!card) {
    return card.error();
  }
  auto out = new_stream(std::move(wake));
  caf::anon_send(desk_,
                 open_resume{out, card->name, from.ticket, from.resume_key, std::move(from.from)});
  return open_request(desk_, std::move(out), card->name, if_lost(is_resumable));
}

result<open_request> reception::tokenize(std::string_view model, prompt input,
                                         bool add_generation_prompt, std::function<void()> wake) {
  if (auto ok = check_limits(input); !ok) {
    return refuse(ok.error());
  }
  auto card = admit(model, nullptr);
  if (!card) {
    return card.error();
  }
  auto out = new_stream(std::move(wake));
  caf::anon_send(desk_, open_tokenize{out, std::move(input), add_generation_prompt});
  return open_request(desk_, std::move(out), card->name);
}

result<open_request> reception::detokenize(std::string_view model, std::vector<token_id> ids,
                                           std::function<void()> wake) {
  if (ids.size() > limits::ids_max) {
    return refuse(fail_param(errc::payload_too_large, "tokens",
                             "{} tokens are more than the {} that fit into a message", ids.size(),
                             limits::ids_max));
  }
  auto card = admit(model, nullptr);
  if (!card) {
    return card.error();
  }
  auto out = new_stream(std::move(wake));
  caf::anon_send(desk_, open_detokenize{out, std::move(ids)});
  return open_request(desk_, std::move(out), card->name);
}

} // namespace baton::gateway
