#include "gateway/api/openai/reply/call_reply.hpp"

#include "schema/digest.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

} // namespace

std::string call_id(const call_owner& owner, std::uint32_t index) {
  const auto key = fmt::format("{} {} {}", owner.ticket.value, owner.choice, index);
  auto digest = digest_of(key);
  if (!text::row_of(owner.format).has_short_ids) {
    return fmt::format("call_{:016x}", digest);
  }
  constexpr std::string_view alphabet = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string id;
  for (int i = 0; i < 9; ++i, digest /= alphabet.size()) {
    id += alphabet[digest % alphabet.size()];
  }
  return id;
}

ordered calls_json(const call_owner& owner, const std::vector<call_delta::part>& of) {
  auto all = ordered::array();
  for (const auto& call : of) {
    all.push_back({{"id", call_id(owner, call.index)},
                   {"type", "function"},
                   {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return all;
}

ordered call_deltas_json(const call_owner& owner, const std::vector<call_delta::part>& of) {
  auto all = ordered::array();
  for (const auto& part : of) {
    ordered one{{"index", part.index}};
    if (!part.name.empty()) {
      one["id"] = call_id(owner, part.index);
      one["type"] = "function";
      one["function"]["name"] = part.name;
    }
    one["function"]["arguments"] = part.arguments;
    all.push_back(std::move(one));
  }
  return all;
}

} // namespace baton::gateway
