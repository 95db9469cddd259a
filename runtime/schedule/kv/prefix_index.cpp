#include "runtime/schedule/kv/prefix_index.hpp"

#include "schema/ensure.hpp"

namespace baton::schedule {

// The bytes of the parent prefix and the tokens. Only keys of first blocks contain the salt,
// because a prefix has one beginning.
std::string prefix_index::key_of(prefix_id from, std::string_view salt,
                                 std::span<const token_id> tokens) {
  std::string key;
  key.reserve(sizeof from + tokens.size_bytes() + salt.size());
  key.append(reinterpret_cast<const char*>(&from), sizeof from);
  key.append(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  if (from == 0)
    key.append(salt);
  return key;
}

std::optional<prefix_index::entry> prefix_index::find(prefix_id from, std::string_view salt,
                                                      std::span<const token_id> tokens) const {
  const auto it = entries_.find(key_of(from, salt, tokens));
  return it == entries_.end() ? std::nullopt : std::optional(it->second);
}

prefix_index::prefix_id prefix_index::add(prefix_id from, std::string_view salt,
                                          std::span<const token_id> tokens, block_index block) {
  auto key = key_of(from, salt, tokens);
  const bool is_new = keys_.try_emplace(block, key).second &&
                      entries_.try_emplace(std::move(key), entry{++last_, block}).second;
  ENSURE(is_new, "block {} or its tokens are in the index already", block);
  return last_;
}

void prefix_index::remove(block_index block) {
  const auto it = keys_.find(block);
  if (it == keys_.end())
    return;
  entries_.erase(it->second);
  keys_.erase(it);
}

} // namespace baton::schedule
