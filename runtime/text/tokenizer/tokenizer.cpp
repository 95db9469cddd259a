// Builds the tables from a vocabulary, then encodes and decodes; see tokenizer.hpp.
#include "runtime/text/tokenizer/tokenizer.hpp"

#include "runtime/text/unicode/utf8.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

namespace baton::text {

namespace {

// For calls without a caller's scratch: small, since it is allocated each time.
constexpr std::size_t cached_pieces_of_one_call = 256;

// Turn ends of the well-known chat formats: files name one as eos, but models emit others.
constexpr std::array<std::string_view, 12> known_end_texts = {
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>", // Gemma 4: behind its calls, whose answers follow
    "<｜end▁of▁sentence｜>",
};

// FNV-1a.
void mix(std::uint64_t& hash, std::string_view bytes) {
  for (const char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3ULL;
  hash = (hash ^ bytes.size()) * 0x100000001B3ULL;
}

void mix(std::uint64_t& hash, const void* bytes, std::size_t count) {
  mix(hash, std::string_view(static_cast<const char*>(bytes), count));
}

// No ids change nothing, so a vocabulary without them keeps its fingerprint.
void mix_ids(std::uint64_t& hash, const std::vector<token_id>& ids) {
  if (!ids.empty())
    mix(hash, ids.data(), ids.size() * sizeof(token_id));
}

constexpr std::string_view ascii_white_space = " \t\r\n\v\f";

bool holds(const std::vector<token_id>& ids, token_id id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Texts of user-defined tokens that occur in the chat template.
std::unordered_set<std::string_view> written_by_template(const vocabulary& vocab) {
  std::vector<piece_trie::entry> entries;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id)
    if (vocab.kinds[id] == token_kind::user_defined && !vocab.tokens[id].empty())
      entries.push_back({with_plain_spaces(vocab.tokens[id]), static_cast<token_id>(id)});
  const piece_trie tokens(std::move(entries));
  std::unordered_set<std::string_view> written;
  for (std::string_view rest = vocab.chat_template; !rest.empty(); rest.remove_prefix(1)) {
    auto node = tokens.child(piece_trie::root, rest[0]);
    for (std::size_t at = 1; node; ++at) {
      if (tokens.id(*node))
        written.insert(rest.substr(0, at));
      node = at < rest.size() ? tokens.child(*node, rest[at]) : std::nullopt;
    }
  }
  return written;
}

// Whether a user-defined token of a SentencePiece model is a command to the model. Most are
// ordinary pieces (HTML tags, runs of spaces), and the reference finds them in any text. But some
// files also declare turn marks as user-defined, and user text must not yield those.
bool is_command_token(std::string_view text, bool is_written_by_template) {
  if (is_white_space(text))
    return false;
  const bool looks_like_a_mark = text.starts_with("<|") && text.ends_with("|>");
  return is_written_by_template || looks_like_a_mark ||
         std::find(known_end_texts.begin(), known_end_texts.end(), text) != known_end_texts.end();
}

// The vocabulary without the tokens withheld from a SentencePiece encoder, and the sorted ids of
// withheld tokens that are still found in any text.
struct withheld_vocabulary {
  vocabulary vocab;
  std::vector<token_id> in_any_text;
};

// Withholds commands, and tokens that split a text before its spaces are processed. The latter have
// no space: a token with spaces must be found in any notation.
withheld_vocabulary with_commands_withheld(const vocabulary& vocab) {
  const auto written = written_by_template(vocab); // views into vocab.chat_template
  withheld_vocabulary withheld{vocab, {}};
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (vocab.kinds[id] != token_kind::user_defined)
      continue;
    const std::string text = with_plain_spaces(vocab.tokens[id]);
    const bool is_command = is_command_token(text, written.contains(text));
    const bool parts_text = vocab.finds_added_tokens_first && text.find(' ') == std::string::npos;
    if (is_command || parts_text)
      withheld.vocab.kinds[id] = token_kind::control;
    if (!is_command && parts_text)
      withheld.in_any_text.push_back(static_cast<token_id>(id));
  }
  return withheld;
}

} // namespace

result<tokenizer> tokenizer::create(const vocabulary& vocab) {
  if (auto valid = validate(vocab); !valid)
    return valid.error();
  auto tokens = token_table::create(vocab);
  if (!tokens)
    return tokens.error();
  const bool withholds = is_sentencepiece(vocab);
  const auto withheld = withholds ? with_commands_withheld(vocab) : withheld_vocabulary();
  const vocabulary& used = withholds ? withheld.vocab : vocab;
  auto ordinary = encoder_of(used, *tokens);
  if (!ordinary)
    return ordinary.error();
  auto steps = text_steps::create(vocab.steps);
  if (!steps)
    return steps.error();
  tokenizer made(std::move(*tokens), std::move(*ordinary), std::move(*steps));
  made.bos_ = vocab.bos;
  made.eos_ = vocab.eos;
  const bool family_adds_bos =
      std::visit([](const auto& e) { return e.adds_bos(); }, made.encoder_);
  made.adds_bos_ = vocab.bos && vocab.add_bos.value_or(family_adds_bos);
  made.strips_spaces_ = withholds && vocab.remove_extra_whitespaces;
  made.strips_space_ = withholds && (vocab.add_space_prefix || vocab.drops_first_space ||
                                     vocab.remove_extra_whitespaces);
  made.metaspace_ = withholds ? vocab.metaspace : leading_space::never;
  made.strips_left_ = vocab.strips_left;
  made.strips_right_ = vocab.strips_right;
  made.add_special_tokens(used, withheld.in_any_text);
  made.find_end_tokens(vocab);
  made.take_fingerprint(vocab);
  return made;
}

result<tokenizer::encoder> tokenizer::encoder_of(const vocabulary& vocab,
                                                 const token_table& tokens) {
  const auto as_encoder = [](auto made) -> result<encoder> {
    if (!made)
      return made.error();
    return encoder(std::move(*made));
  };
  if (vocab.model == "llama")
    return as_encoder(sentencepiece_bpe::create(vocab));
  if (vocab.model == "t5")
    return as_encoder(unigram::create(vocab));
  return as_encoder(byte_level_bpe::create(vocab, tokens));
}

void tokenizer::take_fingerprint(const vocabulary& vocab) {
  fingerprint_ = 0xCBF29CE484222325ULL;
  mix(fingerprint_, vocab.pre);
  for (token_id id = 0; contains(id); ++id) {
    mix(fingerprint_, piece(id));
    mix(fingerprint_, &vocab.kinds[static_cast<std::size_t>(id)], 1);
  }
  for (const std::string& line : vocab.merges)
    mix(fingerprint_, line);
  mix_ids(fingerprint_, vocab.strips_left);
  mix_ids(fingerprint_, vocab.strips_right);
  for (const text_step& step : vocab.steps) {
    mix(fingerprint_, &step.what, sizeof(step.what));
    mix(fingerprint_, step.from);
    mix(fingerprint_, step.to);
  }
  if (!is_sentencepiece(vocab))
    return;
  mix(fingerprint_, vocab.model);
  mix(fingerprint_, vocab.scores.data(), vocab.scores.size() * sizeof(double));
  mix(fingerprint_, vocab.add_space_prefix ? "space" : "");
  mix(fingerprint_, &vocab.metaspace, sizeof(vocab.metaspace));
  mix(fingerprint_, vocab.splits_at_spaces ? "split" : "");
  mix(fingerprint_, vocab.remove_extra_whitespaces ? "one space" : "");
  mix(fingerprint_, vocab.character_map);
}

void tokenizer::add_special_tokens(const vocabulary& vocab, std::span<const token_id> in_any_text) {
  std::vector<special_token> found;
  for (std::size_t i = 0; i < vocab.tokens.size(); ++i) {
    const auto id = static_cast<token_id>(i);
    const std::string_view text = piece(id);
    if (text.empty() || !is_special(vocab.kinds[i]))
      continue;
    if (!special_.emplace(text, id).second)
      continue; // of equal texts, the first one counts
    const bool is_user_defined = vocab.kinds[i] == token_kind::user_defined;
    if (is_user_defined && is_sentencepiece(vocab))
      continue; // an ordinary piece for the encoder
    const bool is_anywhere = (is_user_defined && is_white_space(text)) ||
                             std::binary_search(in_any_text.begin(), in_any_text.end(), id);
    found.push_back({std::string(text), id, is_anywhere});
  }
  specials_ = special_tokens(std::move(found));
}

void tokenizer::find_end_tokens(const vocabulary& vocab) {
  for (const auto& id : {vocab.eos, vocab.eot})
    if (id)
      end_ids_.push_back(*id);
  end_ids_.insert(end_ids_.end(), vocab.ends.begin(), vocab.ends.end());
  // In formats with channels, <|end|> ends one of several messages, and eos ends the answer.
  const bool has_channels = special_id("<|channel|>").has_value();
  for (const std::string_view text : known_end_texts)
    if (const auto id = special_id(text); id && is_control(*id))
      if (text != "<|end|>" || !has_channels)
        end_ids_.push_back(*id);
  std::sort(end_ids_.begin(), end_ids_.end());
  end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());
}

