// Reads the text steps of tokenizer.json: normalizer, pre_tokenizer, post_processor and decoder.
// Each step is either supported or refused by name.
#include "runtime/text/bpe/sentencepiece_text.hpp"
#include "runtime/text/bpe/vocabulary_checkpoint.hpp"
#include "runtime/text/pre_tokenizers/pre_tokenizer.hpp"
#include "runtime/text/unicode/base64.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace baton::text {

namespace {

using model::flag_of;
using model::json;
using model::member_of;
using model::text_of;

using steps = std::vector<const json*>;

// Flattens a part of the file: nothing, one step, or a sequence of steps.
void append_steps(const json* node, steps& out) {
  constexpr std::array<std::string_view, 4> lists = {"normalizers", "pretokenizers", "processors",
                                                     "decoders"};
  if (node == nullptr)
    return;
  if (text_of(*node, "type") != "Sequence") {
    out.push_back(node);
    return;
  }
  for (const auto name : lists)
    if (const auto* list = member_of(*node, name); list != nullptr && list->is_array())
      for (const auto& each : *list)
        append_steps(&each, out);
}

steps steps_of(const json& tokenizer, std::string_view part) {
  steps found;
  append_steps(member_of(tokenizer, part), found);
  return found;
}

error refused(std::string_view part, const json& step, std::string_view why = "") {
  return fail(errc::unsupported_model, "tokenizer.json: {} '{}'{}{} is not computed by this build",
              part, text_of(step, "type"), why.empty() ? "" : " with ", why);
}

// The pattern of a Split or a Replace, if it has that kind ("String", "Regex").
std::string pattern_of(const json& step, std::string_view kind) {
  const auto* pattern = member_of(step, "pattern");
  return pattern != nullptr ? text_of(*pattern, kind) : std::string();
}

bool replaces(const json& step, std::string_view from, std::string_view to) {
  return text_of(step, "type") == "Replace" && pattern_of(step, "String") == from &&
         text_of(step, "content") == to;
}

// -- The normalizer

constexpr std::size_t json_replacement_bytes_max = 16; // limits how much a text can grow

result<text_step> read_replacement(const json& step) {
  const auto literal = pattern_of(step, "String");
  const auto pattern = pattern_of(step, "Regex");
  const auto to = text_of(step, "content");
  if (to.size() > json_replacement_bytes_max)
    return refused("normalizer", step, fmt::format("content '{}'", to));
  if (!literal.empty())
    return text_step{text_step::kind::replace, literal, to};
  if (pattern == " {2,}") // how converters of SentencePiece models join spaces
    return text_step{text_step::kind::join_spaces, {}, to};
  return refused("normalizer", step, fmt::format("pattern '{}'", pattern));
}

result<void> read_text_step(const json& step, std::vector<text_step>& out) {
  using kind = text_step::kind;
  constexpr std::array<std::pair<std::string_view, kind>, 5> forms = {
      {{"NFC", kind::nfc},
       {"NFD", kind::nfd},
       {"NFKC", kind::nfkc},
       {"NFKD", kind::nfkd},
       {"Lowercase", kind::lower_case}}};
  const auto type = text_of(step, "type");
  for (const auto& [name, form] : forms)
    if (type == name) {
      out.push_back({form, {}, {}});
      return {};
    }
  if (type == "Replace") {
    auto made = read_replacement(step);
    if (!made)
      return made.error();
    out.push_back(*std::move(made));
  } else if (type == "Prepend") {
    const auto text = text_of(step, "prepend");
    if (text.size() > json_replacement_bytes_max)
      return refused("normalizer", step, fmt::format("'{}'", text));
    out.push_back({kind::prepend, {}, text});
  } else if (type == "Strip") {
    if (flag_of(step, "strip_left", true))
      out.push_back({kind::strip_left, {}, {}});
    if (flag_of(step, "strip_right", true))
      out.push_back({kind::strip_right, {}, {}});
  } else if (type == "Precompiled") {
    auto map = bytes_of_base64(text_of(step, "precompiled_charsmap"));
    if (!map)
      return fail(errc::bad_model_file, "tokenizer.json: precompiled_charsmap is not base64");
    out.push_back({kind::character_map, *std::move(map), {}});
  } else {
    return refused("normalizer", step);
  }
  return {};
}

result<void> read_normalizer(const json& tokenizer, vocabulary& vocab) {
  for (const auto* step : steps_of(tokenizer, "normalizer"))
    if (auto read = read_text_step(*step, vocab.steps); !read)
      return read;
  return {};
}

// -- Byte-level BPE

// GPT-2's own pattern, which ByteLevel has built in.
std::string_view byte_level_pattern() {
  for (const auto& family : pre_tokenizer_families())
    if (std::find(family.names.begin(), family.names.end(), "gpt-2") != family.names.end())
      return family.patterns.front();
  return {};
}

// The patterns that split the text, in order.
result<std::vector<std::string>> patterns_of(const steps& list) {
  std::vector<std::string> patterns;
  for (const auto* step : list) {
    const auto type = text_of(*step, "type");
    if (type == "ByteLevel") {
      if (flag_of(*step, "add_prefix_space", true))
        return refused("pre_tokenizer", *step, "add_prefix_space");
      if (flag_of(*step, "use_regex", true))
        patterns.emplace_back(byte_level_pattern());
    } else if (type == "Digits") {
      patterns.emplace_back(flag_of(*step, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
    } else if (type == "Split") {
      const auto pattern = pattern_of(*step, "Regex");
      const auto behavior = text_of(*step, "behavior");
      const bool inverts = flag_of(*step, "invert", false);
      // The known patterns match every character, so keeping only matches loses nothing.
      const bool keeps_matches = behavior == "Removed" && inverts;
      if (pattern.empty() || (!keeps_matches && (behavior != "Isolated" || inverts)))
        return refused("pre_tokenizer", *step, fmt::format("behavior {}", behavior));
      patterns.push_back(pattern);
    } else {
      return refused("pre_tokenizer", *step);
    }
  }
  return patterns;
}

result<void> read_byte_level(const json& tokenizer, vocabulary& vocab) {
  const auto patterns = patterns_of(steps_of(tokenizer, "pre_tokenizer"));
  if (!patterns)
    return patterns.error();
  const auto* model = member_of(tokenizer, "model");
  const bool whole_words_first = model != nullptr && flag_of(*model, "ignore_merges", false);
  for (const auto& family : pre_tokenizer_families())
    if (family.whole_words_first == whole_words_first &&
        std::equal(patterns->begin(), patterns->end(), family.patterns.begin(),
                   family.patterns.end())) {
      vocab.pre = family.names.front();
      break;
    }
  if (vocab.pre.empty())
    return fail(errc::unsupported_model,
                "tokenizer.json: the pre_tokenizer's patterns [{}] (ignore_merges: {}) are not "
                "known to this build",
                fmt::join(*patterns, ", "), whole_words_first);
  for (const auto* step : steps_of(tokenizer, "decoder"))
    if (text_of(*step, "type") != "ByteLevel")
      return refused("decoder", *step);
  return {};
}

// -- Converted SentencePiece models

// Metaspace: spaces become U+2581, one may be put before a text, and each may begin a piece.
result<void> read_metaspace(const json& step, bool after_words, vocabulary& vocab) {
  if (text_of(step, "replacement") != space_symbol)
    return refused("pre_tokenizer", step,
                   fmt::format("replacement '{}'", text_of(step, "replacement")));
  const auto scheme =
      text_of(step, "prepend_scheme", flag_of(step, "add_prefix_space", true) ? "always" : "never");
  constexpr std::array<std::pair<std::string_view, leading_space>, 3> schemes = {
      {{"never", leading_space::never},
       {"first", leading_space::first},
       {"always", leading_space::always}}};
  const auto* known = std::find_if(schemes.begin(), schemes.end(),
                                   [&](const auto& each) { return each.first == scheme; });
  // Words without their own mark would run into each other.
  if (known == schemes.end() || (after_words && scheme != "always"))
    return refused("pre_tokenizer", step, fmt::format("prepend_scheme {}", scheme));
  vocab.metaspace = known->second;
  vocab.splits_at_spaces = after_words || flag_of(step, "split", true);
  return {};
}

// Whether a Replace or a Metaspace turns spaces into U+2581.
result<bool> read_spaces(const json& tokenizer, vocabulary& vocab) {
  const text_step by_symbol{text_step::kind::replace, " ", std::string(space_symbol)};
  bool replaces_spaces =
      std::find(vocab.steps.begin(), vocab.steps.end(), by_symbol) != vocab.steps.end();
  const auto list = steps_of(tokenizer, "pre_tokenizer");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json& step = *list[i];
    const auto type = text_of(step, "type");
    if (type == "Split" && replaces_spaces && pattern_of(step, "String") == " ")
      continue; // no spaces are left
    const bool is_last = i + 1 == list.size();
    const bool before_metaspace = !is_last && text_of(*list[i + 1], "type") == "Metaspace";
    if (type == "WhitespaceSplit" && i == 0 && before_metaspace) {
      vocab.steps.push_back({text_step::kind::words, {}, {}});
      continue;
    }
    if (type != "Metaspace" || !is_last)
      return refused("pre_tokenizer", step);
    const bool after_words =
        !vocab.steps.empty() && vocab.steps.back().what == text_step::kind::words;
    if (auto read = read_metaspace(step, after_words, vocab); !read)
      return read.error();
    replaces_spaces = true;
  }
  return replaces_spaces;
}

// A leading space of an answer may be dropped; any other reversal works for every token.
result<void> read_decoder(const json& tokenizer, vocabulary& vocab) {
  for (const auto* step : steps_of(tokenizer, "decoder")) {
    const auto type = text_of(*step, "type");
    if (type == "Metaspace") {
      const auto scheme = text_of(*step, "prepend_scheme",
                                  flag_of(*step, "add_prefix_space", true) ? "always" : "never");
      vocab.drops_first_space = vocab.drops_first_space || scheme != "never";
    } else if (type == "Strip") {
      const auto* start = member_of(*step, "start");
      const auto* stop = member_of(*step, "stop");
      // NOLINTNEXTLINE(misc-redundant-expression): 0 and 1 differ
      const bool is_start_known = start != nullptr && (*start == 0 || *start == 1);
      const bool is_known =
          text_of(*step, "content") == " " && is_start_known && stop != nullptr && *stop == 0;
      if (!is_known)
        return refused("decoder", *step, "other than content ' ', start 0 or 1, stop 0");
      vocab.drops_first_space = vocab.drops_first_space || *start == 1;
    } else if (type != "ByteFallback" && type != "Fuse" && !replaces(*step, space_symbol, " ")) {
      return refused("decoder", *step);
    }
  }
  return {};
}

result<void> read_converted(const json& tokenizer, vocabulary& vocab) {
  vocab.add_space_prefix = false; // if present, it is a step
  vocab.finds_added_tokens_first = true;
  const auto replaced = read_spaces(tokenizer, vocab);
  if (!replaced)
    return replaced.error();
  if (!*replaced)
    return fail(errc::unsupported_model,
                "tokenizer.json: no step replaces spaces, and none is a ByteLevel");
  return read_decoder(tokenizer, vocab);
}

// -- All models

// The tokens put around a text: BOS or nothing.
result<void> read_template(const json& step, vocabulary& vocab) {
  const auto* list = member_of(step, "single");
  bool is_after_text = false;
  for (const auto& item : list != nullptr ? *list : json::array()) {
    if (member_of(item, "Sequence") != nullptr) {
      is_after_text = true;
      continue;
    }
    const auto* token = member_of(item, "SpecialToken");
    const auto text = token != nullptr ? text_of(*token, "id") : std::string();
    if (is_after_text || vocab.bos)
      return refused("post_processor", step, fmt::format("'{}'", text));
    const auto id = id_of_token(vocab, text, "tokenizer.json: post_processor");
    if (!id)
      return id.error();
    vocab.bos = *id;
    vocab.add_bos = true;
  }
  return {};
}

} // namespace

bool is_byte_level(const json& tokenizer) {
  const auto list = steps_of(tokenizer, "pre_tokenizer");
  return std::any_of(list.begin(), list.end(),
                     [](const json* step) { return text_of(*step, "type") == "ByteLevel"; });
}

result<void> read_text_steps(const json& tokenizer, vocabulary& vocab) {
  if (auto read = read_normalizer(tokenizer, vocab); !read)
    return read;
  const auto read = is_sentencepiece(vocab) ? read_converted(tokenizer, vocab)
                                            : read_byte_level(tokenizer, vocab);
  if (!read)
    return read;
  vocab.add_bos = false;
  for (const auto* step : steps_of(tokenizer, "post_processor")) {
    const auto type = text_of(*step, "type");
    if (type == "TemplateProcessing") {
      if (auto r = read_template(*step, vocab); !r)
        return r;
    } else if (type != "ByteLevel") {
      return refused("post_processor", *step);
    }
  }
  return {};
}

} // namespace baton::text
