// What clients send beside the fields that are read, and that cannot change an answer: read over at
// every door, whatever its value is. One table for all of them; docs/compatibility.md has it in
// words. A null is read over under any name: it says the same as leaving the field out.
#pragma once

#include <cstdint>
#include <string_view>

namespace baton::gateway {

// Which object of a request a name stands in. `parameters` has no such names: what is unknown among
// them is most likely a misspelt parameter, and would have changed the answer.
enum class object_kind : std::uint8_t {
  parameters,
  message, // of a chat, or an item of the Responses API
  part,    // of a message's content
  call,    // of a tool, in a message, and its function
  tool,    // that may be called, and its function
};

// Whether `name` is one that this kind of object may have for others to read.
bool is_read_over(object_kind in, std::string_view name) noexcept;

} // namespace baton::gateway
