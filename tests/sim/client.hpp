// A client of the simulated gateway, with the guarantees it relies on: contiguous and correct
// tokens, exactly one end of each choice and of the stream.
#pragma once

#include "gateway/dispatch/pipeline_client.hpp"
#include "runtime/engine/toy_engine.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace baton::sim {

struct client_plan {
  ids_prompt input; // ids of the toy model
  std::uint32_t max_tokens = 16;
  std::uint64_t seed = 0; // 0: greedy
  std::uint32_t choices = 1;
  std::optional<std::uint32_t> stops_at = std::nullopt; // the token drawn at this position ends it
  std::int32_t priority = 0;
  std::size_t buffer_bytes = std::size_t{1} << 20;
  bool reads_slowly = false;   // the server may end its stream for that
  std::string request_id = {}; // repeats its request by this id if it knows of no ticket
  std::optional<constraint> looks_like = std::nullopt;
  bool wants_embedding = false; // wants the input's embedding, no tokens
  std::int32_t prompt_logprobs = -1;
};

class client {
public:
  client(std::uint64_t number, client_plan plan, const engine::toy_model& toy,
         const text::tokenizer& words);

  gateway::open_generate request() const;
  // Its gateway died: unread text is lost, or still arrives if `reads_rest`. False if it has
  // no ticket, or no reason to resume.
  bool lose_gateway(bool reads_rest);
  // Waits for a gateway at which it can resume.
  bool is_orphan() const { return is_orphan_; }
  gateway::open_resume come_back(std::uint64_t number);
  // It has resumed, and the stream is attached to it again.
  bool is_back() const { return is_back_; }
  // A client without a ticket repeats its request.
  bool has_ticket() const { return ticket_.has_value(); }
  ticket_id ticket() const { return ticket_ ? ticket_->ticket : ticket_id{}; }
  gateway::open_generate ask_again(std::uint64_t number);
  // Reads all chunks that have arrived. Adds each violated guarantee to `broken`.
  void read();

  bool has_ended() const { return is_over_; }
  bool is_complete() const { return is_over_ && !failure_; }
  const std::optional<error>& failure() const { return failure_; }
  const std::vector<std::string>& broken() const { return broken_; }
  std::uint64_t number() const { return number_; }
  const client_plan& plan() const { return plan_; }
  std::size_t tokens() const;
  bool was_left = false; // the client left: it gets no end

private:
  struct choice {
    std::vector<token_id> expected;
    std::vector<token_id> ids;
    finish how = finish::none;
    finish how_expected = finish::none;
    bool had_end = false;   // when it came back
    std::size_t scored = 0; // prompt tokens with a score so far
  };
  void begin_again(std::uint64_t number);
  void take(const chunk& c);
  void fail_stream(const error& why);
  void check_choice(const choice& c);
  void check_embedding(const chunk& c);
  void take_prompt(const chunk& c);
  sampling_params sampling(std::uint32_t of_choice) const;
  template <class... Args>
  void report(fmt::format_string<Args...> text, Args&&... args) {
    broken_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  std::uint64_t number_;
  client_plan plan_;
  std::vector<token_id> stop_ids_;
  std::shared_ptr<gateway::stream> stream_;
  std::optional<granted> ticket_;
  bool is_orphan_ = false;
  bool is_back_ = false;
  std::vector<choice> choices_;
  std::vector<float> embedding_; // expected
  std::vector<sample> scores_;   // expected, of the prompt's tokens
  std::uint32_t choices_left_;
  bool is_over_ = false; // the stream has delivered its last event
  std::optional<error> failure_;
  std::vector<std::string> broken_;
};

} // namespace baton::sim
