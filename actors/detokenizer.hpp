// Ids to text for clients: UTF-8 buffering, stop strings, texts of logprobs. On a complete stop
// string it asks the scheduler to end the choice; the scheduler's last message then ends it here.
// Keeps each choice's text, so that a resumed stream can continue after any token.
#pragma once

#include "actors/interfaces.hpp"
#include "actors/transcript.hpp"
#include "runtime/text/stream/stream_decoder.hpp"

#include <deque>
#include <map>
#include <memory>

namespace baton::actors {

struct detokenizer_config {
  directory peers;
  std::shared_ptr<const text::tokenizer> tokenizer;
  std::chrono::milliseconds resume_window{300'000}; // retention of a choice after its end
  call_format calls = call_format::hermes;
};

//   begins --tokens--> streaming --stop string--> stopping --finish--> kept --window--> (dropped)
//                          +---------------finish-----------------------^
struct choice_stream {
  std::uint64_t request = 0;
  process_id gateway;
  std::uint64_t resume_key = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0; // of the prompt tokens
  std::uint64_t prepare_micros = 0, queue_micros = 0;
  bool wants_logprobs = false;
  std::vector<token_id> shown;                         // control tokens that are part of the text
  reasoning_format reasoning = reasoning_format::none; // as in chunk
  bool begins_in_reasoning = false;
  std::vector<std::string> stop_texts;
  std::optional<text::stream_decoder> decoder; // until the end
  std::vector<sample> uncovered;               // tokens whose text is held back
  transcript text;
  std::uint32_t sent = 0;     // tokens that the gateway has, or is about to be sent
  std::vector<sample> prompt; // prompt log probabilities, if wanted: sent before all text
  std::size_t prompt_sent = 0;
  std::optional<text::stop_hit> stopped;
  std::optional<ending> end;
};

struct detokenizer_state {
  static inline const char* name = "detokenizer";
  detokenizer_config config;
  std::map<sequence_id, choice_stream> streams;
  struct ended {
    sequence_id id;
    std::chrono::steady_clock::time_point at;
    std::size_t size_bytes = 0;
  };
  std::deque<ended> kept; // ended streams, the oldest first
  std::size_t kept_bytes = 0;
  struct parcel {
    chunks content;
    std::size_t size_bytes = 0; // approximate
  };
  std::map<process_id, parcel> outgoing; // of the current step, by gateway
};

// Maximum text of ended streams; beyond it the oldest are dropped early.
inline constexpr std::size_t kept_bytes_max = std::size_t{64} << 20;

detokenizer_actor::behavior_type
detokenizer(detokenizer_actor::stateful_pointer<detokenizer_state> self, detokenizer_config config);

} // namespace baton::actors
