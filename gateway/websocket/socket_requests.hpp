// The open requests of one WebSocket, and the messages that wait to be written. It has no socket;
// websocket.cpp calls it on the connection's strand. States of a request:
//
//   start -> opened --granted, tokens...--> done | error
//               |  un-acked tokens = window -> held back (buffers up to the stream's bound)
//               +--cancel--> error{cancelled}
#pragma once

#include "gateway/websocket/socket_request.hpp"
#include "gateway/websocket/websocket_messages.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace baton::gateway {

// Facts of the handshake.
struct socket_origin {
  std::string request_id;
  std::string address; // of the client
};

class socket_requests {
public:
  // `who` is the authenticated principal of all requests. `wake` is called, from any thread, when
  // messages may be ready.
  socket_requests(admission& opener, principal who, socket_origin origin,
                  std::function<void()> wake);

  // One message of the client.
  void take(std::string_view text);
  // Counts and answers a message that cannot be taken.
  void note(const socket_mistake& m);
  // Moves the messages that are ready now to the end of `out`. Drops requests that have ended.
  void collect(std::vector<std::string>& out);
  // The client has closed the connection or is gone: cancels its tickets.
  void close_all();

  // A stream of a request was cut because its client does not read.
  bool has_cut_stream() const;
  bool sends_only_bad_messages() const;
  // The client sends and does not read.
  bool has_too_many_replies() const;

private:
  void take(socket_start&& m);
  void take(socket_resume&& m);
  void take(const socket_cancel& m);
  void take(const socket_ack& m);
  bool has_room_for(const std::string& id);
  void refuse(const std::string& id, const rejected& no);
  void reply(std::string text);
  // In the access log. `if_running`: the end of a request whose answer is not complete.
  void log(const std::string& id, const socket_request& r, errc if_running) const;
  gateway_state& facts() const { return opener_.facts(); }

  admission& opener_;
  principal who_;
  const socket_origin origin_;
  std::function<void()> wake_;
  std::map<std::string, socket_request, std::less<>> requests_;
  std::vector<std::string> replies_;
  std::size_t replies_bytes_ = 0;
  std::uint32_t bad_in_row_ = 0;
};

} // namespace baton::gateway
