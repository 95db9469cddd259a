#include "gateway/dispatch/prefix_cache_index.hpp"

#include "schema/digest.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

constexpr std::size_t bytes_max = prefix_blocks_max * block_bytes;

void append(std::string& out, std::string_view text) {
  out.append(text.substr(0, bytes_max - std::min(bytes_max, out.size())));
  out += '\0';
}

// The messages without the chat template.
std::string bytes_of(const chat_prompt& messages) {
  std::string out;
  for (const auto& m : messages) {
    if (out.size() >= bytes_max) {
      break;
    }
    append(out, m.role);
    append(out, m.name);
    append(out, m.content);
    append(out, m.tool_calls);
  }
  return out;
}

} // namespace

std::vector<std::uint64_t> prefix_hashes_of(const prompt& input, std::string_view cache_salt) {
  std::string made;
  std::string_view bytes;
  if (const auto* text = std::get_if<std::string>(&input)) {
    bytes = *text;
  } else if (const auto* ids = std::get_if<ids_prompt>(&input)) {
    bytes = {reinterpret_cast<const char*>(ids->data()), ids->size() * sizeof(token_id)};
  } else {
    bytes = made = bytes_of(std::get<chat_prompt>(input));
  }
  const auto count = std::min(bytes.size() / block_bytes, prefix_blocks_max);
  std::vector<std::uint64_t> all;
  all.reserve(count);
  auto before = digest_behind(input.index(), cache_salt);
  for (std::size_t i = 0; i < count; ++i) {
    before = digest_behind(before, bytes.substr(i * block_bytes, block_bytes));
    all.push_back(before);
  }
  return all;
}

std::size_t prefix_cache_index::match(std::span<const std::uint64_t> hashes) const {
  const auto unknown = std::find_if(hashes.begin(), hashes.end(), [this](std::uint64_t digest) {
    return !entries_.contains(digest);
  });
  return static_cast<std::size_t>(unknown - hashes.begin());
}

// From the longest prefix to the first block, which becomes the newest.
void prefix_cache_index::note(std::span<const std::uint64_t> hashes) {
  for (auto digest = hashes.rbegin(); digest != hashes.rend(); ++digest) {
    if (const auto known = entries_.find(*digest); known != entries_.end()) {
      order_.splice(order_.begin(), order_, known->second);
    } else {
      order_.push_front(*digest);
      entries_.emplace(*digest, order_.begin());
    }
  }
  while (entries_.size() > count_max_) {
    entries_.erase(order_.back());
    order_.pop_back();
  }
}

void prefix_cache_index::clear() {
  order_.clear();
  entries_.clear();
}

} // namespace baton::gateway
