#include "gateway/grpc/grpc_call.hpp"

#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/auth/crash_record.hpp"
#include "gateway/base/access_log.hpp"
#include "gateway/base/request_id.hpp"
#include "gateway/dispatch/request_tracker.hpp"

#include <algorithm>
#include <utility>

namespace baton::gateway {
namespace {

// The answer when the root has succeeded: one message.
class root_answer final : public grpc_answer {
public:
  using converter = std::function<std::string(const model_changed&)>;
  explicit root_answer(converter to_message) : to_message_(std::move(to_message)) {}
  void take(const model_changed& done, std::vector<std::string>& out) override {
    out.push_back(to_message_(done));
  }
  bool has_ended() const noexcept override { return true; }

private:
  converter to_message_;
};

} // namespace

grpc_call::grpc_call(grpc_world& world, grpc_service service, grpc_began began,
                     std::function<void()> wake)
    : world_(world), service_(service), head_(std::move(began.head)), handle_(began.handle),
      wake_(std::move(wake)), request_id_(request_id_of(metadata_of(head_, "x-request-id"))) {
  handle_->greet({{"x-request-id", request_id_}});
  auto who = admit_grpc(service_, head_, facts());
  if (!who) {
    world_.opener.counts().refused(world_.opener.protocol(), who.error().code);
    end(grpc_failure(service_, who.error()));
    advance();
    return;
  }
  method_ = find_grpc_method(service_, head_.method);
  who_ = *std::move(who);
  const auto no = method_->access == route_access::open
                      ? std::nullopt
                      : refusal_of_suspect(facts().crashes(), {who_.name(), head_.peer});
  if (no) {
    world_.opener.counts().refused(world_.opener.protocol(), no->reason.code);
    end(grpc_failure(service_, no->reason, no->retry_after));
  }
  advance();
}

grpc_call::~grpc_call() = default;

void grpc_call::read(std::optional<std::string> message) {
  is_reading_ = false;
  if (!handle_ || ending_) {
    return;
  }
  if (message) {
    const crash_record::handling noted(facts().crashes(), {who_.name(), head_.peer});
    has_received_ = true;
    take(*message);
  } else {
    is_input_complete_ = true;
    if (!has_received_ && !is_many()) {
      end(grpc_failure(errc::invalid_request, "the call has no message"));
    }
  }
  advance();
}

void grpc_call::unread() {
  is_reading_ = false;
  if (handle_ && !ending_) {
    break_off(baton::fail(errc::internal, "the server has no memory for this message"));
  }
}

void grpc_call::written() {
  is_writing_ = false;
  advance();
}

void grpc_call::cancelled() {
  is_cancelled_ = true;
  if (!requests_.empty()) {
    world_.opener.counts().client_gone(world_.opener.protocol());
  }
  for (const auto& one : requests_) {
    note(one.open);
  }
  requests_.clear(); // which cancels their tickets
  outbox_.clear();
  ending_.reset();
  end(grpc_failure(errc::cancelled, "the call was cancelled"));
  advance();
}

void grpc_call::look() {
  const bool is_cut = std::any_of(requests_.begin(), requests_.end(),
                                  [](const member& m) { return m.open.is_cut(); });
  if (handle_ && is_writing_ && is_cut && !is_cancelled_) {
    return handle_->cancel(); // it does not read, so it would not read the status either
  }
  advance();
}

void grpc_call::break_off(const error& why) {
  requests_.clear(); // which cancels their tickets
  outbox_.clear();
  ending_.reset();
  end(grpc_failure(service_, why));
  advance();
}

void grpc_call::expire(clock::time_point now) {
  if (handle_ && !has_received_ && !is_many() && !ending_ &&
      now - began_ > facts().config().grpc_bounds.message_timeout) {
    end(grpc_failure(errc::request_timeout, "the request did not come in time"));
    advance();
  }
}

void grpc_call::take_health(std::string_view message) {
  if (method_->shape == grpc_shape::server_stream) {
    auto name = health_question(message, world_.codec);
    if (!name) {
      return end(grpc_failure(service_, name.error()));
    }
    watched_ = *std::move(name);
    return watch();
  }
  auto answer = answer_health(*method_, service_, who_, message, world_.codec, facts());
  if (!answer) {
    return end(grpc_failure(service_, answer.error()));
  }
  outbox_.push_back(*std::move(answer));
  end(grpc_status());
}

// A change while the client does not read is sent as soon as it reads.
void grpc_call::watch() {
  if (!handle_ || !watched_ || ending_ || is_writing_ || !outbox_.empty()) {
    return;
  }
  const auto now = health_of(service_, who_, *watched_, facts());
  if (last_health_ != now) {
    last_health_ = now;
    outbox_.push_back(health_message(now, world_.codec));
    advance();
  }
}

void grpc_call::take(std::string_view message) {
  if (method_->service == grpc_service::health) {
    return take_health(message);
  }
  auto plan = plan_grpc(*method_, message, world_.codec, facts());
  if (auto* reply = std::get_if<grpc_reply>(&plan)) {
    outbox_.push_back(std::move(reply->bytes));
    return end({});
  }
  if (auto* what = std::get_if<grpc_generate>(&plan)) {
    return open(std::move(*what));
  }
  if (auto* what = std::get_if<grpc_worker_request>(&plan)) {
    return open(std::move(*what));
  }
  if (auto* what = std::get_if<grpc_root_request>(&plan)) {
    return open(std::move(*what));
  }
  if (auto* complaint = std::get_if<grpc_stream_error>(&plan)) {
    world_.opener.trace_refusal(who_, complaint->what.code);
    outbox_.push_back(std::move(complaint->bytes));
    return;
  }
  const auto& why = std::get<error>(plan);
  if (method_->asks.empty()) {
    world_.opener.trace_refusal(who_, why.code);
  }
  end(grpc_failure(service_, why));
}

void grpc_call::limit(std::chrono::milliseconds& deadline, clock::time_point now) const {
  if (head_.time_left.count() > 0) {
    const auto spent = std::chrono::floor<std::chrono::milliseconds>(now - began_);
    deadline = sooner(deadline, std::max(head_.time_left - spent, std::chrono::milliseconds(1)));
  }
}

void grpc_call::open(grpc_generate what) {
  reply_times when;
  when.read = when.granted = clock::now();
  limit(what.request.terms.deadline, when.read);
  const auto choices = what.request.terms.choices;
  auto opened = one_of(world_.opener.open(who_, std::move(what.request), what.add_generation_prompt,
                                          /*is_stream=*/false, wake_),
                       choices, std::move(what.client_names));
  enter(std::move(opened),
        {std::move(what.answer), std::move(what.busy_model), std::move(what.ended_well), when});
}

void grpc_call::open(grpc_worker_request what) {
  reply_times when;
  when.read = when.granted = clock::now();
  limit(what.request.deadline, when.read);
  auto opened = one_of(world_.opener.infer(who_, std::move(what.request), wake_, what.goes_alone),
                       /*choices=*/1);
  enter(std::move(opened),
        {std::move(what.answer), std::move(what.busy_model), std::move(what.ended_well), when});
}

void grpc_call::open(grpc_root_request what) {
  auto opened = one_of(world_.opener.change(what.change, wake_), /*choices=*/1);
  enter(std::move(opened), {std::make_unique<root_answer>(std::move(what.to_message)), {}, {}, {}});
}

void grpc_call::enter(open_results opened, answering how) {
  how.when.opened = clock::now();
  if (!opened) {
    return fail(*how.answer, how.busy_model, opened.refusal());
  }
  requests_.push_back({*std::move(opened), std::move(how)});
}

void grpc_call::fail(grpc_answer& answer, const std::string& busy_model, rejected why) {
  if (!busy_model.empty()) {
    why.reason = torchserve_busy(std::move(why.reason), busy_model);
  }
  if (auto failure_message = answer.failure(why.reason)) {
    outbox_.push_back(*std::move(failure_message));
    return;
  }
  end(grpc_failure(service_, why.reason, why.retry_after));
}

// The requests take turns, so that one with much output does not delay the others. Events are taken
// until they make a message.
bool grpc_call::step() {
  const crash_record::handling noted(facts().crashes(), {who_.name(), head_.peer});
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const auto index = (next_request_ + i) % requests_.size();
    auto event = requests_[index].open.next();
    if (!event) {
      continue;
    }
    next_request_ = index + 1;
    const auto open = requests_.size();
    do {
      take(index, *event);
      if (requests_.size() != open) { // it has ended
        return true;
      }
    } while (outbox_.empty() && (event = requests_[index].open.next()));
    std::vector<std::string> out;
    requests_[index].how.answer->flush(out);
    std::move(out.begin(), out.end(), std::back_inserter(outbox_));
    return true;
  }
  return false;
}

