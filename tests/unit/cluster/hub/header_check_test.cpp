// The check of a model by the first bytes of its file.
#include "cluster/hub/header_check.hpp"
#include "tests/support/gguf_writer.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

namespace {

result<void> checked(const testing::gguf_writer& writer, std::size_t there = 1u << 20) {
  const auto all = writer.bytes();
  const std::span text(reinterpret_cast<const char*>(all.data()), std::min(there, all.size()));
  return check_header_bytes(text, all.size());
}

} // namespace

TEST_CASE("a model that runs is recognised by the beginning of its file") {
  const auto writer = testing::tiny_llama_writer({});
  REQUIRE(writer);
  CHECK(checked(*writer));
  CHECK(checked(*writer, 32 << 10)); // without most of its tensors' bytes
  CHECK(checked(*writer, 1000).error().code == errc::not_ready);
}

TEST_CASE("an architecture and a type of tensors that do not run are named") {
  auto writer = testing::tiny_llama_writer({});
  REQUIRE(writer);
  auto other = *writer;
  other.set_string("general.architecture", "mamba");
  const auto architecture = checked(other);
  REQUIRE_FALSE(architecture);
  CHECK(architecture.error().code == errc::unsupported_model);
  CHECK(architecture.error().message.starts_with("architecture 'mamba'"));
  constexpr std::uint32_t i8 = 24;
  writer->erase_tensor("blk.1.ffn_up.weight");
  writer->add_tensor_bytes("blk.1.ffn_up.weight", i8, {64, 128}, std::vector<std::byte>(64 * 128));
  const auto type = checked(*writer);
  REQUIRE_FALSE(type);
  CHECK(type.error().code == errc::unsupported_model);
  CHECK(type.error().message.find("blk.1.ffn_up.weight' is I8") != std::string::npos);
}

TEST_CASE("a kind of tokenizer that does not run is named") {
  auto writer = testing::tiny_llama_writer({});
  REQUIRE(writer);
  writer->set_string("tokenizer.ggml.model", "bert");
  const auto tokenizer = checked(*writer);
  REQUIRE_FALSE(tokenizer);
  CHECK(tokenizer.error().code == errc::unsupported_model);
  CHECK(tokenizer.error().message.find("'bert'") != std::string::npos);
  writer->set_string("tokenizer.ggml.model", "gemma4");
  CHECK(checked(*writer));
}

TEST_CASE("bytes that are no header are refused") {
  const std::string text = "<html>not found</html>, and more than eight bytes";
  CHECK(check_header_bytes(text, 1000).error().code == errc::bad_model_file);
  CHECK(check_header_bytes({}, 1000).error().code == errc::not_ready);
}
