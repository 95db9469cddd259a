#include "runtime/grammar/masker.hpp"

#include "runtime/grammar/automata/control_text.hpp"
#include "runtime/grammar/compile.hpp"
#include "runtime/text/stream/reasoning_style.hpp"

#include <algorithm>

namespace baton::grammar {
namespace {

// The state after ids that end the answer or do not match.
constexpr automaton::state ended = automaton::dead;

error too_large() {
  return fail(errc::unprocessable, "the constraint needs too much memory or time for one token");
}

} // namespace

masker::masker(texts_source texts, masker_limits limits)
    : source_(std::move(texts)), limits_(limits) {}

masker::masker(answer_texts texts, masker_limits limits)
    : masker([t = std::move(texts)]() -> result<answer_texts> { return t; }, limits) {}

result<void> masker::find(const shared_constraint& of, sequence_id sequence,
                          std::span<const token_id> output, token_bits& out) {
  if (!maker_) {
    auto texts = source_();
    if (!texts)
      return texts.error();
    maker_.emplace(*std::move(texts));
    end_ = maker_->make_end();
  }
  const auto forced = end_of_reasoning(*of, output);
  if (!forced)
    return forced.error();
  if (*forced) {
    mask_maker::mask only;
    only.ids = {**forced};
    maker_->fill(only, out);
    return {};
  }
  auto found = grammar_of(of);
  if (!found)
    return found.error();
  grammar_state& g = **found;
  if (g.bytes() > limits_.grammar_bytes)
    restart(g);
  trail& t = trail_of(sequence);
  // A mask that exceeds the budget is retried once with an empty cache, so the result does not
  // depend on earlier requests.
  for (const bool is_last : {false, true}) {
    const mask_budget budget{limits_.step_bytes, g.states.work() + limits_.step_work +
                                                     output.size() * limits_.token_work};
    const auto s = follow(g, t, output, budget);
    const auto* mask =
        s ? mask_of(g, *s, output.empty() && !of->continues_prompt, budget) : nullptr;
    if (!mask) {
      if (is_last)
        return too_large();
      restart(g);
      continue;
    }
    if (mask->is_empty)
      return fail(errc::unprocessable,
                  "no token of the vocabulary can follow {} tokens of this constraint",
                  output.size());
    maker_->fill(*mask, out);
    break;
  }
  keep_bounds();
  return {};
}

std::optional<token_id> masker::close_of(reasoning_format format) {
  if (close_.format == format)
    return close_.close;
  const auto& all = maker_->texts().all;
  const auto at = std::find_if(all.begin(), all.end(), [&](const std::string& text) {
    return shown_text(text) == text::row_of(format).close;
  });
  close_ = {.format = format,
            .close = at == all.end() ? std::nullopt
                                     : std::optional(static_cast<token_id>(at - all.begin()))};
  return close_.close;
}

std::optional<std::size_t> masker::opening_of(reasoning_format format,
                                              std::span<const token_id> output) const {
  const auto open = text::row_of(format).open;
  const auto& all = maker_->texts().all;
  std::string begun;
  for (std::size_t i = 0; i < output.size() && begun.size() < open.size(); ++i) {
    const auto id = static_cast<std::size_t>(output[i]);
    begun += id < all.size() ? shown_text(all[id]) : std::string_view();
    begun.erase(0, std::min(begun.find_first_not_of(" \t\r\n"), begun.size()));
    if (begun.starts_with(open))
      return i + 1;
  }
  return std::nullopt;
}

result<std::optional<token_id>> masker::end_of_reasoning(const constraint& of,
                                                         std::span<const token_id> output) {
  const auto most = static_cast<std::size_t>(std::max(of.reasoning_tokens_max, 0));
  if (of.reasoning == reasoning_format::none || of.reasoning_tokens_max < 0 || output.size() < most)
    return std::optional<token_id>();
  const auto close = close_of(of.reasoning);
  if (!close)
    return fail_param(errc::unsupported_parameter, "thinking_token_budget",
                      "no single token of this model ends its reasoning");
  const auto opening =
      of.begins_in_reasoning ? std::optional<std::size_t>(0) : opening_of(of.reasoning, output);
  if (!opening)
    return std::optional<token_id>();
  const auto thought = output.subspan(*opening);
  const bool is_over = std::find(thought.begin(), thought.end(), *close) != thought.end();
  return is_over || thought.size() < most ? std::optional<token_id>() : close;
}

// Moves the grammar to the front: most recently used first.
result<masker::grammar_state*> masker::grammar_of(const shared_constraint& c) {
  auto it = std::find_if(grammars_.begin(), grammars_.end(),
                         [&](const auto& g) { return g.key.get() == c.get(); });
  if (it == grammars_.end())
    it =
        std::find_if(grammars_.begin(), grammars_.end(), [&](const auto& g) { return g.key == c; });
  if (it != grammars_.end()) {
    it->key = c; // the same text: the pointer matches next time
    grammars_.splice(grammars_.begin(), grammars_, it);
    return &grammars_.front();
  }
  auto rules = compile(*c);
  if (!rules)
    return rules.error();
  grammars_.push_front({.key = c,
                        .rules = *rules,
                        .states = automaton(*rules),
                        .masks = {},
                        .distinct = {},
                        .mask_bytes = 0,
                        .generation = ++generations_});
  return &grammars_.front();
}

void masker::restart(grammar_state& g) {
  g.states = automaton(g.rules);
  g.masks.clear();
  g.distinct.clear();
  g.mask_bytes = 0;
  g.generation = ++generations_;
}

masker::trail& masker::trail_of(sequence_id sequence) {
  const auto it = trail_index_.find(sequence);
  if (it != trail_index_.end()) {
    followed_sequences_.splice(followed_sequences_.begin(), followed_sequences_, it->second);
  } else {
    followed_sequences_.push_front({sequence, {}});
    trail_index_[sequence] = followed_sequences_.begin();
  }
  return followed_sequences_.front().path;
}

// Reuses the states of the common prefix with the previous ids. nullopt: as in mask_of.
std::optional<automaton::state> masker::follow(grammar_state& g, trail& t,
                                               std::span<const token_id> output,
                                               const mask_budget& budget) {
  if (t.of != &g || t.generation != g.generation)
    t = {&g, g.generation, {}, {g.states.start()}};
  const auto same = static_cast<std::size_t>(
      std::mismatch(output.begin(), output.end(), t.ids.begin(), t.ids.end()).first -
      output.begin());
  t.ids.resize(same);
  t.states.resize(same + 1);
  for (std::size_t i = same; i < output.size(); ++i) {
    const bool is_first = i == 0 && !g.key->continues_prompt;
    t.states.push_back(advance(g, t.states.back(), output[i], is_first));
    t.ids.push_back(output[i]);
    if (budget.is_spent(g.states))
      return std::nullopt;
  }
  return t.states.back();
}

automaton::state masker::advance(grammar_state& g, automaton::state from, token_id id,
                                 bool is_first) {
  const auto& texts = maker_->texts();
  const auto& of = is_first && !texts.first.empty() ? texts.first : texts.all;
  const auto at = static_cast<std::size_t>(id);
  if (id < 0 || at >= of.size() || of[at].empty())
    return ended;
  for (const char byte : of[at])
    from = g.states.step(from, static_cast<std::uint8_t>(byte));
  return from;
}

// Null: the budget is spent.
const mask_maker::mask* masker::mask_of(grammar_state& g, automaton::state s, bool is_first,
                                        const mask_budget& budget) {
  if (s == ended)
    return &end_;
  const bool begins_text = is_first && !maker_->texts().first.empty();
  const auto key = std::uint64_t{s} * 2 + (begins_text ? 1 : 0);
  if (const auto it = g.masks.find(key); it != g.masks.end())
    return it->second.get();
  auto made = maker_->make(g.states, s, begins_text, budget);
  if (!made)
    return nullptr;
  auto& kept = g.masks[key];
  const auto hash = made->hash();
  const auto [begin, end] = g.distinct.equal_range(hash);
  for (auto it = begin; it != end && !kept; ++it)
    if (*it->second == *made)
      kept = it->second;
  if (!kept) {
    kept = std::make_shared<const mask_maker::mask>(std::move(*made));
    g.distinct.emplace(hash, kept);
    g.mask_bytes += kept->bytes();
  }
  constexpr std::size_t table_entry_bytes = 64; // of one table entry
  g.mask_bytes += table_entry_bytes;
  return kept.get();
}

void masker::keep_bounds() {
  std::size_t bytes = 0, count = 0;
  for (auto it = grammars_.begin(); it != grammars_.end();) {
    bytes += it->bytes();
    ++count;
    const bool is_kept = count <= 1 || (count <= limits_.grammars && bytes <= limits_.bytes);
    it = is_kept ? std::next(it) : grammars_.erase(it);
  }
  while (followed_sequences_.size() > limits_.sequences) {
    trail_index_.erase(followed_sequences_.back().sequence);
    followed_sequences_.pop_back();
  }
}

} // namespace baton::grammar
