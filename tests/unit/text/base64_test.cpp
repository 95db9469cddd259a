// Base64 against the vectors of RFC 4648, and invalid texts.
#include "runtime/text/unicode/base64.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace baton::text;

TEST_CASE("valid base64 is decoded, anything else is rejected") {
  CHECK(bytes_of_base64("") == "");
  CHECK(bytes_of_base64("Zg==") == "f");
  CHECK(bytes_of_base64("Zm8=") == "fo");
  CHECK(bytes_of_base64("Zm9vYmFy") == "foobar");
  CHECK(bytes_of_base64("+/8A") == std::string("\xFB\xFF\x00", 3));
  for (const auto* text : {"Zg", "Zg=", "Z===", "====", "Zm9v\n", "Z*9v", "=m9v", "Zg==Zg=="})
    CHECK(!bytes_of_base64(text));
}

TEST_CASE("bytes are encoded as in RFC 4648, and decoded again") {
  for (const auto& [bytes, text] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"},
                                                        {std::string("\xff\0\xfe", 3), "/wD+"}}) {
    CHECK(base64_of(bytes) == text);
    CHECK(bytes_of_base64(text) == bytes);
  }
}