result<std::vector<token_id>> tokenizer::encode(std::span<const text_segment> segments,
                                                encode_scratch& scratch) const {
  std::string text;
  std::vector<text_range> trusted;
  for (const text_segment& segment : segments) {
    if (segment.text.size() > encode_bytes_max - text.size())
      return fail(errc::payload_too_large, "the prompt has more than {} bytes", encode_bytes_max);
    if (segment.text.empty())
      continue;
    const auto begin = static_cast<std::uint32_t>(text.size());
    text += segment.text;
    const auto end = static_cast<std::uint32_t>(text.size());
    if (!segment.special_allowed)
      continue;
    if (!trusted.empty() && trusted.back().end == begin)
      trusted.back().end = end;
    else
      trusted.push_back({begin, end});
  }
  return encode_ranges(text, trusted, scratch);
}

result<std::vector<token_id>> tokenizer::encode(std::span<const text_segment> segments) const {
  encode_scratch scratch(cached_pieces_of_one_call);
  return encode(segments, scratch);
}

result<std::vector<token_id>> tokenizer::encode_text(std::string_view text,
                                                     encode_scratch& scratch) const {
  return encode_ranges(text, {}, scratch);
}

result<std::vector<token_id>> tokenizer::encode_text(std::string_view text) const {
  encode_scratch scratch(cached_pieces_of_one_call);
  return encode_text(text, scratch);
}

