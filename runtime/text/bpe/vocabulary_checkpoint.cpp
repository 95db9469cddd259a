// Reads tokens and merges from tokenizer.json, and settings from the files beside it.
#include "runtime/text/bpe/vocabulary_checkpoint.hpp"

#include "runtime/model/mapped_file.hpp"
#include "runtime/text/bpe/token_table.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

namespace baton::text {

namespace {

using model::flag_of;
using model::json;
using model::member_of;
using model::text_of;

// Reads the parts of tokenizer.json that are tables.
class table_reader {
public:
  table_reader(const json& tokenizer, std::optional<std::size_t> id_end, vocabulary& vocab)
      : tokenizer_(tokenizer), id_end_(id_end), vocab_(vocab) {}

  result<void> read() {
    const auto* found = member_of(tokenizer_, "model");
    if (found == nullptr || !found->is_object())
      return fail(errc::bad_model_file, "tokenizer.json has no model");
    model_ = found;
    // Files of old versions have no type.
    const auto type = text_of(*model_, "type", model_->contains("merges") ? "BPE" : "");
    if (type != "BPE" && type != "Unigram")
      return fail(errc::unsupported_model,
                  "tokenizer.json: model '{}': this build reads BPE and Unigram", type);
    using step = result<void> (table_reader::*)();
    const std::array<step, 4> bpe = {&table_reader::check_bpe, &table_reader::read_tokens,
                                     &table_reader::read_added_tokens, &table_reader::read_merges};
    const std::array<step, 4> unigram = {
        &table_reader::check_unigram, &table_reader::read_scored_tokens,
        &table_reader::read_added_tokens, &table_reader::read_unknown_id};
    for (const step each : type == "BPE" ? bpe : unigram)
      if (auto r = (this->*each)(); !r)
        return r;
    if (id_end_ && vocab_.tokens.size() < *id_end_) {
      vocab_.tokens.resize(*id_end_); // padding of the embedding
      vocab_.kinds.resize(*id_end_, token_kind::unused);
    }
    if (type == "Unigram")
      vocab_.scores.resize(vocab_.tokens.size()); // added tokens need no score
    if (const auto text = text_of(*model_, "unk_token"); !text.empty()) {
      const auto id = id_of_token(vocab_, text, "tokenizer.json: unk_token");
      if (!id)
        return id.error();
      vocab_.unknown = *id;
      if (is_sentencepiece(vocab_)) // in GPT-2 models it is their end of text, a control token
        vocab_.kinds[static_cast<std::size_t>(*id)] = token_kind::unknown;
    }
    return {};
  }

private:
  result<void> check_bpe();
  result<void> check_unigram();
  result<void> read_tokens();
  result<void> read_scored_tokens();
  result<void> read_unknown_id();
  result<void> read_added_tokens();
  result<void> read_merges();
  result<std::string*> slot_of(const json& id, token_kind kind);
  token_kind kind_of(std::string_view text) const;

