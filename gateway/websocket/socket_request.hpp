// One request of a WebSocket: its flow-control window and its fields of the access log.
#pragma once

#include "gateway/admission/admission.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/base/access_log.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace baton::gateway {

struct socket_request {
  open_request open;
  reply_shape shape;
  field_names client_names; // names of the fields in the client's request
  std::optional<std::uint32_t> window;
  std::vector<std::uint32_t> sent;  // per choice: index of the last token sent
  std::vector<std::uint32_t> acked; // per choice
  std::uint32_t choices_left = 1;
  request_usage used{};
  int status = 0; // the HTTP status that applies; 0: still running
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();

  // Tokens that may still be sent; unlimited without a window.
  std::uint32_t room() const {
    if (!window) {
      return UINT32_MAX;
    }
    std::uint64_t on_the_way = 0;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      on_the_way += sent[i] - acked[i];
    }
    return on_the_way >= *window ? 0 : *window - static_cast<std::uint32_t>(on_the_way);
  }
};

} // namespace baton::gateway