result<std::vector<token_id>> tokenizer::encode_prompt(std::string_view text, bool parses_special,
                                                       bool adds_special,
                                                       encode_scratch& scratch) const {
  const text_range whole[] = {
      {0, static_cast<std::uint32_t>(std::min(text.size(), encode_bytes_max))}};
  auto ids = encode_ranges(text, std::span(whole).first(parses_special ? 1 : 0), scratch);
  return ids && adds_special ? with_special(*std::move(ids)) : ids;
}

std::vector<token_id> tokenizer::with_special(std::vector<token_id> prompt) const {
  if (adds_bos_)
    prompt.insert(prompt.begin(), *bos_);
  return prompt;
}

result<std::vector<token_id>> tokenizer::encode_prompt(std::string_view text,
                                                       bool parses_special) const {
  encode_scratch scratch(cached_pieces_of_one_call);
  return encode_prompt(text, parses_special, /*adds_special=*/true, scratch);
}

result<std::vector<token_id>> tokenizer::encode_ranges(std::string_view text,
                                                       std::span<const text_range> trusted,
                                                       encode_scratch& scratch) const {
  if (text.size() > encode_bytes_max)
    return fail(errc::payload_too_large, "the prompt has {} bytes, more than {}", text.size(),
                encode_bytes_max);
  if (scratch.vocabulary_ != fingerprint_) {
    scratch.cache_.clear();
    scratch.vocabulary_ = fingerprint_;
  }
  std::vector<token_id> ids;
  std::size_t done = 0;
  while (done < text.size()) {
    const auto special = specials_.find(text, done, trusted);
    const std::size_t end = special ? special->where.begin : text.size();
    std::string_view ordinary = text.substr(done, end - done);
    if (special && holds(strips_left_, special->id))
      ordinary = ordinary.substr(0, ordinary.find_last_not_of(ascii_white_space) + 1);
    const auto encoded = encode_ordinary(ordinary, /*is_start=*/done == 0, scratch, ids);
    if (!encoded)
      return encoded.error();
    if (!special)
      break;
    ids.push_back(special->id);
    done = special->where.end;
    if (holds(strips_right_, special->id))
      done = std::min(text.find_first_not_of(ascii_white_space, done), text.size());
  }
  return ids;
}

