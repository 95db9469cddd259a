// The forward pass over all token ends, then back along the best path; see unigram.hpp.
#include "runtime/text/unigram.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace baton::text {

namespace {

// What a character without a token costs beyond the worst token. The reference's number.
constexpr float unknown_penalty = 10.0F;
// What each byte of a user-defined token but the first earns, whatever score the file gives it, so
// that it is nearly always taken. The reference's number since its release 0.2.3; before, such a
// token cost 0.1, and both decide alike unless user-defined tokens overlap or have long rivals.
constexpr double user_defined_gain = 0.1;

std::vector<piece_trie::entry> usable_tokens(const vocabulary& words) {
  std::vector<piece_trie::entry> usable;
  for (std::size_t id = 0; id < words.tokens.size(); ++id) {
    const std::string& text = words.tokens[id];
    const auto token = static_cast<token_id>(id);
    if (words.kinds[id] == token_kind::normal && !text.empty())
      usable.push_back({text, token});
    else if (words.kinds[id] == token_kind::user_defined && !text.empty())
      usable.push_back({with_space_symbols(text), token});
  }
  return usable;
}

} // namespace

unigram::unigram(sentencepiece_normalizer normalizer, unknown_characters unknown, piece_trie tokens)
    : normalizer_(std::move(normalizer)), unknown_(std::move(unknown)), tokens_(std::move(tokens)) {
}

result<unigram> unigram::create(const vocabulary& words) {
  auto normalizer = sentencepiece_normalizer::create(words);
  if (!normalizer)
    return normalizer.error();
  auto unknown = unknown_characters::create(words);
  if (!unknown)
    return unknown.error();
  unigram made(std::move(*normalizer), std::move(*unknown), piece_trie(usable_tokens(words)));
  float lowest = std::numeric_limits<float>::max();
  for (std::size_t id = 0; id < words.tokens.size(); ++id)
    if (words.kinds[id] == token_kind::normal)
      lowest = std::min(lowest, words.scores[id]);
  if (lowest == std::numeric_limits<float>::max())
    return fail(errc::bad_model_file, "the vocabulary has no ordinary tokens");
  made.unknown_score_ = lowest - unknown_penalty;
  made.scores_ = words.scores;
  for (std::size_t id = 0; id < words.tokens.size(); ++id)
    if (words.kinds[id] == token_kind::user_defined) {
      const std::size_t bytes = with_space_symbols(words.tokens[id]).size();
      made.scores_[id] =
          static_cast<float>(static_cast<double>(bytes) * user_defined_gain - user_defined_gain);
    }
  return made;
}

std::vector<unigram::path_end> unigram::best_paths(std::string_view text,
                                                   encode_scratch& scratch) const {
  std::vector<path_end> ends(text.size() + 1);
  const auto reach = [&ends](std::size_t end, float score, token_id id, std::size_t begin) {
    path_end& known = ends[end];
    if (known.id == unreached || score > known.score)
      known = {score, id, static_cast<std::uint32_t>(begin)};
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t character_end = begin + character_bytes(text.substr(begin));
    const float score = ends[begin].score;
    bool is_token = false; // the character alone
    std::size_t end = begin;
    for (auto node = tokens_.child(piece_trie::root, text[end]); node;) {
      ++scratch.steps_;
      ++end;
      if (const auto id = tokens_.id(*node)) {
        reach(end, scores_[static_cast<std::size_t>(*id)] + score, *id, begin);
        is_token = is_token || end == character_end;
      }
      node = end < text.size() ? tokens_.child(*node, text[end]) : std::nullopt;
    }
    if (!is_token)
      reach(character_end, unknown_score_ + score, no_token, begin);
    ++scratch.steps_;
    begin = character_end;
  }
  return ends;
}

result<void> unigram::encode(std::string_view text, encode_scratch& scratch,
                             std::vector<token_id>& ids) const {
  const auto normalized = normalizer_.normalize(text);
  if (!normalized)
    return normalized.error();
  const std::string_view whole = *normalized;
  std::vector<path_end> ends = best_paths(whole, scratch);
  // Turned around in place: of each token on the path, where it ends.
  std::uint32_t next = 0;
  for (auto at = static_cast<std::uint32_t>(whole.size()); at > 0;) {
    const std::uint32_t begin = ends[at].begin;
    ends[at].begin = next;
    next = at;
    at = begin;
  }
  const std::size_t first = ids.size();
  for (std::uint32_t begin = 0, end = next; end != 0; begin = end, end = ends[end].begin)
    if (const token_id id = ends[end].id; id == no_token)
      unknown_.append_character(whole.substr(begin, end - begin), first, ids);
    else
      ids.push_back(id);
  return {};
}

} // namespace baton::text
