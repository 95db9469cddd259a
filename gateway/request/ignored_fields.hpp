// Fields that clients send and that cannot change an answer. All APIs ignore them, whatever their
// value. docs/apis/generation.md describes this table. A null is ignored under any name: it means
// the same as leaving the field out.
#pragma once

#include <cstdint>
#include <string_view>

namespace baton::gateway {

// The object of a request that has the field. `parameters` has no ignored names: an unknown one is
// most likely a misspelt parameter, which would have changed the answer.
enum class object_kind : std::uint8_t {
  parameters,
  message, // of a chat, or an item of the Responses API
  part,    // of a message's content
  call,    // of a tool, in a message, and its function
  tool,    // that may be called, and its function
};

// Whether `name` is ignored in this kind of object.
bool is_ignored(object_kind in, std::string_view name) noexcept;

} // namespace baton::gateway
