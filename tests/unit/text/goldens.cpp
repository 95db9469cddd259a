// Reads tests/data/text; see goldens.hpp.
#include "tests/unit/text/goldens.hpp"

#include <array>
#include <fstream>

namespace baton::text::goldens {

nlohmann::json golden(const std::string& name) {
  std::ifstream file(std::string(BATON_SOURCE_DIR) + "/tests/data/text/" + name);
  return nlohmann::json::parse(file);
}

vocabulary small_vocabulary(const std::string& pre) {
  const auto data = golden("small_vocabulary.json");
  vocabulary words;
  words.model = "gpt2";
  words.pre = pre;
  words.tokens = data["tokens"].get<std::vector<std::string>>();
  for (const int kind : data["kinds"])
    words.kinds.push_back(static_cast<token_kind>(kind));
  words.merges = data["merges"].get<std::vector<std::string>>();
  return words;
}

const tokenizer& small_tokenizer() {
  static const tokenizer made = tokenizer::create(small_vocabulary()).value();
  return made;
}

const nlohmann::json& sentencepiece_golden() {
  static const nlohmann::json data = golden("sentencepiece_ids.json");
  return data;
}

vocabulary vocabulary_of(const nlohmann::json& model) {
  const auto& tables =
      sentencepiece_golden()["vocabularies"][model["vocabulary"].get<std::string>()];
  vocabulary words;
  words.model = model["model"].get<std::string>();
  words.tokens = tables["tokens"].get<std::vector<std::string>>();
  const auto scores = tables["scores"].get<std::vector<float>>(); // as GGUF has them
  words.scores.assign(scores.begin(), scores.end());
  for (const int kind : tables["kinds"])
    words.kinds.push_back(static_cast<token_kind>(kind));
  words.add_space_prefix = model["add_space_prefix"].get<bool>();
  words.remove_extra_whitespaces = model["remove_extra_whitespaces"].get<bool>();
  words.character_map = from_hex(model["character_map"].get<std::string>());
  words.unknown = 0;
  words.bos = 1;
  words.eos = 2;
  return words;
}

vocabulary sentencepiece_vocabulary(const std::string& name) {
  for (const auto& model : sentencepiece_golden()["models"])
    if (model["name"] == name)
      return vocabulary_of(model);
  return {};
}

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < digits.size(); at += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(at, 2)), nullptr, 16));
  return bytes;
}

std::string random_utf8(std::mt19937& random, std::size_t characters) {
  constexpr std::array<std::pair<unsigned, unsigned>, 8> ranges = {{
      {0x20, 0x7E},
      {'a', 'e'},
      {0x20, 0x20},
      {0x00, 0x1F},
      {0x80, 0x7FF},
      {0x800, 0xD7FF},
      {0xE000, 0xFFFF},
      {0x10000, 0x10FFFF},
  }};
  std::string text;
  for (std::size_t i = 0; i < characters; ++i) {
    const auto [low, high] = ranges[random() % ranges.size()];
    const unsigned code = low + static_cast<unsigned>(random() % (high - low + 1));
    const auto tail = [&](unsigned shift) {
      text += static_cast<char>(0x80U | ((code >> shift) & 0x3FU));
    };
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xC0U | (code >> 6U));
      tail(0);
    } else if (code < 0x10000) {
      text += static_cast<char>(0xE0U | (code >> 12U));
      tail(6);
      tail(0);
    } else {
      text += static_cast<char>(0xF0U | (code >> 18U));
      tail(12);
      tail(6);
      tail(0);
    }
  }
  return text;
}

std::string random_bytes(std::mt19937& random, std::size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes)
    byte = static_cast<char>(random() & 0xFFU);
  return bytes;
}

} // namespace baton::text::goldens
