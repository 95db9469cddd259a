// Bytes of protocol version 1, kept in tests/data/schema. Clients' messages (api.fbs): every later
// build must read them, value for value; a failure means that a change was not additive. Messages
// inside a cluster (wire.fbs) are only exchanged by equal builds: if a table changes its shape,
// delete its files and write them again.
// BATON_WRITE_GOLDEN=1 writes files that do not exist yet; it never replaces one.
#include "schema/codec/codec.hpp"
#include "tests/unit/schema/message_fill.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace baton;
using baton::test::bytes_of;
using baton::test::text_of;

namespace {

std::filesystem::path file_of(std::string_view name, std::string_view ending) {
  return std::filesystem::path(BATON_SOURCE_DIR) / "tests/data/schema" /
         fmt::format("{}.{}", name, ending);
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  REQUIRE_MESSAGE(in, file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_if_new(const std::filesystem::path& file, const std::string& content) {
  if (!std::filesystem::exists(file))
    std::ofstream(file, std::ios::binary) << content;
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Without the activations, which are not in the body and come last.
std::string body_values(const std::string& text) {
  const auto count = text.find(" bytes\n");
  return count == std::string::npos ? text : text.substr(0, text.rfind('\n', count) + 1);
}

// Correlation 3 << 40 and sequence 7 << 40: above 32 bits.
const envelope golden_envelope{.kind = message_kind{10},
                               .source = {1},
                               .source_incarnation = {2},
                               .target = {3},
                               .target_incarnation = {4},
                               .source_actor = {5},
                               .target_actor = {6},
                               .correlation = std::uint64_t{3} << 40,
                               .sequence = std::uint64_t{7} << 40};

} // namespace

TEST_CASE("messages kept from the first build are still read, value for value") {
  const bool write = std::getenv("BATON_WRITE_GOLDEN") != nullptr;
  for (const auto& m : test::one_of_each(2)) {
    const auto name = name_of(kind_of(m));
    CAPTURE(name);
    if (write) {
      write_if_new(file_of(name, "bin"), text_of(encode({}, m).body));
      write_if_new(file_of(name, "txt"), text_of(m));
    }
    envelope e;
    e.kind = kind_of(m);
    const auto bulk = encode({}, m).bulk;
    auto back = decode_body(e, bytes_of(content_of(file_of(name, "bin"))), bulk);
    REQUIRE_MESSAGE(back, back.error().message);
    // New fields may have been added: the old values must all be there.
    const auto now = sorted_lines(text_of(*back));
    const auto then = sorted_lines(body_values(content_of(file_of(name, "txt"))));
    std::vector<std::string> lost;
    std::set_difference(then.begin(), then.end(), now.begin(), now.end(), std::back_inserter(lost));
    CHECK_MESSAGE(lost.empty(), fmt::format("{} values, the first {}", lost.size(),
                                            lost.empty() ? "" : lost.front()));
  }
}

TEST_CASE("the envelope kept from the first build is still read") {
  if (std::getenv("BATON_WRITE_GOLDEN") != nullptr)
    write_if_new(file_of("envelope", "bin"), text_of(encode(golden_envelope, chunk{}).head));
  auto e = decode_envelope(bytes_of(content_of(file_of("envelope", "bin"))));
  REQUIRE(e);
  CHECK(*e == golden_envelope);
}

// sdk/python/tests/test_codec.py checks that Python writes this.
TEST_CASE("a request written by the Python client is read with every field") {
  envelope e;
  e.kind = kind_of(generate{});
  auto back = decode_body(e, bytes_of(content_of(file_of("python_generate", "bin"))), {});
  REQUIRE_MESSAGE(back, back.error().message);
  generate original;
  original.request = 11;
  original.model = "tiny";
  original.input = chat_prompt{{"user", "H\xc3\xa4llo", ""}};
  original.terms.choices = 2;
  original.terms.sampling = {.temperature = 0.5F,
                             .top_k = 4,
                             .seed = std::uint64_t{1} << 60,
                             .logprobs = 3,
                             .biases = {{7, -1.5F}, {8, 2.0F}}};
  original.terms.stop = {.max_tokens = 9,
                         .min_tokens = 1,
                         .ignore_eos = true,
                         .stop_ids = {5, 6},
                         .stop_texts = {"end", "stop"}};
  original.terms.max_tokens_given = true;
  original.terms.deadline = std::chrono::milliseconds{2500};
  CHECK(text_of(*back) == text_of(message{original}));
}

// sdk/python/tests/test_inference.py checks that Python writes this.
TEST_CASE("an infer written by the Python client is read with every field") {
  infer original;
  original.request = 11;
  original.model = "m";
  original.version = "2";
  original.inputs = {{"x", "BYTES", {1}, std::string("\x01\0\0\0a", 5)}};
  original.outputs = {"y"};
  original.body = "b";
  original.content_type = "c";
  original.headers = {{"h", "v"}};
  original.parameters = "{}";
  original.request_id = "r";
  original.deadline = std::chrono::milliseconds(1500);
  envelope e;
  e.kind = kind_of(original);
  auto back = decode_body(e, bytes_of(content_of(file_of("python_infer", "bin"))), {});
  REQUIRE_MESSAGE(back, back.error().message);
  CHECK(text_of(*back) == text_of(message(original)));
}
