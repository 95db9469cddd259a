#include "runtime/grammar/automata/token_trie.hpp"

#include "schema/ensure.hpp"

#include <algorithm>

namespace baton::grammar {
namespace {

// A text's first bytes as a number with the same order, which decides most comparisons. Sorting the
// vocabulary must be fast, since it delays the first mask.
struct sorted_text {
  std::uint64_t prefix = 0;
  token_text text;

  explicit sorted_text(token_text t) : text(t) {
    for (std::size_t i = 0; i < sizeof(prefix); ++i)
      prefix = prefix << 8 | (i < t.bytes.size() ? static_cast<std::uint8_t>(t.bytes[i]) : 0u);
  }
  friend bool operator<(const sorted_text& a, const sorted_text& b) {
    if (a.prefix != b.prefix)
      return a.prefix < b.prefix;
    const int order = a.text.bytes.compare(b.text.bytes);
    return order != 0 ? order < 0 : a.text.id < b.text.id;
  }
};

} // namespace

token_trie::token_trie(const std::vector<token_text>& texts) {
  std::vector<sorted_text> sorted(texts.begin(), texts.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::size_t> path; // nodes of the previous text, by depth
  std::string_view before;
  const auto close_to = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].subtree_end = static_cast<std::uint32_t>(nodes_.size());
  };
  for (const auto& [prefix, text] : sorted) {
    const auto [bytes, id] = text;
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
