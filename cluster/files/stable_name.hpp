// Process names that survive restarts, each with its port offset from cluster.port: root, first
// head, join server, further heads, agents. Agents are last because more of them may join.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace baton::cluster {

struct stable_name {
  std::string name;
  std::uint16_t port_offset = 0;
  bool is_on_root_machine = true;
};

inline const stable_name root_name{"root", 0};
inline constexpr std::uint16_t join_port_offset = 2; // join_server.hpp

// "head", "head-1" for pipeline 1.
inline stable_name head_name(std::uint32_t pipeline) {
  if (pipeline == 0)
    return {"head", 1};
  return {fmt::format("head-{}", pipeline),
          static_cast<std::uint16_t>(join_port_offset + pipeline)};
}

// `pipelines`: their number in the cluster; `index`: of the node.
inline stable_name agent_name(std::string_view name, std::size_t pipelines, std::uint32_t index) {
  return {std::string(name), static_cast<std::uint16_t>(join_port_offset + pipelines + index),
          false};
}

} // namespace baton::cluster
