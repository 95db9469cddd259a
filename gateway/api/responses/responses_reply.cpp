#include "gateway/api/responses/responses_reply.hpp"

#include "gateway/api/openai/reply/call_reply.hpp"
#include "gateway/api/responses/responses_input.hpp"
#include "gateway/base/json_text.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

ordered error_json(const std::optional<error>& e) {
  return e ? ordered{{"code", row_of(e->code).name}, {"message", e->message}} : ordered(nullptr);
}

ordered responses_usage(const token_usage& u) {
  return {{"input_tokens", u.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", u.cached_tokens}}},
          {"output_tokens", u.output_tokens},
          {"output_tokens_details", {{"reasoning_tokens", u.reasoning_tokens}}},
          {"total_tokens", u.prompt_tokens + u.output_tokens}};
}

// The writer's state after all pieces, without its output.
response_events replayed(const response_shape& shape, const reply_identity& who,
                         const answer_log& log, const std::optional<error>& failure) {
  response_events writer(shape, who, nullptr, UINT64_MAX);
  std::string nothing;
  for (std::size_t i = 0; i < log.size(); ++i) {
    writer.add(log.piece(i), nothing);
  }
  if (failure) {
    writer.fail(*failure, nothing);
  }
  return writer;
}

} // namespace

void answer_log::add(const chunk& c) {
  if (has_ended() || (c.text.empty() && c.finish == finish::none)) {
    return;
  }
  text_ += c.text;
  ends_.push_back({static_cast<std::uint32_t>(text_.size()), c.output_tokens});
  last_.finish = c.finish;
  last_.index = c.index;
  last_.output_tokens = c.output_tokens;
  last_.prompt_tokens = c.prompt_tokens;
  last_.cached_tokens = c.cached_tokens;
  last_.reasoning = c.reasoning;
  last_.begins_in_reasoning = c.begins_in_reasoning;
}

chunk answer_log::piece(std::size_t index) const {
  const auto begin = index == 0 ? 0U : ends_.at(index - 1).bytes;
  auto c = last_;
  c.text = text_.substr(begin, ends_.at(index).bytes - begin);
  c.output_tokens = ends_.at(index).tokens;
  if (index + 1 < ends_.size()) {
    c.finish = finish::none;
  }
  return c;
}

// Only the gateway that received the request knows how to parse its calls and its reasoning.
bool can_be_taken_up(const response_shape& shape) noexcept {
  return shape.is_background && !shape.calls && !shape.reads_reasoning;
}

std::string response_id(const response_shape& shape, const reply_identity& who) {
  return fmt::format("resp_{}{}_{:016x}", can_be_taken_up(shape) ? "b" : "", who.ticket.value,
                     who.resume_key);
}

std::optional<stream_position> response_position(std::string_view id) {
  constexpr std::string_view lead = "resp_b";
  const auto mark = id.rfind('_');
  if (!id.starts_with(lead) || mark < lead.size()) {
    return std::nullopt;
  }
  const auto text =
      fmt::format("{}-{}:0", id.substr(lead.size(), mark - lead.size()), id.substr(mark + 1));
  const auto position = parse_position(text, 1);
  return position ? std::optional(*position) : std::nullopt;
}

chat_message answer_message(const response_shape& shape, const reply_identity& who,
                            const answer_log& log) {
  return replayed(shape, who, log, std::nullopt).message();
}

std::string response_body(const response_shape& shape, const reply_identity& who,
                          const answer_log& log, const std::optional<error>& failure) {
  return json_text(replayed(shape, who, log, failure).object());
}

http_reply response_unary::reply(const reply_identity& who, const reply_times& /*when*/) const {
  if (keep_) {
    keep_(who, log_);
  }
  http_reply r;
  r.body = response_body(shape_, who, log_, std::nullopt);
  return r;
}

response_events::response_events(response_shape shape, reply_identity who, keep_answer keep,
                                 std::optional<std::uint64_t> after)
    : shape_(std::move(shape)), who_(std::move(who)), keep_(std::move(keep)),
      parser_(shape_.calls, shape_.reads_reasoning),
      status_(shape_.is_background ? "queued" : "in_progress") {
  if (after) {
    from_ = *after == UINT64_MAX ? *after : *after + 1;
  }
}

