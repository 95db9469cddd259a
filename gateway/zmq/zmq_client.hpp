// One SDK client of the ZeroMQ server: its hello, requests and credit. It has no socket and no
// clock; zmq_server.cpp calls it on the server's thread.
//
//   connected --generate, tokenize...--> connected   (request: opened, granted, chunks, end)
//      |  silent for silence_max, unreachable, a new incarnation of the process
//      +--> gone                                     (all its tickets are cancelled)
#pragma once

#include "gateway/admission/admission.hpp"
#include "gateway/zmq/zmq_request.hpp"

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

  process_id process() const noexcept { return link_.peer().process; }
  incarnation_id incarnation() const noexcept { return link_.peer().incarnation; }
  const principal& identity() const noexcept { return identity_; }
  // The client is unreachable: drop it.
  bool is_lost() const noexcept { return link_.is_lost(); }
  bool is_silent(instant now) const;

  void acknowledge() { link_.acknowledge(); }
  // Handles a verified message of this client's incarnation.
  void take(message m, instant now);
  // Handles a message of this client's incarnation that violates the protocol.
  void refuse_unreadable(const envelope& head, const error& why, instant now);
  // Ends the request whose message or event threw an exception.
  void end_faulty(const envelope& head, const error& why, instant now);
  void end_faulty(std::uint64_t request, const error& why);
  // Sends the request's events as far as credit allows.
  void pump(std::uint64_t request);
  void beat() { link_.beat(); }

private:
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

  admission& opener_;
  principal identity_;
  std::function<std::function<void()>(std::uint64_t request)> wake_for_;
  zmq_link link_;
  std::map<std::uint64_t, zmq_request> requests_; // by the client's request number
  // Includes earlier tickets: a client may cancel with one until it learns the new one.
  std::map<ticket_id, std::uint64_t> tickets_;
  std::set<std::uint64_t> held_; // waiting for credit
  instant last_seen_;
};

} // namespace baton::gateway
