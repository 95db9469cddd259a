// Shared by the tests of readers and writers: limits, a configuration without a nodes.toml, and the
// identity of the answering server.
#pragma once

#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/base/http_text.hpp"
#include "gateway/config/config.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace baton::testing {

inline const gateway::request_limits default_limits;
inline const gateway::gateway_config default_config;

inline const gateway::reply_identity answerer{ticket_id{9}, 1'700'000'000, "baton-test", 0xAB};

inline std::string header_of(const gateway::http_reply& r, std::string_view name) {
  for (const auto& [n, v] : r.headers) {
    if (n == name) {
      return v;
    }
  }
  return {};
}

// An input of KServe's `infer`; `rest`: its shape and its data.
inline std::string kserve_input(const char* name, const char* datatype, const char* rest) {
  return fmt::format(R"({{"name":"{}","datatype":"{}",{}}})", name, datatype, rest);
}

} // namespace baton::testing