  const json& tokenizer_;
  std::optional<std::size_t> id_end_;
  vocabulary& vocab_;
  const json* model_ = nullptr;
};

result<void> table_reader::check_unigram() {
  if (is_byte_level(tokenizer_))
    return fail(errc::unsupported_model, "tokenizer.json: a Unigram model with ByteLevel");
  vocab_.model = "t5";
  vocab_.sums_as_double = true;
  return {};
}

result<void> table_reader::check_bpe() {
  const auto* dropout = member_of(*model_, "dropout");
  if (dropout != nullptr && *dropout != 0.0)
    return fail(errc::unsupported_model, "tokenizer.json: a model with dropout");
  for (const auto* field : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto text = text_of(*model_, field); !text.empty())
      return fail(errc::unsupported_model, "tokenizer.json: {} '{}'", field, text);
  vocab_.model = is_byte_level(tokenizer_) ? "gpt2" : "llama";
  const bool falls_back = flag_of(*model_, "byte_fallback", false);
  if (vocab_.model == "gpt2" && falls_back)
    return fail(errc::unsupported_model, "tokenizer.json: byte_fallback in a byte-level model");
  if (vocab_.model == "llama" && !falls_back && !flag_of(*model_, "fuse_unk", false))
    return fail(errc::unsupported_model, "tokenizer.json: neither byte_fallback nor fuse_unk");
  if (vocab_.model == "llama" && flag_of(*model_, "ignore_merges", false))
    return fail(errc::unsupported_model, "tokenizer.json: ignore_merges without ByteLevel");
  return {};
}

token_kind table_reader::kind_of(std::string_view text) const {
  const bool has_bytes = flag_of(*model_, "byte_fallback", false);
  return has_bytes && byte_of_notation(text) ? token_kind::byte : token_kind::normal;
}

// The slot for a new token's text; null if it has no row in the model.
result<std::string*> table_reader::slot_of(const json& id, token_kind kind) {
  if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocabulary_limits::tokens_max)
    return fail(errc::bad_model_file, "tokenizer.json: a token's id is not a number below {}",
                vocabulary_limits::tokens_max);
  const auto at = static_cast<std::size_t>(id.get<std::uint64_t>());
  if (id_end_ && at >= *id_end_) {
    if (!is_ordinary(kind))
      return nullptr;
    return fail(errc::bad_model_file, "tokenizer.json: token {} has no row in an embedding of {}",
                at, *id_end_);
  }
  if (at >= vocab_.tokens.size()) {
    vocab_.tokens.resize(at + 1);
    vocab_.kinds.resize(at + 1, token_kind::unused);
  }
  if (is_ordinary(kind) && vocab_.kinds[at] != token_kind::unused)
    return fail(errc::bad_model_file, "tokenizer.json: two tokens have the id {}", at);
  vocab_.kinds[at] = kind;
  return &vocab_.tokens[at];
}

result<void> table_reader::read_tokens() {
  const auto* table = member_of(*model_, "vocab");
  if (table == nullptr || !table->is_object())
    return fail(errc::bad_model_file, "tokenizer.json: the model has no vocab");
  for (const auto& [text, id] : table->items()) {
    const auto at = slot_of(id, kind_of(text));
    if (!at)
      return at.error();
    **at = text;
  }
  return {};
}

// [text, score], by id.
result<void> table_reader::read_scored_tokens() {
  const auto* table = member_of(*model_, "vocab");
  if (table == nullptr || !table->is_array())
    return fail(errc::bad_model_file, "tokenizer.json: the Unigram model's vocab is not a list");
  for (std::size_t id = 0; id < table->size(); ++id) {
    const json& row = (*table)[id];
    if (!row.is_array() || row.size() != 2 || !row[0].is_string() || !row[1].is_number())
      return fail(errc::bad_model_file, "tokenizer.json: token {} is not a text with a score", id);
    const auto text = row[0].get<std::string>();
    const auto at = slot_of(id, kind_of(text));
    if (!at)
      return at.error();
    **at = text;
    vocab_.scores.push_back(row[1].get<double>());
  }
  return {};
}

result<void> table_reader::read_unknown_id() {
  const auto* id = member_of(*model_, "unk_id");
  if (id == nullptr)
    return {};
  if (!id->is_number_unsigned() || id->get<std::uint64_t>() >= vocab_.tokens.size())
    return fail(errc::bad_model_file, "tokenizer.json: unk_id is outside the vocabulary of {}",
                vocab_.tokens.size());
  vocab_.unknown = id->get<token_id>();
  vocab_.kinds[static_cast<std::size_t>(*vocab_.unknown)] = token_kind::unknown;
  return {};
}

// Tokens added to the model's own, and the model's own that are matched whole.
result<void> table_reader::read_added_tokens() {
  const auto* list = member_of(tokenizer_, "added_tokens");
  for (const auto& token : list != nullptr ? *list : json::array()) {
    const auto text = text_of(token, "content");
    const auto* id = member_of(token, "id");
    if (text.empty() || id == nullptr)
      return fail(errc::bad_model_file, "tokenizer.json: an added token has no content or no id");
    if (flag_of(token, "single_word", false))
      return fail(errc::unsupported_model, "tokenizer.json: added token '{}' with single_word",
                  text);
    const bool is_special = flag_of(token, "special", false);
    const auto at = slot_of(*id, is_special ? token_kind::control : token_kind::user_defined);
    if (!at)
      return at.error();
    if (*at == nullptr)
      continue;
    if (!(*at)->empty() && **at != text)
      return fail(errc::bad_model_file, "tokenizer.json: added token '{}' has the id of '{}'", text,
                  **at);
    **at = text;
    const auto number = id->get<token_id>();
    if (flag_of(token, "lstrip", false))
      vocab_.strips_left.push_back(number);
    if (flag_of(token, "rstrip", false))
      vocab_.strips_right.push_back(number);
  }
  return {};
}

// "left right", or a list of the two.
result<void> table_reader::read_merges() {
  const auto* list = member_of(*model_, "merges");
  if (list == nullptr || !list->is_array())
    return fail(errc::bad_model_file, "tokenizer.json: the model has no merges");
  if (list->size() > vocabulary_limits::merges_max)
    return fail(errc::bad_model_file, "tokenizer.json: {} merges, more than {}", list->size(),
                vocabulary_limits::merges_max);
  for (const auto& merge : *list) {
    const bool is_pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    const auto line = is_pair ? merge[0].get<std::string>() + ' ' + merge[1].get<std::string>()
                      : merge.is_string() ? merge.get<std::string>()
                                          : std::string();
    if (std::count(line.begin(), line.end(), ' ') != 1)
      return fail(errc::bad_model_file, "tokenizer.json: merge {} is not a pair of tokens: '{}'",
                  vocab_.merges.size(), line);
    vocab_.merges.push_back(line);
  }
  return {};
}

// Returns an empty object if there is no such file.
result<json> read_if_there(const std::filesystem::path& path) {
  return model::is_there(path) ? model::read_json_object(path) : result<json>(json::object());
}

// The text of a token, given as a string or an object.
std::string token_text(const json& config, std::string_view name) {
  const auto* value = member_of(config, name);
  if (value == nullptr)
    return {};
  return value->is_string() ? value->get<std::string>() : text_of(*value, "content");
}

result<void> read_named_tokens(const json& config, vocabulary& vocab) {
  const std::array<std::pair<std::string_view, std::optional<token_id>*>, 3> names = {{
      {"bos_token", &vocab.bos},
      {"eos_token", &vocab.eos},
      {"pad_token", &vocab.padding},
  }};
  for (const auto& [name, target] : names) {
    const auto text = token_text(config, name);
    if (text.empty())
      continue;
    const auto id = id_of_token(vocab, text, fmt::format("tokenizer_config.json: {}", name));
    if (!id && name != "pad_token") // no padding is used here
      return id.error();
    if (id)
      *target = *id;
  }
  for (const char* name : {"unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (auto text = token_text(config, name); !text.empty())
      vocab.named_tokens.emplace_back(name, std::move(text));
  if (const auto* adds = member_of(config, "add_bos_token"); adds != nullptr && adds->is_boolean())
    vocab.add_bos = adds->get<bool>();
  return {};
}

// Ids that end an answer: a number or a list.
result<void> read_end_ids(const json& config, std::string_view origin, vocabulary& vocab) {
  const auto* value = member_of(config, "eos_token_id");
  if (value == nullptr)
    return {};
  const json list = value->is_array() ? *value : json::array({*value});
  for (const auto& id : list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocab.tokens.size())
      return fail(errc::bad_model_file, "{}: eos_token_id is outside the vocabulary of {}", origin,
                  vocab.tokens.size());
    vocab.ends.push_back(id.get<token_id>());
  }
  if (!vocab.eos && !vocab.ends.empty())
    vocab.eos = vocab.ends.front();
  return {};
}

result<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(vocabulary_limits::chat_template_bytes_max + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.is_open())
    return fail(errc::io_failed, "{}: cannot be read", path.string());
  text.resize(static_cast<std::size_t>(in.gcount())); // validate() refuses a text that is too long
  return text;
}

// The chat template: a file of its own, a text, or one of several named texts.
result<void> read_chat_template(const std::filesystem::path& directory, const json& config,
                                vocabulary& vocab) {
  if (const auto path = directory / "chat_template.jinja"; model::is_there(path)) {
    auto text = read_text(path);
    if (!text)
      return text.error();
    vocab.chat_template = *std::move(text);
    return {};
  }
  const auto* value = member_of(config, "chat_template");
  if (value == nullptr || value->is_null())
    return {};
  std::string names;
  for (const auto& each : value->is_array() ? *value : json::array()) {
    const auto name = text_of(each, "name");
    if (name == "default")
      vocab.chat_template = text_of(each, "template");
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
  }
  if (value->is_string())
    vocab.chat_template = value->get<std::string>();
  else if (vocab.chat_template.empty())
    vocab.chat_template_failure =
        fmt::format("tokenizer_config.json: 'chat_template' has {}, and no text named 'default'",
                    names.empty() ? "no template" : names);
  return {};
}

} // namespace