void grpc_call::take(std::size_t index, stream_event& event) {
  auto& one = requests_[index];
  auto& how = one.how;
  std::optional<rejected> failure;
  if (std::holds_alternative<granted>(event)) {
    how.when.granted = clock::now();
    return;
  }
  std::vector<std::string> out;
  if (auto* no = std::get_if<rejected>(&event)) {
    failure = std::move(*no);
  } else if (auto* f = std::get_if<failed>(&event)) {
    failure.emplace().reason = std::move(f->reason);
  } else if (const auto* c = std::get_if<chunk>(&event)) {
    if (auto why = failure_of(*c)) {
      failure.emplace().reason = *std::move(why);
    } else {
      how.answer->add(*c, out);
    }
  } else if (auto* done = std::get_if<model_changed>(&event)) {
    if (done->failure) {
      failure.emplace().reason = *std::move(done->failure);
    } else {
      how.answer->take(*done, out);
    }
  } else if (auto* piece = std::get_if<inferred>(&event)) {
    if (auto ok = how.answer->take(std::move(*piece), out); !ok) {
      failure.emplace().reason = ok.error();
    }
  }
  std::move(out.begin(), out.end(), std::back_inserter(outbox_));
  if (!failure && !how.answer->has_ended()) {
    return;
  }
  if (failure) {
    fail(*how.answer, how.busy_model, *std::move(failure));
  } else if (how.ended_well) {
    how.when.granted = std::max(how.when.granted, one.open.begun_at());
    how.when.ended = clock::now();
    how.ended_well(how.when);
  }
  note(requests_[index].open);
  requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(index));
  if (!is_many()) {
    end({});
  }
}

