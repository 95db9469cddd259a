// Golden files of tests/data/text and the small vocabulary made from them.
#pragma once

#include "runtime/text/tokenizer/tokenizer.hpp"

#include <nlohmann/json.hpp>

#include <random>
#include <string>

namespace baton::text::goldens {

// tests/data/text/<name>
nlohmann::json golden(const std::string& name);
// sentencepiece_ids.json, read once.
const nlohmann::json& sentencepiece_golden();

// All 256 bytes, 144 merges, four special tokens, a run of tabs; ids_of_* name them.
vocabulary small_vocabulary(const std::string& pre = "gpt-2");
const tokenizer& small_tokenizer();

// The vocabulary of one of the models of sentencepiece_ids.json.
vocabulary vocabulary_of(const nlohmann::json& model);
// The same by the model's name.
vocabulary sentencepiece_vocabulary(const std::string& name);

std::string from_hex(std::string_view digits);

// Random text for a seed: characters of all lengths, many spaces and letters.
std::string random_utf8(std::mt19937& random, std::size_t characters);
std::string random_bytes(std::mt19937& random, std::size_t count);

} // namespace baton::text::goldens