result<void> tokenizer::encode_ordinary(std::string_view text, bool is_start,
                                        encode_scratch& scratch, std::vector<token_id>& ids) const {
  text_steps::outcome stepped;
  if (!text.empty() && !steps_.empty()) {
    auto made = steps_.apply(text);
    if (!made)
      return made.error();
    stepped = *std::move(made);
    text = stepped.text;
    is_start = is_start && !stepped.lost_begin; // as in Hugging Face's library
  }
  if (text.empty())
    return {};
  const bool wants_space =
      metaspace_ == leading_space::always || (metaspace_ == leading_space::first && is_start);
  const bool adds_space = wants_space && !text.starts_with(' ') && !text.starts_with(space_symbol);
  const std::string spaced = adds_space ? fmt::format(" {}", text) : std::string();
  const std::string_view used = adds_space ? spaced : text;
  return std::visit([&](const auto& e) { return e.encode(used, scratch, ids); }, encoder_);
}

std::string_view tokenizer::next_piece(token_id id, bool& is_first) const noexcept {
  std::string_view bytes = piece(id);
  if (!is_first || bytes.empty())
    return bytes;
  if (strips_space_ && bytes.starts_with(' ') && !is_control(id) &&
      tokens_.kind(id) != token_kind::byte)
    bytes.remove_prefix(1);
  is_first = strips_spaces_ && bytes.empty();
  return bytes;
}

bool tokenizer::is_control(token_id id) const noexcept {
  if (!contains(id))
    return false;
  const token_kind kind = tokens_.kind(id);
  return kind == token_kind::control || kind == token_kind::unknown;
}

bool tokenizer::is_text(token_id id) const noexcept {
  return contains(id) && !is_control(id) && tokens_.kind(id) != token_kind::unused;
}

std::optional<token_id> tokenizer::special_id(std::string_view text) const {
  const auto found = special_.find(text);
  return found == special_.end() ? std::nullopt : std::optional(found->second);
}

result<std::string> tokenizer::decode_bytes(std::span<const token_id> ids,
                                            bool skip_special) const {
  std::string bytes;
  bool is_first = true;
  for (const token_id id : ids) {
    if (!contains(id))
      return fail_param(errc::invalid_value, "tokens",
                        "the token id {} is outside the vocabulary of {}", id, size());
    if (skip_special && is_control(id))
      continue;
    bytes += next_piece(id, is_first);
  }
  return bytes;
}

result<std::string> tokenizer::decode(std::span<const token_id> ids, bool skip_special) const {
  auto bytes = decode_bytes(ids, skip_special);
  if (!bytes)
    return bytes;
  std::string text;
  text.reserve(bytes->size());
  for (std::string_view rest = *bytes; !rest.empty();) {
    const std::size_t valid = utf8_valid_prefix(rest);
    text += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty())
      break;
    text += replacement_character;
    rest.remove_prefix(utf8_at(rest, 0).length);
  }
  return text;
}

} // namespace baton::text
