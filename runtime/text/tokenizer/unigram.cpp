// Runs the forward pass over all token ends, then backtracks along the best path; see unigram.hpp.
#include "runtime/text/tokenizer/unigram.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace baton::text {

namespace {

// Penalty of a character without a token below the worst token's score, as in the reference.
constexpr double unknown_penalty = 10.0;
// Gain per byte after the first of a user-defined token, whatever its score, so that it nearly
// always wins. The reference uses this value since release 0.2.3; before, such a token cost 0.1.
// Both decide alike unless user-defined tokens overlap or have long rivals.
constexpr double user_defined_gain = 0.1;

std::vector<piece_trie::entry> usable_tokens(const vocabulary& vocab) {
  std::vector<piece_trie::entry> usable;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    const std::string& text = vocab.tokens[id];
    const auto token = static_cast<token_id>(id);
    if (vocab.kinds[id] == token_kind::normal && !text.empty())
      usable.push_back({text, token});
    else if (vocab.kinds[id] == token_kind::user_defined && !text.empty())
      usable.push_back({with_space_symbols(text), token});
  }
  return usable;
}

} // namespace

unigram::unigram(sentencepiece_normalizer normalizer, unknown_characters unknown,
                 const vocabulary& vocab)
    : normalizer_(std::move(normalizer)), unknown_(std::move(unknown)),
      tokens_(usable_tokens(vocab)), splits_at_spaces_(vocab.splits_at_spaces),
      sums_as_double_(vocab.sums_as_double) {}

result<unigram> unigram::create(const vocabulary& vocab) {
  auto normalizer = sentencepiece_normalizer::create(vocab);
  if (!normalizer)
    return normalizer.error();
  auto unknown = unknown_characters::create(vocab);
  if (!unknown)
    return unknown.error();
  if (std::find(vocab.kinds.begin(), vocab.kinds.end(), token_kind::normal) == vocab.kinds.end())
    return fail(errc::bad_model_file, "the vocabulary has no ordinary tokens");
  unigram made(std::move(*normalizer), std::move(*unknown), vocab);
  made.set_scores(vocab);
  return made;
}

void unigram::set_scores(const vocabulary& vocab) {
  scores_ = vocab.scores;
  double lowest = std::numeric_limits<double>::max();
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (vocab.kinds[id] == token_kind::normal)
      lowest = std::min(lowest, vocab.scores[id]);
    if (vocab.kinds[id] == token_kind::user_defined) {
      const std::size_t bytes = with_space_symbols(vocab.tokens[id]).size();
      scores_[id] = static_cast<double>(bytes) * user_defined_gain - user_defined_gain;
    }
  }
  unknown_score_ = lowest - unknown_penalty;
}

template <class Score>
std::vector<unigram::path_end<Score>> unigram::best_paths(std::string_view text,
                                                          encode_scratch& scratch) const {
  std::vector<path_end<Score>> ends(text.size() + 1);
  const auto reach = [&ends](std::size_t end, Score score, token_id id, std::size_t begin) {
    path_end<Score>& known = ends[end];
    if (known.id == unreached || score > known.score)
      known = {score, id, static_cast<std::uint32_t>(begin)};
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t character_end = begin + character_bytes(text.substr(begin));
    const Score score = ends[begin].score;
    bool is_token = false; // whether the character alone is a token
    std::size_t end = begin;
    for (auto node = tokens_.child(piece_trie::root, text[end]); node;) {
      ++scratch.steps_;
      ++end;
      if (const auto id = tokens_.id(*node)) {
        reach(end, static_cast<Score>(scores_[static_cast<std::size_t>(*id)]) + score, *id, begin);
        is_token = is_token || end == character_end;
      }
      node = end < text.size() ? tokens_.child(*node, text[end]) : std::nullopt;
    }
    if (!is_token)
      reach(character_end, static_cast<Score>(unknown_score_) + score, no_token, begin);
    ++scratch.steps_;
    begin = character_end;
  }
  return ends;
}

template <class Score>
void unigram::encode_piece(std::string_view text, encode_scratch& scratch,
                           std::vector<token_id>& ids) const {
  auto ends = best_paths<Score>(text, scratch);
  // Reverses the path in place: `begin` becomes the end of the next token.
  std::uint32_t next = 0;
  for (auto at = static_cast<std::uint32_t>(text.size()); at > 0;) {
    const std::uint32_t begin = ends[at].begin;
    ends[at].begin = next;
    next = at;
    at = begin;
  }
  const std::size_t first = ids.size();
  for (std::uint32_t begin = 0, end = next; end != 0; begin = end, end = ends[end].begin)
    if (const token_id id = ends[end].id; id == no_token)
      unknown_.append_character(text.substr(begin, end - begin), first, ids);
    else
      ids.push_back(id);
}

result<void> unigram::encode(std::string_view text, encode_scratch& scratch,
                             std::vector<token_id>& ids) const {
  const auto normalized = normalizer_.normalize(text);
  if (!normalized)
    return normalized.error();
  for (std::string_view rest = *normalized; !rest.empty();) {
    const std::size_t end = splits_at_spaces_ ? rest.find(space_symbol, 1) : rest.size();
    const std::string_view piece = rest.substr(0, end);
    rest.remove_prefix(piece.size());
    if (sums_as_double_)
      encode_piece<double>(piece, scratch, ids);
    else
      encode_piece<float>(piece, scratch, ids);
  }
  return {};
}

} // namespace baton::text
