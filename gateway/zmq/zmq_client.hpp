// One SDK client of the ZeroMQ server: its hello, requests and credit. It has no socket and no
// clock; zmq_server.cpp calls it on the server's thread.
//
//   connected --generate, tokenize...--> connected   (request: opened, granted, chunks, end)
//      |  silent for silence_max, unreachable, a new incarnation of the process
//      +--> gone                                     (all its tickets are cancelled)
#pragma once

#include "gateway/admission/admission.hpp"
#include "gateway/api/kserve/kserve_infer.hpp"
#include "schema/codec/codec.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

namespace baton::gateway {

class zmq_client {
public:
  using instant = std::chrono::steady_clock::time_point;
  // `send` sends one message; false if the client is unreachable or does not read. `wake_for`
  // returns a function for any thread, to be called when that request of the client has events.
  struct wiring {
    std::function<bool(const frames&)> send;
    std::function<std::function<void()>(std::uint64_t request)> wake_for;
  };

  // `identity`: the client as the authenticator identified it.
  zmq_client(admission& opener, const hello& who, principal identity, wiring wires, instant now);

  process_id process() const noexcept { return who_.process; }
  incarnation_id incarnation() const noexcept { return who_.incarnation; }
  const principal& identity() const noexcept { return identity_; }
  // The client is unreachable: drop it.
  bool is_lost() const noexcept { return is_lost_; }
  bool is_silent(instant now) const;

  void acknowledge();
  // Handles a verified message of this client's incarnation.
  void take(message m, instant now);
  // Handles a message of this client's incarnation that violates the protocol.
  void refuse_unreadable(const envelope& head, const error& why, instant now);
  // Ends the request whose message or event threw an exception.
  void end_faulty(const envelope& head, const error& why, instant now);
  void end_faulty(std::uint64_t request, const error& why);
  // Sends the request's events as far as credit allows.
  void pump(std::uint64_t request);
  void beat();

private:
  struct open_entry {
    open_request open;
    std::vector<ticket_id> tickets;             // the last one is current
    std::vector<bool> finished;                 // per choice; empty: not a generation
    std::optional<language_pieces> pieces = {}; // for a language model requested with tensors
    field_names client_names = {};              // names of the fields in the client's request
  };

  void on(generate& m);
  void on(const resume& m);
  void on(tokenize& m);
  void on(detokenize& m);
  void on(infer& m);
  // A language model, addressed by the name of its card.
  void open_language_infer(const infer& m, const std::string& model);
  void on(const cancel_infer& m);
  void on(const cancel& m);
  void on(const credit& m);
  void on(const list_models& m);
  void on(const query_status& m);
  template <class Other>
  void on(const Other&);

  bool may_open(std::uint64_t request);
  result<void> has_room() const;
  // Adds the request, or refuses it.
  void enter(std::uint64_t request, open_result open, std::size_t choices);
  void refuse(std::uint64_t request, const error& reason);
  void refuse(std::uint64_t request, rejected no);
  void forget(std::uint64_t request);
  // True: the request has ended.
  bool send_event(std::uint64_t request, open_entry& entry, stream_event e);
  bool send_chunk(std::uint64_t request, open_entry& entry, chunk c);
  bool send_piece(std::uint64_t request, open_entry& entry, const chunk& c);
  void send_failure(std::uint64_t request, open_entry& entry, const error& reason);
  void send(const message& m, std::uint64_t correlation);
  bool has_credit() const noexcept;

  admission& opener_;
  hello who_;
  principal identity_;
  wiring wires_;
  std::map<std::uint64_t, open_entry> requests_; // by the client's request number
  // Includes earlier tickets: a client may cancel with one until it learns the new one.
  std::map<ticket_id, std::uint64_t> tickets_;
  std::set<std::uint64_t> held_; // waiting for credit
  std::uint64_t sequence_ = 0;
  std::uint64_t data_bytes_ = 0;
  std::uint64_t credited_bytes_ = 0;
  std::uint64_t beats_ = 0;
  instant last_seen_;
  bool is_lost_ = false;
};

} // namespace baton::gateway
