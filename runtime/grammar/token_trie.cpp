#include "runtime/grammar/token_trie.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <tuple>

namespace baton::grammar {

token_trie::token_trie(std::vector<token_text> texts) {
  std::sort(texts.begin(), texts.end(), [](const token_text& a, const token_text& b) {
    return std::tie(a.bytes, a.id) < std::tie(b.bytes, b.id);
  });
  std::vector<std::size_t> path; // nodes of the text before, by depth
  std::string_view before;
  const auto close_to = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].behind = static_cast<std::uint32_t>(nodes_.size());
  };
  for (const auto& [bytes, id] : texts) {
    ENSURE(!bytes.empty() && bytes.size() <= bytes_max, "a token of {} bytes", bytes.size());
    const auto shared = static_cast<std::size_t>(
        std::mismatch(bytes.begin(), bytes.end(), before.begin(), before.end()).first -
        bytes.begin());
    close_to(shared);
    for (std::size_t i = shared; i < bytes.size(); ++i) {
      path.push_back(nodes_.size());
      nodes_.push_back({0, static_cast<std::uint32_t>(tokens_.size()),
                        static_cast<std::uint8_t>(bytes[i]), static_cast<std::uint8_t>(i + 1)});
    }
    tokens_.push_back(id);
    before = bytes;
  }
  close_to(0);
  nodes_.push_back({0, static_cast<std::uint32_t>(tokens_.size()), 0, 0});
}

} // namespace baton::grammar
