// Writes draws in the ABI's format (abi.hpp).
#pragma once

#include "runtime/plugin/abi.hpp"
#include "schema/messages.hpp"

#include <span>
#include <vector>

namespace baton::plugin {

class draw_writer {
public:
  // The returned lists are valid until the next call. Omits log-probabilities and constraints.
  draw_lists write(std::span<const baton::draw> draws);

private:
  std::vector<draw> draws_;
  std::vector<logit_bias> biases_;
  std::vector<std::int32_t> banned_;
  std::vector<token_count> history_;
};

} // namespace baton::plugin
