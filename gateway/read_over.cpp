#include "gateway/read_over.hpp"

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
constexpr auto message = bit(object_kind::message), part = bit(object_kind::part),
               call = bit(object_kind::call), tool = bit(object_kind::tool);

constexpr row table[] = {
    // What an answer has told of itself, when it comes back in a conversation.
    {"id", message | part},
    {"status", message | call},
    {"index", message | part | call},
    {"phase", message | part | call},
    {"annotations", message | part},
    {"logprobs", message | part},
    {"created", message},
    {"model", message},
    {"timestamp", message},
    // What the official clients' parse() has made of the content and the arguments beside it.
    {"parsed", message | part},
    {"parsed_arguments", message | call},
    // Reasoning of earlier turns, which is no part of the answer, under the names that OpenAI,
    // DeepSeek, vLLM, OpenRouter and LiteLLM give it.
    {"reasoning", message},
    {"reasoning_content", message},
    {"reasoning_details", message},
    {"thinking_blocks", message},
    // What caches, routers and frameworks write for one another.
    {"cache_control", message | part | call | tool},
    {"provider_specific_fields", message | call},
    {"metadata", message | part},
    {"extra_content", call},
};

} // namespace

bool is_read_over(object_kind in, std::string_view name) noexcept {
  return std::any_of(std::begin(table), std::end(table),
                     [&](const row& r) { return r.name == name && (r.in & bit(in)) != 0; });
}

} // namespace baton::gateway
