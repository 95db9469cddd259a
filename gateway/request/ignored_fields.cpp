#include "gateway/request/ignored_fields.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

struct row {
  std::string_view name;
  std::uint32_t in; // bits of object_kind
};

constexpr std::uint32_t bit(object_kind k) {
  return 1U << static_cast<std::uint32_t>(k);
}
constexpr auto in_message = bit(object_kind::message), in_part = bit(object_kind::part),
               in_call = bit(object_kind::call), in_tool = bit(object_kind::tool);

constexpr row table[] = {
    // Metadata of an earlier answer that returns in a conversation.
    {"id", in_message | in_part},
    {"status", in_message | in_call},
    {"index", in_message | in_part | in_call},
    {"phase", in_message | in_part | in_call},
    {"annotations", in_message | in_part},
    {"logprobs", in_message | in_part},
    {"created", in_message},
    {"model", in_message},
    {"timestamp", in_message},
    // Results of the official clients' parse(), beside the content and the arguments.
    {"parsed", in_message | in_part},
    {"parsed_arguments", in_message | in_call},
    // Reasoning of earlier turns, which is not part of the answer, under the names of OpenAI,
    // DeepSeek, vLLM, OpenRouter and LiteLLM.
    {"reasoning", in_message},
    {"reasoning_content", in_message},
    {"reasoning_details", in_message},
    {"thinking_blocks", in_message},
    // Written by caches, routers and frameworks for each other.
    {"cache_control", in_message | in_part | in_call | in_tool},
    {"provider_specific_fields", in_message | in_call},
    {"metadata", in_message | in_part},
    {"extra_content", in_call},
};

} // namespace

bool is_ignored(object_kind in, std::string_view name) noexcept {
  return std::any_of(std::begin(table), std::end(table),
                     [&](const row& r) { return r.name == name && (r.in & bit(in)) != 0; });
}

} // namespace baton::gateway
