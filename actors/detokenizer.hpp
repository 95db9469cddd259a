// Ids to text for the clients: UTF-8 holding back, stop strings, texts of logprobs. Where a stop
// string completes, it asks the scheduler (whoever sent the tokens) to end the choice; the
// scheduler's last message then ends it here.
#pragma once

#include "actors/interfaces.hpp"
#include "runtime/text/stream_decoder.hpp"

#include <map>
#include <memory>

namespace baton::actors {

struct detokenizer_config {
  directory peers;
  std::shared_ptr<const text::tokenizer> tokenizer;
};

//   begins --tokens--> streaming --stop string--> stopping --finish--> (forgotten)
//                          +---------------finish------------------------^
struct choice_stream {
  std::uint64_t request = 0;
  node_id gateway;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0; // of these
  bool wants_logprobs = false;
  std::vector<std::string> stop_texts;
  text::stream_decoder decoder;
  std::vector<sample> uncovered; // tokens whose text is held back
  std::uint32_t covered = 0;     // tokens told to the gateway
  std::optional<text::stop_hit> stopped;
};

struct detokenizer_state {
  static inline const char* name = "detokenizer";
  detokenizer_config config;
  std::map<sequence_id, choice_stream> streams;
  struct parcel {
    chunks content;
    std::size_t size_bytes = 0; // roughly
  };
  std::map<node_id, parcel> outgoing; // of the step at hand, by gateway
};

detokenizer_actor::behavior_type
detokenizer(detokenizer_actor::stateful_pointer<detokenizer_state> self, detokenizer_config config);

} // namespace baton::actors