result<token_id> id_of_token(const vocabulary& vocab, std::string_view text,
                             std::string_view what) {
  const auto found = std::find(vocab.tokens.begin(), vocab.tokens.end(), text);
  if (found == vocab.tokens.end())
    return fail(errc::bad_model_file, "{} '{}' is not a token", what, text);
  return static_cast<token_id>(found - vocab.tokens.begin());
}

result<vocabulary> vocabulary_from_json(const json& tokenizer, std::optional<std::size_t> id_end) {
  vocabulary vocab;
  if (auto r = table_reader(tokenizer, id_end, vocab).read(); !r)
    return r.error();
  if (auto r = read_text_steps(tokenizer, vocab); !r)
    return r.error();
  if (auto valid = validate(vocab); !valid)
    return valid.error();
  return vocab;
}

result<vocabulary> vocabulary_from_directory(const std::filesystem::path& directory) {
  const auto in_directory = [&directory](const error& e) {
    return fail(e.code, "{}: {}", directory.string(), e.message);
  };
  const auto tokenizer = model::read_json_object(directory / "tokenizer.json");
  if (!tokenizer)
    return tokenizer.error();
  std::array<json, 3> others;
  constexpr std::array names = {"config.json", "tokenizer_config.json", "generation_config.json"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto read = read_if_there(directory / names[i]);
    if (!read)
      return read.error();
    others[i] = *std::move(read);
  }
  const auto& [config, settings, generation] = others;
  std::optional<std::size_t> rows;
  if (const auto* size = member_of(config, "vocab_size");
      size != nullptr && size->is_number_unsigned() &&
      size->get<std::uint64_t>() <= vocabulary_limits::tokens_max)
    rows = size->get<std::size_t>();
  auto vocab = vocabulary_from_json(*tokenizer, rows);
  if (!vocab)
    return in_directory(vocab.error());
  if (auto r = read_named_tokens(settings, *vocab); !r)
    return in_directory(r.error());
  const bool generates = member_of(generation, "eos_token_id") != nullptr;
  if (auto r = read_end_ids(generates ? generation : config, names[generates ? 2 : 0], *vocab); !r)
    return in_directory(r.error());
  if (auto r = read_chat_template(directory, settings, *vocab); !r)
    return r.error();
  if (auto valid = validate(*vocab); !valid)
    return in_directory(valid.error());
  return vocab;
}

} // namespace baton::text
