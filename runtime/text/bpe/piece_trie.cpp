// Builds the tree level by level from the sorted texts; see piece_trie.hpp.
#include "runtime/text/bpe/piece_trie.hpp"

#include <algorithm>

namespace baton::text {

namespace {

// The entries below one node: a range of the sorted ones with the same first `depth` bytes.
struct subtree {
  std::size_t begin;
  std::size_t end;
  std::size_t depth;
};

} // namespace

piece_trie::piece_trie(std::vector<entry> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const entry& a, const entry& b) { return a.text < b.text; });
  std::vector<subtree> nodes = {{0, entries.size(), 0}};
  labels_.push_back(0); // of the root: unused
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    auto [begin, end, depth] = nodes[n];
    ids_.push_back(no_token);
    first_child_.push_back(static_cast<node>(nodes.size()));
    for (; begin < end && entries[begin].text.size() == depth; ++begin)
      if (ids_.back() == no_token)
        ids_.back() = entries[begin].id;
    while (begin < end) {
      const char label = entries[begin].text[depth];
      const std::size_t first = begin;
      while (begin < end && entries[begin].text[depth] == label)
        ++begin;
      nodes.push_back({first, begin, depth + 1});
      labels_.push_back(static_cast<unsigned char>(label));
    }
  }
  first_child_.push_back(static_cast<node>(nodes.size()));
}

std::optional<piece_trie::node> piece_trie::child(node parent, char label) const noexcept {
  const auto begin = labels_.begin() + first_child_[parent];
  const auto end = labels_.begin() + first_child_[parent + 1];
  const auto wanted = static_cast<unsigned char>(label);
  const auto found = std::lower_bound(begin, end, wanted);
  if (found == end || *found != wanted)
    return std::nullopt;
  return static_cast<node>(found - labels_.begin());
}

std::optional<token_id> piece_trie::id(node at) const noexcept {
  return ids_[at] == no_token ? std::nullopt : std::optional(ids_[at]);
}

std::optional<piece_trie::match> piece_trie::longest(std::string_view text) const noexcept {
  std::optional<match> best;
  node at = root;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto next = child(at, text[i]);
    if (!next)
      break;
    at = *next;
    if (const auto found = id(at))
      best = match{*found, i + 1};
  }
  return best;
}

std::optional<token_id> piece_trie::find(std::string_view text) const noexcept {
  const auto found = longest(text);
  return found && found->length == text.size() ? std::optional(found->id) : std::nullopt;
}

} // namespace baton::text
