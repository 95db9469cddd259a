#include "sdk/cpp/library_calls.hpp"

#include "sdk/cpp/abi_values.hpp"

#include <algorithm>
#include <mutex>

namespace baton::sdk {
namespace {

// State of the process.
struct process_state {
  worker_place place;
  std::uint32_t version = BATON_WORKER_ABI_VERSION;
  std::mutex mutex;
  std::optional<client> others; // connected by the first call

  result<pieces> ask(infer question) {
    const std::lock_guard lock(mutex);
    if (!others || !others->is_open()) {
      auto made = place.connect();
      if (!made)
        return made.error();
      others = std::move(*made);
    }
    return others->infer_stream(std::move(question));
  }
};

process_state& around() {
  static process_state one;
  return one;
}

struct open_call {
  pieces answer;
  inferred last; // the pointers below point into it
  std::vector<baton_tensor> outputs = {};
  std::vector<baton_header> headers = {};
};

open_call& of(baton_call* c) {
  return *reinterpret_cast<open_call*>(c);
}

void copy_reason(const error& e, char* why, std::size_t bytes) {
  if (bytes == 0)
    return;
  const auto text = fmt::format("{}: {}", row_of(e.code).name, e.message);
  const auto size = std::min(text.size(), bytes - 1);
  std::copy_n(text.data(), size, why);
  why[size] = '\0';
}

void send_piece(baton_work* w, const baton_piece* piece, int is_last) {
  auto& answer = library_work::of(w).answer();
  auto p = value_of(*piece, around().version);
  if (is_last != 0)
    answer.finish(std::move(p));
  else
    answer.piece(std::move(p));
}

void send_failure(baton_work* w, const char* why) {
  library_work::of(w).answer().fail(fail(errc::handler_failed, "{}", text_of(why)));
}

int ask_cancelled(const baton_work* w) {
  return library_work::of(const_cast<baton_work*>(w)).answer().is_cancelled() ? 1 : 0;
}

const baton_details* ask_details(baton_work* w) {
  return library_work::of(w).details();
}

baton_call* ask_other(const baton_question* question, char* why, std::size_t why_bytes) {
  auto open = around().ask(value_of(*question));
  if (!open) {
    copy_reason(open.error(), why, why_bytes);
    return nullptr;
  }
  return reinterpret_cast<baton_call*>(new open_call{*std::move(open), {}});
}

int next_of(baton_call* call, std::int64_t timeout_ms, baton_piece* piece, char* why,
            std::size_t why_bytes) {
  auto& c = of(call);
  auto next = c.answer.next(std::chrono::milliseconds(std::max<std::int64_t>(timeout_ms, 0)));
  if (!next) {
    copy_reason(next.error(), why, why_bytes);
    const bool is_late = next.error().code == errc::deadline_exceeded && c.answer.is_open();
    return is_late ? BATON_CALL_LATE : BATON_CALL_FAILED;
  }
  if (!*next)
    return BATON_CALL_ENDED;
  c.last = std::move(**next);
  c.outputs = views_of(c.last.outputs);
  c.headers = views_of(c.last.headers);
  *piece = {.body = c.last.body.data(),
            .body_bytes = c.last.body.size(),
            .content_type = c.last.content_type.c_str(),
            .outputs = c.outputs.data(),
            .outputs_count = c.outputs.size(),
            .parameters = c.last.parameters.c_str(),
            .headers = c.headers.data(),
            .headers_count = c.headers.size(),
            .status = c.last.http_status};
  return BATON_CALL_PIECE;
}

void close_call(baton_call* call) {
  delete &of(call);
}

} // namespace

library_work::library_work(work& of) : work_(of), inputs_(views_of(of.asked().inputs)) {}

baton_request library_work::request() {
  const auto& asked = work_.asked();
  return {.work = handle(),
          .body = asked.body.data(),
          .body_bytes = asked.body.size(),
          .content_type = asked.content_type.c_str(),
          .inputs = inputs_.data(),
          .inputs_count = inputs_.size()};
}

const baton_details* library_work::details() {
  if (!details_) {
    const auto& asked = work_.asked();
    headers_ = views_of(asked.headers);
    outputs_ = views_of(asked.outputs);
    details_ = {.id = asked.request_id.c_str(),
                .parameters = asked.parameters.c_str(),
                .headers = headers_.data(),
                .headers_count = headers_.size(),
                .outputs = outputs_.data(),
                .outputs_count = outputs_.size()};
  }
  return &*details_;
}

const baton_worker_calls& library_calls(const worker_place& place, std::uint32_t version) {
  static constexpr baton_worker_calls calls{.piece = send_piece,
                                            .fail = send_failure,
                                            .is_cancelled = ask_cancelled,
                                            .details = ask_details,
                                            .ask = ask_other,
                                            .next = next_of,
                                            .close = close_call};
  around().place = place;
  around().version = version;
  return calls;
}

} // namespace baton::sdk
