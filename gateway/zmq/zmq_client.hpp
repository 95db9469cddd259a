// One SDK client at the ZeroMQ door: its greeting, its requests, its credit. No sockets, no clock
// of its own; called by zmq_door.cpp on the door's thread.
//
//   greeted --generate, tokenize...--> greeted     (each request: opened -> granted -> chunks ->
//   end)
//      |  silent for silence_max, unreachable, a new life of the same node
//      +--> gone                                   (all its tickets are cancelled)
#pragma once

#include "gateway/admission/reception.hpp"
#include "gateway/api/kserve/kserve_infer.hpp"
#include "schema/codec.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

namespace baton::gateway {

class zmq_client {
public:
  using instant = std::chrono::steady_clock::time_point;
  // `send` takes one message to the client; false if the client cannot be reached or does not read.
  // `wake` is called from any thread when the request of that (client's) number has events.
  struct wiring {
    std::function<bool(const frames&)> send;
    std::function<std::function<void()>(std::uint64_t request)> wake_for;
  };

  // `asker`: who the client is at the gate.
  zmq_client(reception& desk, const hello& who, caller asker, wiring wires, instant now);

  node_id node() const noexcept { return who_.node; }
  epoch_id epoch() const noexcept { return who_.epoch; }
  const caller& asker() const noexcept { return asker_; }
  // Unreachable: drop it.
  bool is_lost() const noexcept { return is_lost_; }
  bool is_silent(instant now) const;

  void acknowledge();
  // A verified message of this client's life.
  void take(message m, instant now);
  // A message of this client's life whose body breaks a rule of the protocol.
  void refuse_unreadable(const envelope& head, const error& why, instant now);
  // What was thrown at a message of this client, or at what a request of it has to tell.
  void end_faulty(const envelope& head, const error& why, instant now);
  void end_faulty(std::uint64_t request, const error& why);
  // Brings what the request has to tell, as far as credit goes.
  void pump(std::uint64_t request);
  void beat();

private:
  struct open_entry {
    open_request open;
    std::vector<ticket_id> tickets; // the last one is its own; those before, of where it was
    std::vector<bool> finished;     // per choice; empty: not a generation
    std::optional<language_pieces> pieces = {}; // of a language model that was asked with tensors
    field_words words = {};                     // what the client calls fields of its request
  };

  void on(generate& m);
  void on(const resume& m);
  void on(tokenize& m);
  void on(detokenize& m);
  void on(infer& m);
  // A language model, by the name of its card.
  void ask_language(const infer& m, const std::string& model);
  void on(const cancel_infer& m);
  void on(const cancel& m);
  void on(const credit& m);
  void on(const list_models& m);
  void on(const query_status& m);
  template <class Other>
  void on(const Other&);

  bool may_open(std::uint64_t request);
  result<void> has_room() const;
  // Enters it, or says why not.
  void enter(std::uint64_t request, opening open, std::size_t choices);
  void refuse(std::uint64_t request, const error& reason);
  void refuse(std::uint64_t request, rejected no);
  void forget(std::uint64_t request);
  // True: the request has ended.
  bool tell(std::uint64_t request, open_entry& entry, stream_event e);
  bool tell_chunk(std::uint64_t request, open_entry& entry, chunk c);
  bool tell_piece(std::uint64_t request, open_entry& entry, const chunk& c);
  void tell_failure(std::uint64_t request, open_entry& entry, const error& reason);
  void say(const message& m, std::uint64_t correlation);
  bool has_credit() const noexcept;

  reception& desk_;
  hello who_;
  caller asker_;
  wiring wires_;
  std::map<std::uint64_t, open_entry> requests_; // by the client's number
  // A client may cancel by a ticket of before the stream moved: it has not heard yet.
  std::map<ticket_id, std::uint64_t> tickets_;
  std::set<std::uint64_t> held_; // wait for credit
  std::uint64_t sequence_ = 0;
  std::uint64_t data_bytes_ = 0;
  std::uint64_t credited_bytes_ = 0;
  std::uint64_t beats_ = 0;
  instant heard_;
  bool is_lost_ = false;
};

} // namespace baton::gateway