void response_events::emit(std::string& out, std::string_view type, ordered body) {
  if (number_ >= from_) {
    ordered data{{"type", type}, {"sequence_number", number_}};
    data.update(body);
    fmt::format_to(std::back_inserter(out), "event: {}\ndata: {}\n\n", type, json_text(data));
  }
  ++number_;
}

// The most frequent event, written by hand.
void response_events::emit_delta(std::string& out, std::string_view type, std::string_view text) {
  if (number_ >= from_) {
    fmt::format_to(std::back_inserter(out),
                   R"(event: {0}
data: {{"type":"{0}","sequence_number":{1},"item_id":"{2}","output_index":{3},)",
                   type, number_, item_id_, items_.size());
    out += open_ == item_kind::call        ? R"("delta":)"
           : open_ == item_kind::reasoning ? R"("content_index":0,"delta":)"
                                           : R"("content_index":0,"logprobs":[],"delta":)";
    append_json_string(out, text);
    out += "}\n\n";
  }
  ++number_;
}

void response_events::begin(std::string& out) {
  if (std::exchange(has_begun_, true)) {
    return;
  }
  for (const auto* type : {"response.created", "response.in_progress"}) {
    emit(out, type, number_ >= from_ ? ordered{{"response", object()}} : ordered::object());
    status_ = "in_progress";
  }
}

ordered response_events::text_part() const {
  if (open_ == item_kind::reasoning) {
    return {{"type", "reasoning_text"}, {"text", text_}};
  }
  return {{"type", "output_text"},
          {"text", text_},
          {"annotations", ordered::array()},
          {"logprobs", ordered::array()}};
}

ordered response_events::item(std::string_view status) const {
  if (open_ == item_kind::call) {
    return {{"id", item_id_},     {"type", "function_call"}, {"status", status},
            {"arguments", text_}, {"call_id", call_id_},     {"name", name_}};
  }
  auto content = ordered::array();
  if (status != "in_progress") {
    content.push_back(text_part());
  }
  if (open_ == item_kind::reasoning) {
    ordered out{{"id", item_id_},
                {"type", "reasoning"},
                {"status", status},
                {"summary", ordered::array()},
                {"content", std::move(content)}};
    if (shape_.includes_encrypted && status != "in_progress") {
      out["encrypted_content"] = encrypted_content(text_);
    }
    return out;
  }
  return {{"id", item_id_},
          {"type", "message"},
          {"status", status},
          {"content", std::move(content)},
          {"role", "assistant"}};
}

void response_events::open_text(item_kind kind, std::string& out) {
  open_ = kind;
  item_id_ = fmt::format("{}_{}_{}", kind == item_kind::message ? "msg" : "rs", who_.ticket.value,
                         items_.size());
  text_.clear();
  emit(out, "response.output_item.added",
       {{"output_index", items_.size()}, {"item", item("in_progress")}});
  emit(out, "response.content_part.added",
       {{"item_id", item_id_},
        {"output_index", items_.size()},
        {"content_index", 0},
        {"part", text_part()}});
}

void response_events::open_call(const call_delta::part& part, std::string& out) {
  open_ = item_kind::call;
  item_id_ = fmt::format("fc_{}_{}", who_.ticket.value, items_.size());
  call_id_ = call_id({shape_.calls->format, who_.ticket, 0}, part.index);
  name_ = part.name;
  text_.clear();
  emit(out, "response.output_item.added",
       {{"output_index", items_.size()}, {"item", item("in_progress")}});
}

void response_events::close_item(std::string& out) {
  if (open_ == item_kind::none) {
    return;
  }
  const auto at = items_.size();
  if (open_ != item_kind::call) {
    const bool is_message = open_ == item_kind::message;
    ordered text{
        {"item_id", item_id_}, {"output_index", at}, {"content_index", 0}, {"text", text_}};
    if (is_message) {
      text["logprobs"] = ordered::array();
    }
    emit(out, is_message ? "response.output_text.done" : "response.reasoning_text.done",
         std::move(text));
    emit(
        out, "response.content_part.done",
        {{"item_id", item_id_}, {"output_index", at}, {"content_index", 0}, {"part", text_part()}});
  } else {
    emit(out, "response.function_call_arguments.done",
         {{"item_id", item_id_}, {"output_index", at}, {"name", name_}, {"arguments", text_}});
  }
  auto done = item(status_ == "incomplete" ? "incomplete" : "completed");
  emit(out, "response.output_item.done", {{"output_index", at}, {"item", done}});
  items_.push_back(std::move(done));
  open_ = item_kind::none;
}

void response_events::add_text(item_kind kind, std::string_view text, std::string& out) {
  if (open_ != kind) {
    close_item(out);
    open_text(kind, out);
  }
  text_ += text;
  emit_delta(out,
             kind == item_kind::message ? "response.output_text.delta"
                                        : "response.reasoning_text.delta",
             text);
}

void response_events::add_part(const call_delta::part& part, std::string& out) {
  if (!part.name.empty()) {
    close_item(out);
    open_call(part, out);
  }
  if (!part.arguments.empty()) {
    text_ += part.arguments;
    emit_delta(out, "response.function_call_arguments.delta", part.arguments);
  }
}

void response_events::take(const call_delta& what, std::string& out) {
  if (!what.reasoning.empty()) {
    add_text(item_kind::reasoning, what.reasoning, out);
  }
  if (!what.text.empty()) {
    add_text(item_kind::message, what.text, out);
  }
  for (const auto& part : what.calls) {
    add_part(part, out);
  }
}

void response_events::add(const chunk& c, std::string& out) {
  if (has_ended_ || (c.text.empty() && c.finish == finish::none)) {
    return;
  }
  if (keep_) {
    log_.add(c);
  }
  begin(out);
  status_ = "in_progress";
  call_delta what;
  parser_.add(c, c.text, what);
  usage_ = {.prompt_tokens = c.prompt_tokens,
            .cached_tokens = c.cached_tokens,
            .output_tokens = c.output_tokens,
            .reasoning_tokens = parser_.reasoning_tokens()};
  take(what, out);
  if (c.finish == finish::none) {
    return;
  }
  call_delta rest; // the pending text
  parser_.finish(rest);
  take(rest, out);
  status_ = c.finish == finish::length ? "incomplete" : "completed";
  if (open_ == item_kind::none && items_.empty()) { // an empty answer
    open_text(item_kind::message, out);
  }
  close_item(out);
  if (keep_) {
    keep_(who_, std::move(log_));
  }
  has_ended_ = true;
  emit(out, fmt::format("response.{}", status_), {{"response", object()}});
}

void response_events::fail(const error& e, std::string& out) {
  if (has_ended_) {
    return;
  }
  begin(out);
  failure_ = e;
  status_ = e.code == errc::cancelled ? "cancelled" : "failed";
  if (open_ != item_kind::none) { // the incomplete item
    items_.push_back(item("incomplete"));
    open_ = item_kind::none;
  }
  has_ended_ = true;
  emit(out, "response.failed", {{"response", object()}});
}

ordered response_events::object() const {
  auto output = ordered::array();
  for (const auto& done : items_) {
    output.push_back(done);
  }
  if (open_ != item_kind::none) {
    output.push_back(item("in_progress"));
  }
  const bool is_cancelled = status_ == "cancelled";
  ordered r{{"id", response_id(shape_, who_)},
            {"object", "response"},
            {"created_at", who_.created},
            {"status", status_},
            {"error", is_cancelled ? ordered(nullptr) : error_json(failure_)},
            {"incomplete_details", nullptr},
            {"model", shape_.model},
            {"output", std::move(output)},
            {"usage", nullptr}};
  if (status_ == "incomplete") {
    r["incomplete_details"] = {{"reason", "max_output_tokens"}};
  }
  if (has_ended_) {
    r["usage"] = responses_usage(usage_);
  }
  r.update(ordered::parse(shape_.asked));
  return r;
}

chat_message response_events::message() const {
  chat_message out{.role = "assistant", .content = {}, .name = {}};
  auto calls = ordered::array();
  for (const auto& done : items_) {
    if (done["type"] == "reasoning") {
      out.reasoning += done["content"][0]["text"].get_ref<const std::string&>();
      continue;
    }
    if (done["type"] == "message") {
      out.content += done["content"][0]["text"].get_ref<const std::string&>();
      continue;
    }
    // A call that was cut short is dropped.
    auto arguments = ordered::parse(done["arguments"].get_ref<const std::string&>(), nullptr,
                                    /*allow_exceptions=*/false);
    if (arguments.is_object()) {
      calls.push_back({{"id", done["call_id"]},
                       {"type", "function"},
                       {"function", {{"name", done["name"]}, {"arguments", arguments}}}});
    }
  }
  if (!calls.empty()) {
    out.tool_calls = json_text(calls);
  }
  return out;
}

} // namespace baton::gateway
