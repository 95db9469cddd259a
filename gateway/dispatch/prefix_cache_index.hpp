// Index of the prompt prefixes that a pipeline has computed and probably still has in its prefix
// cache. The gateway does not tokenize: keys are digests of the text's bytes. Pure.
#pragma once

#include "schema/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace baton::gateway {

// About the 64 tokens of a KV block, the shortest prefix that a prefix cache finds.
inline constexpr std::size_t block_bytes = 256;
// Per prompt. Prefixes that are equal up to here score the same.
inline constexpr std::size_t prefix_blocks_max = 1024;

// One digest for each whole block of the prompt, over all bytes up to its end. Prompts with
// different salts share none, as in the prefix cache.
std::vector<std::uint64_t> prefix_hashes_of(const prompt& input, std::string_view cache_salt);

// Keeps the most recent prefixes. Evicts a longer prefix before the shorter ones it contains.
class prefix_cache_index {
public:
  explicit prefix_cache_index(std::size_t count_max) : count_max_(count_max) {}

  // The number of known blocks, from the first on.
  std::size_t match(std::span<const std::uint64_t> hashes) const;
  void note(std::span<const std::uint64_t> hashes);
  void clear();
  std::size_t size() const noexcept { return entries_.size(); }

private:
  std::size_t count_max_;
  std::list<std::uint64_t> order_; // newest first
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> entries_;
};

} // namespace baton::gateway
