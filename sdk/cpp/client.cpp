// The public API of the SDK: turns calls into messages, and messages into values.
#include "sdk/cpp/baton/client.hpp"

#include "schema/limits.hpp"
#include "sdk/cpp/connection.hpp"

namespace baton {

stream::stream(std::shared_ptr<sdk::connection> connection, std::uint64_t request,
               std::uint32_t choices)
    : connection_(std::move(connection)), request_(request), choices_open_(choices) {}

stream::~stream() {
  if (connection_ == nullptr)
    return;
  if (choices_open_ != 0)
    connection_->cancel(request_);
  connection_->forget(request_);
}

stream& stream::operator=(stream&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(request_, other.request_);
  std::swap(choices_open_, other.choices_open_);
  return *this;
}

result<std::optional<chunk>> stream::next(std::chrono::milliseconds deadline) {
  if (choices_open_ == 0)
    return std::optional<chunk>{};
  auto m = connection_->take(request_, deadline);
  if (!m) {
    if (m.error().code != errc::deadline_exceeded)
      choices_open_ = 0;
    return m.error();
  }
  if (auto* part = std::get_if<chunk>(&*m)) {
    if (part->finish != finish::none)
      --choices_open_;
    return std::optional(std::move(*part));
  }
  choices_open_ = 0;
  if (const auto* refusal = std::get_if<rejected>(&*m))
    return refusal->reason;
  return fail(errc::bad_frame, "the gateway answered generate with {}", name_of(kind_of(*m)));
}

void stream::cancel() {
  if (choices_open_ != 0)
    connection_->cancel(request_);
}

ticket_id stream::ticket() const {
  return connection_->ticket_of(request_);
}

pieces::pieces(std::shared_ptr<sdk::connection> connection, std::uint64_t request)
    : connection_(std::move(connection)), request_(request) {}

pieces::~pieces() {
  if (connection_ == nullptr)
    return;
  if (is_open_)
    connection_->cancel(request_);
  connection_->forget(request_);
}

pieces& pieces::operator=(pieces&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(request_, other.request_);
  std::swap(is_open_, other.is_open_);
  return *this;
}

result<std::optional<inferred>> pieces::next(std::chrono::milliseconds deadline) {
  if (!is_open_)
    return std::optional<inferred>{};
  auto m = connection_->take(request_, deadline);
  if (!m) {
    if (m.error().code != errc::deadline_exceeded)
      is_open_ = false;
    return m.error();
  }
  auto* piece = std::get_if<inferred>(&*m);
  is_open_ = piece != nullptr && !piece->is_last;
  if (const auto* refusal = std::get_if<rejected>(&*m))
    return refusal->reason;
  if (piece == nullptr)
    return fail(errc::bad_frame, "the gateway answered infer with {}", name_of(kind_of(*m)));
  if (piece->failure)
    return *piece->failure;
  return std::optional(std::move(*piece));
}

result<client> client::connect(const std::string& endpoint, const client_options& options) {
  auto connection = sdk::connection::open(endpoint, options);
  if (!connection)
    return connection.error();
  return client(std::move(*connection), options);
}

result<stream> client::generate(baton::generate request) {
  if (auto checked = check_limits(request); !checked)
    return checked.error();
  request.is_resumable |= options_.reconnect_timeout.count() > 0;
  const auto choices = request.terms.choices;
  return stream(connection_, connection_->ask(std::move(request)), choices);
}

result<std::vector<answer>> client::complete(baton::generate request,
                                             std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  std::vector<answer> answers(request.terms.choices);
  auto open = generate(std::move(request));
  if (!open)
    return open.error();
  for (std::uint32_t choice = 0; choice < answers.size(); ++choice)
    answers[choice].choice = choice;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    auto part = open->next(std::max(left, std::chrono::milliseconds{0}));
    if (!part)
      return part.error();
    if (!*part)
      return answers;
    const auto& chunk = **part;
    if (chunk.finish == finish::failed)
      return chunk.failure.value_or(fail(errc::internal, "the answer failed without a reason"));
    if (chunk.choice >= answers.size())
      return fail(errc::bad_frame, "a chunk of choice {} of {}", chunk.choice, answers.size());
    auto& to = answers[chunk.choice];
    to.text += chunk.text;
    to.finish = chunk.finish;
    to.prompt_tokens = chunk.prompt_tokens;
    to.cached_tokens = chunk.cached_tokens;
    to.output_tokens = chunk.output_tokens;
  }
}

result<answer> client::chat(std::string model, chat_prompt messages, std::uint32_t max_tokens,
                            std::chrono::milliseconds deadline) {
  baton::generate request;
  request.model = std::move(model);
  request.input = std::move(messages);
  request.unspecified = all_sampling_fields;
  request.terms.max_tokens_given = max_tokens != 0;
  if (max_tokens != 0) {
    request.terms.stop.max_tokens = max_tokens;
    request.unspecified &= ~bit_of(sampling_field::max_tokens);
  }
  auto answers = complete(std::move(request), deadline);
  if (!answers)
    return answers.error();
  return std::move(answers->front());
}

result<pieces> client::infer_stream(baton::infer request) {
  if (auto checked = check_limits(request); !checked)
    return checked.error();
  return pieces(connection_, connection_->ask(std::move(request)));
}

result<inferred> client::infer(baton::infer request, std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  auto open = infer_stream(std::move(request));
  if (!open)
    return open.error();
  std::optional<inferred> only;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    auto piece = open->next(std::max(left, std::chrono::milliseconds{0}));
    if (!piece)
      return piece.error();
    if (!*piece)
      return *std::move(only); // an answer has at least one piece
    const bool is_empty = (*piece)->body.empty() && (*piece)->outputs.empty();
    if (only && !is_empty)
      return fail(errc::invalid_value, "the answer has several pieces: use infer_stream");
    if (!only)
      only = std::move(**piece);
  }
}

template <class Answer>
result<Answer> client::call(message question) {
  const auto request = connection_->ask(std::move(question));
  auto m = connection_->take(request, options_.call_timeout);
  connection_->forget(request);
  if (!m)
    return m.error();
  if (const auto* refusal = std::get_if<rejected>(&*m))
    return refusal->reason;
  auto* content = std::get_if<Answer>(&*m);
  if (content == nullptr)
    return fail(errc::bad_frame, "the gateway answered with {}", name_of(kind_of(*m)));
  if constexpr (requires { content->failure; })
    if (content->failure)
      return *content->failure;
  return std::move(*content);
}

result<std::vector<model_card>> client::models() {
  auto listed = call<baton::models>(list_models{});
  if (!listed)
    return listed.error();
  return std::move(listed->cards);
}

result<tokenized> client::tokenize(prompt input, bool add_generation_prompt) {
  if (auto checked = check_limits(input); !checked)
    return checked.error();
  baton::tokenize question;
  question.input = std::move(input);
  question.add_generation_prompt = add_generation_prompt;
  return call<tokenized>(std::move(question));
}

result<std::string> client::detokenize(std::vector<token_id> ids) {
  if (ids.size() > limits::ids_max)
    return fail_param(errc::invalid_value, "ids", "at most {} ids", limits::ids_max);
  baton::detokenize question;
  question.ids = std::move(ids);
  auto text = call<detokenized>(std::move(question));
  if (!text)
    return text.error();
  return std::move(text->text);
}

result<cluster_status> client::status() {
  return call<cluster_status>(query_status{});
}

bool client::is_open() const {
  return connection_->is_open();
}

} // namespace baton
