// The map between bytes and GPT-2's characters.
#include "runtime/text/unicode/byte_alphabet.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace baton::text;

TEST_CASE("every byte has its own character and is restored from it") {
  std::set<std::string> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = alphabet_text_of(static_cast<unsigned char>(byte));
    CHECK(utf8_valid_prefix(character) == character.size());
    CHECK(seen.insert(character).second);
    CHECK(bytes_of_alphabet_text(character) == std::string(1, static_cast<char>(byte)));
  }
}

TEST_CASE("the alphabet is GPT-2's") {
  CHECK(alphabet_text_of(' ') == "Ġ");
  CHECK(alphabet_text_of('\n') == "Ċ");
  CHECK(alphabet_text_of(0x7F) == "ġ");
  CHECK(alphabet_text_of(0xAD) == "Ń");
  CHECK(alphabet_text_of(0xC3) == "Ã");
  CHECK(bytes_of_alphabet_text("ĠcafÃ©") == " caf\xC3\xA9");
  CHECK(bytes_of_alphabet_text("") == "");
}

TEST_CASE("text outside the alphabet stands for no bytes") {
  for (const char* text : {" ", "\n", "a b", "\u00AD", "\u0144", "中", "😀", "\xFF", "a\xC3"})
    CHECK_MESSAGE(bytes_of_alphabet_text(text) == std::nullopt, text);
}
