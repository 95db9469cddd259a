// Names of parts, as llama-gguf-split and publishers write them.
#include "runtime/model/part_name.hpp"

#include <doctest/doctest.h>

using namespace baton::model;

TEST_CASE("a part's name has its number, the count and the names of the others") {
  const auto name = parse_part_name("sub/a-Q4_K_M-00002-of-00012.gguf");
  REQUIRE(name);
  CHECK(name->number == 2);
  CHECK(name->count == 12);
  CHECK(name->of(1) == "sub/a-Q4_K_M-00001-of-00012.gguf");
  CHECK(name->of(12) == "sub/a-Q4_K_M-00012-of-00012.gguf");
  CHECK(without_part_number("sub/a-Q4_K_M-00002-of-00012.gguf") == "sub/a-Q4_K_M.gguf");
  CHECK(parse_part_name("a-1-of-2.gguf")->of(2) == "a-2-of-2.gguf");
}

TEST_CASE("other names are no parts") {
  for (const auto* text :
       {"a.gguf", "a-00001-of-00002.bin", "a-00001-of-00002", "-of-00002.gguf",
        "a-00003-of-00002.gguf", "a-00000-of-00002.gguf", "a-00001-of-00001.gguf",
        "a-1-of-00002.gguf", "a-000001-of-000002.gguf", "a00001-of-00002.gguf",
        "a-00001-of-99999.gguf", "a-00001-of-.gguf", "00001-of-00002.gguf", ""}) {
    CAPTURE(text);
    CHECK_FALSE(parse_part_name(text));
    CHECK(without_part_number(text) == text);
  }
}
