// Collects all splits of all tokens, or the listed merges; see scored_merges.hpp.
#include "runtime/text/bpe/scored_merges.hpp"

#include "runtime/text/bpe/sentencepiece_text.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace baton::text {

namespace {

struct piece {
  std::string text; // spaces as U+2581
  token_id id;
};

struct rule {
  token_id left;
  token_id right;
  merge what;
};

// Characters of all pieces; `bare` receives those that are not pieces.
std::vector<piece_trie::entry> symbols_of(const std::vector<piece>& pieces, std::size_t tokens,
                                          std::vector<std::string>& bare) {
  std::vector<piece_trie::entry> single;
  std::vector<std::string> characters;
  for (const piece& token : pieces)
    for (std::string_view rest = token.text; !rest.empty();) {
      const std::size_t length = character_bytes(rest);
      if (length == token.text.size())
        single.push_back({token.text, token.id});
      characters.emplace_back(rest.substr(0, length));
      rest.remove_prefix(length);
    }
  std::sort(characters.begin(), characters.end());
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  const piece_trie known(single);
  for (std::string& character : characters) {
    if (known.find(character))
      continue;
    single.push_back({character, static_cast<token_id>(tokens + bare.size())});
    bare.push_back(std::move(character));
  }
  return single;
}

bool continues_after_space(std::string_view text) {
  for (std::size_t at = text.find(space_symbol, 1); at != std::string_view::npos;
       at = text.find(space_symbol, at + 1))
    if (!text.substr(0, at).ends_with(space_symbol))
      return true;
  return false;
}

// Ranks by token: 0 has the highest score, equal scores share a rank.
std::vector<std::uint32_t> ranks_of(const vocabulary& vocab) {
  std::vector<double> scores = vocab.scores;
  std::sort(scores.begin(), scores.end(), std::greater<>{});
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<std::uint32_t> ranks;
  ranks.reserve(vocab.scores.size());
  for (const double score : vocab.scores)
    ranks.push_back(static_cast<std::uint32_t>(
        std::lower_bound(scores.begin(), scores.end(), score, std::greater<>{}) - scores.begin()));
  return ranks;
}

std::vector<piece> pieces_of(const vocabulary& vocab) {
  std::vector<piece> pieces;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    const token_kind kind = vocab.kinds[id];
    if (vocab.tokens[id].empty() ||
        (kind != token_kind::normal && kind != token_kind::user_defined))
      continue;
    pieces.push_back(
        {kind == token_kind::user_defined ? with_space_symbols(vocab.tokens[id]) : vocab.tokens[id],
         static_cast<token_id>(id)});
  }
  return pieces;
}

// Appends the ways to make `token` from two symbols.
void add_rules(const piece& token, std::uint32_t rank, const piece_trie& symbols,
               std::vector<rule>& rules) {
  piece_trie::node node = piece_trie::root;
  const std::string_view text = token.text;
  for (std::size_t at = 1; at < text.size(); ++at) {
    const auto next = symbols.child(node, text[at - 1]);
    if (!next)
      return; // no longer prefix is a symbol
    node = *next;
    if (const auto left = symbols.id(node))
      if (const auto right = symbols.find(text.substr(at)))
        rules.push_back({*left, *right, {rank, token.id}});
  }
}

// All ways to make a token from two symbols, ranked by score. Errors: bad_model_file (too many).
result<std::vector<rule>> implied_rules(const vocabulary& vocab, const std::vector<piece>& pieces,
                                        const piece_trie& symbols) {
  const std::vector<std::uint32_t> ranks = ranks_of(vocab);
  std::vector<rule> rules;
  for (const piece& token : pieces) {
    if (symbols.find(token.text) != token.id)
      continue; // of equal texts, the first one counts
    add_rules(token, ranks[static_cast<std::size_t>(token.id)], symbols, rules);
    if (rules.size() > vocabulary_limits::merges_max)
      return fail(errc::bad_model_file,
                  "the vocabulary's tokens can be merged in more than {} ways",
                  vocabulary_limits::merges_max);
  }
  return rules;
}

// The listed merges. A special token is never merged from text, whatever the list contains.
result<std::vector<rule>> listed_rules(const vocabulary& vocab, const piece_trie& symbols) {
  std::unordered_set<std::string_view> known;
  for (const std::string& token : vocab.tokens)
    known.insert(token);
  std::vector<rule> rules;
  for (std::size_t rank = 0; rank < vocab.merges.size(); ++rank) {
    const std::string_view line = vocab.merges[rank];
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string left(line.substr(0, space));
    const std::string right(line.substr(std::min(space + 1, line.size())));
    if (!known.contains(left) || !known.contains(right) || !known.contains(left + right))
      return fail(errc::bad_model_file, "merge {} ('{}') uses text that is not a token", rank,
                  line);
    const auto left_id = symbols.find(left);
    const auto right_id = symbols.find(right);
    const auto product = symbols.find(left + right);
    if (left_id && right_id && product)
      rules.push_back({*left_id, *right_id, {static_cast<std::uint32_t>(rank), *product}});
  }
  return rules;
}

} // namespace

result<scored_merges> scored_merges::create(const vocabulary& vocab) {
  const std::vector<piece> pieces = pieces_of(vocab);
  std::vector<std::string> bare;
  std::vector<piece_trie::entry> characters = symbols_of(pieces, vocab.tokens.size(), bare);
  std::vector<piece_trie::entry> all = characters;
  for (const piece& token : pieces)
    all.push_back({token.text, token.id});
  const piece_trie symbols(std::move(all));
  const auto rules =
      vocab.merges.empty() ? implied_rules(vocab, pieces, symbols) : listed_rules(vocab, symbols);
  if (!rules)
    return rules.error();
  const bool words_end_at_spaces =
      std::none_of(pieces.begin(), pieces.end(),
                   [](const piece& token) { return continues_after_space(token.text); });
  merge_table merges(rules->size());
  for (const rule& made : *rules)
    merges.add(made.left, made.right, made.what);
  return scored_merges{piece_trie(std::move(characters)), std::move(merges), std::move(bare),
                       words_end_at_spaces};
}

} // namespace baton::text
