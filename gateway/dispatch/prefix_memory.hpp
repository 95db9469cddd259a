// Which beginnings of prompts a pipeline has had, and probably has in its prefix cache still. Kept
// at the gateway, where nothing is tokenized: as digests of the text's bytes. Pure.
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

// About the 64 tokens of a KV block, the least that a prefix cache finds.
inline constexpr std::size_t block_bytes = 256;
// Of one prompt: what is equal so far is worth the same way, however the rest goes on.
inline constexpr std::size_t beginnings_max = 1024;

// One for each whole block of the prompt: the digest of all up to its end. Prompts with different
// salts have none in common, as in the prefix cache.
std::vector<std::uint64_t> beginnings_of(const prompt& input, std::string_view cache_salt);

// The beginnings that came last. A longer one goes before those that it begins with.
class prefix_memory {
public:
  explicit prefix_memory(std::size_t count_max) : count_max_(count_max) {}

  // How many blocks are known, from the first on.
  std::size_t match(std::span<const std::uint64_t> beginnings) const;
  void note(std::span<const std::uint64_t> beginnings);
  void clear();
  std::size_t size() const noexcept { return places_.size(); }

private:
  std::size_t count_max_;
  std::list<std::uint64_t> order_; // the newest first
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
};

} // namespace baton::gateway
