// Names that outlive those who have them, each with its place among the ports of its machine, from
// cluster.port on: root, first head, desk, further heads, agents. These are last because there may
// be more of them later.
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
inline constexpr std::uint16_t join_port_offset = 2; // join_desk.hpp

// "head", "head-1": of pipeline 1.
inline stable_name head_name(std::uint32_t pipeline) {
  if (pipeline == 0)
    return {"head", 1};
  return {fmt::format("head-{}", pipeline),
          static_cast<std::uint16_t>(join_port_offset + pipeline)};
}

// `pipelines`: of the cluster; `place`: of its node.
inline stable_name agent_name(std::string_view name, std::size_t pipelines, std::uint32_t place) {
  return {std::string(name), static_cast<std::uint16_t>(join_port_offset + pipelines + place),
          false};
}

} // namespace baton::cluster
