// docs/reference/protocol.md lists every message kind and every error with the numbers of the code.
#include "schema/codec/codec.hpp"
#include "tests/unit/schema/message_fill.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

using namespace baton;

namespace {

std::string protocol_page() {
  std::ifstream in(BATON_SOURCE_DIR "/docs/reference/protocol.md");
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool has(const std::string& page, const std::string& text) {
  return page.find(text) != page.npos;
}

} // namespace

TEST_CASE("docs/reference/protocol.md has a row for every message, with its number and whether it "
          "is data") {
  const auto page = protocol_page();
  for (const auto& m : test::one_of_each()) {
    const auto row = fmt::format("| {} | `{}` |", m.index() + 1, name_of(kind_of(m)));
    CHECK_MESSAGE(has(page, row), row);
    const auto begin = page.find(row);
    if (begin == page.npos)
      continue;
    const auto line = page.substr(begin, page.find('\n', begin) - begin);
    CHECK_MESSAGE(has(line, needs_credit(kind_of(m)) ? "| data |" : "| control |"), line);
  }
}

TEST_CASE("docs/reference/protocol.md has a row for every error, equal to the error table") {
  const auto page = protocol_page();
  for (const auto& row : errc_table()) {
    const auto text = fmt::format("| {} | `{}` | {} | {} |", static_cast<int>(row.code), row.name,
                                  row.http_status, row.retryable ? "yes" : "no");
    CHECK_MESSAGE(has(page, text), text);
  }
}
