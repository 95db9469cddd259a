// One request of an SDK client, and the messages that its events become.
#pragma once

#include "gateway/admission/admission.hpp"
#include "gateway/api/kserve/calls/kserve_infer.hpp"
#include "gateway/zmq/zmq_link.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace baton::gateway {

struct zmq_request {
  std::uint64_t number = 0; // the client's
  open_request open;
  std::vector<ticket_id> tickets = {};        // the last one is current
  std::vector<bool> finished = {};            // per choice; empty: not a generation
  std::optional<language_pieces> pieces = {}; // for a language model requested with tensors
  field_names client_names = {};              // names of the fields in the client's request
};

// Sends the message of one event. True: the request has ended.
bool send_event(zmq_link& to, zmq_request& r, stream_event e, gateway_state& facts);
// A granted request ends with one failed chunk for each open choice, another one with `rejected`.
void send_failure(zmq_link& to, zmq_request& r, const error& reason, gateway_state& facts);

} // namespace baton::gateway