void grpc_call::note(const open_requests& open) {
  model_ = open.model();
  if (const auto& used = open.usage()) {
    auto& all = usage_ ? *usage_ : usage_.emplace(request_usage{0, 0, used->ticket});
    all.prompt_tokens += used->prompt_tokens;
    all.output_tokens += used->output_tokens;
  }
}

void grpc_call::log() const {
  if (const auto& to = facts().access_log()) {
    access_entry e;
    e.protocol = world_.opener.protocol();
    e.method = "POST";
    e.path = head_.method;
    e.status = ending_->code;
    e.bytes = bytes_;
    e.seconds = std::chrono::duration<double>(clock::now() - began_).count();
    e.client = head_.peer;
    e.key = who_.name();
    e.request_id = request_id_;
    e.model = model_;
    e.usage = usage_;
    to->write(e);
  }
}

// Advances as far as possible without the client.
void grpc_call::advance() {
  while (handle_ && !is_writing_) {
    if (!outbox_.empty()) {
      is_writing_ = true;
      bytes_ += outbox_.front().size();
      handle_->write(std::move(outbox_.front()));
      outbox_.pop_front();
    } else if (ending_) {
      log();
      std::exchange(handle_, nullptr)->finish(*ending_);
      requests_.clear();
    } else if (!step()) {
      if (!is_many() || !is_input_complete_ || !requests_.empty()) {
        break;
      }
      end({});
    }
  }
  if (!handle_ || ending_ || is_reading_ || is_input_complete_) {
    return;
  }
  const bool has_room = requests_.size() < facts().config().grpc_bounds.requests_per_call_max;
  if (is_many() ? has_room && outbox_.empty() : !has_received_) {
    is_reading_ = true;
    handle_->read();
  }
}

// Only the first of several statuses counts.
void grpc_call::end(grpc_status with) {
  if (!ending_) {
    ending_ = std::move(with);
  }
}

} // namespace baton::gateway
