// A model in several files is the model in one: the same keys, tensors and description. A part that
// is missing or of another model is named.
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/model/slice.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

using namespace baton;
using model::gguf_file;
using testing::gguf_writer;

namespace {

gguf_writer tiny_writer(std::uint64_t seed = 1) {
  auto writer = testing::tiny_llama_writer({.type = model::tensor_type::q8_0, .seed = seed});
  REQUIRE(writer);
  return *std::move(writer);
}

std::filesystem::path part_path(const testing::scratch_directory& scratch, std::uint32_t number,
                                std::uint32_t count = 3) {
  return scratch / fmt::format("tiny-{:05}-of-{:05}.gguf", number, count);
}

void write_parts(const testing::scratch_directory& scratch, const gguf_writer& whole,
                 std::uint32_t count = 3) {
  const auto parts = whole.split(count);
  for (std::uint32_t i = 0; i < count; ++i)
    REQUIRE(parts[i].write(part_path(scratch, i + 1, count)));
}

std::vector<std::byte> bytes_of(const gguf_file& file, const model::tensor_view& tensor) {
  std::vector<std::byte> bytes(tensor.size_bytes());
  REQUIRE(file.copy_rows(tensor.name, 0, tensor.rows(), bytes));
  return bytes;
}

error refusal(const std::filesystem::path& first) {
  const auto file = gguf_file::open(first);
  REQUIRE_FALSE(file);
  return file.error();
}

bool has(const error& e, std::string_view text) {
  return e.message.find(text) != std::string::npos;
}

} // namespace

TEST_CASE("a model in three files has the keys, tensors and bytes of the one file") {
  const testing::scratch_directory scratch;
  const auto writer = tiny_writer();
  REQUIRE(writer.write(scratch / "whole.gguf"));
  write_parts(scratch, writer);
  const auto whole = gguf_file::open(scratch / "whole.gguf");
  auto opened = gguf_file::open(part_path(scratch, 1));
  REQUIRE(whole);
  REQUIRE_MESSAGE(opened, opened.error().message);
  const gguf_file file = *std::move(opened); // views survive a move
  REQUIRE(file.tensors().size() == whole->tensors().size());
  for (std::size_t i = 0; i < whole->tensors().size(); ++i) {
    const auto &expected = whole->tensors()[i], &found = file.tensors()[i];
    CAPTURE(expected.name);
    CHECK(found.name == expected.name);
    CHECK(found.shape == expected.shape);
    CHECK(found.type == expected.type);
    CHECK(std::ranges::equal(found.bytes, expected.bytes));
    CHECK(bytes_of(file, found) == bytes_of(*whole, expected));
  }
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 1; i <= 3; ++i)
    bytes += std::filesystem::file_size(part_path(scratch, i));
  CHECK(file.size_bytes() == bytes);
  const auto of_parts = model::describe(file), of_whole = model::describe(*whole);
  REQUIRE_MESSAGE(of_parts, of_parts.error().message);
  CHECK(of_parts->layer_bytes == of_whole->layer_bytes);
  CHECK(of_parts->parameter_count == of_whole->parameter_count);
  CHECK(file.get_strings("tokenizer.ggml.tokens").value() ==
        whole->get_strings("tokenizer.ggml.tokens").value());
}

TEST_CASE("a model without a name has that of its files") {
  const testing::scratch_directory scratch;
  write_parts(scratch, tiny_writer().erase("general.name"));
  const auto file = gguf_file::open(part_path(scratch, 1));
  REQUIRE(file);
  CHECK(model::describe(*file)->name == "tiny");
}

TEST_CASE("the fingerprint covers every part") {
  const testing::scratch_directory scratch;
  const auto print = [&] { return gguf_file::open(part_path(scratch, 1)).value().fingerprint(); };
  write_parts(scratch, tiny_writer());
  const auto first = print();
  CHECK(print() == first);
  const auto other = tiny_writer(2).split(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    REQUIRE(other[i].write(part_path(scratch, i + 1)));
    CHECK(print() != first);
    REQUIRE(tiny_writer().split(3)[i].write(part_path(scratch, i + 1)));
  }
  CHECK(print() == first);
}

TEST_CASE("a missing part is named") {
  const testing::scratch_directory scratch;
  write_parts(scratch, tiny_writer());
  std::filesystem::remove(part_path(scratch, 2));
  const auto e = refusal(part_path(scratch, 1));
  CHECK(e.code == errc::io_failed);
  CHECK(has(e, "part 2 of 3 of the model"));
  CHECK(has(e, part_path(scratch, 2).string()));
}

TEST_CASE("a wrong part is named, with what it is") {
  const testing::scratch_directory scratch;
  const auto writer = tiny_writer();
  const auto parts = writer.split(3);
  const auto with_second = [&](const gguf_writer& second) {
    write_parts(scratch, writer);
    REQUIRE(second.write(part_path(scratch, 2)));
    const auto e = refusal(part_path(scratch, 1));
    CHECK(e.code == errc::bad_model_file);
    CHECK(has(e, part_path(scratch, 2).string()));
    return e;
  };
  CHECK(has(with_second(parts[2]), "part 2 of 3 is needed, and this is part 3 of 3"));
  CHECK(has(with_second(writer.split(4)[1]), "part 2 of 3 is needed, and this is part 2 of 4"));
  CHECK(has(with_second(tiny_writer().erase("split.no")), "'split.no' is missing"));
  auto twice = parts[1];
  twice.add_tensor("token_embd.weight", model::tensor_type::f32, {2}, std::vector<float>(2));
  CHECK(has(with_second(twice), "tensor 'token_embd.weight' is in an earlier part as well"));
}

TEST_CASE("a part that lacks tensors is noticed") {
  const testing::scratch_directory scratch;
  auto parts = tiny_writer().split(3);
  write_parts(scratch, tiny_writer());
  REQUIRE(parts[2].erase_tensor("output_norm.weight").write(part_path(scratch, 3)));
  const auto e = refusal(part_path(scratch, 1));
  CHECK(e.code == errc::bad_model_file);
  CHECK(has(e, "'split.tensors.count' is"));
}

TEST_CASE("the first part opens the model, and by its name") {
  const testing::scratch_directory scratch;
  write_parts(scratch, tiny_writer());
  const auto second = refusal(part_path(scratch, 2));
  CHECK(second.code == errc::bad_model_file);
  CHECK(has(second, "it is part 2 of 3 of a model: give the first, tiny-00001-of-00003.gguf"));
  std::filesystem::rename(part_path(scratch, 1), scratch / "tiny.gguf");
  CHECK(has(refusal(scratch / "tiny.gguf"), "its name should end in -00001-of-00003.gguf"));
  REQUIRE(gguf_writer().set_u32("split.count", 100'000).write(scratch / "tiny.gguf"));
  CHECK(has(refusal(scratch / "tiny.gguf"), "the limit is 4096"));
}

TEST_CASE("a model that was joined again is one file") {
  const testing::scratch_directory scratch;
  for (const std::uint32_t count : {0U, 1U}) {
    REQUIRE(tiny_writer().set_u32("split.count", count).write(scratch / "a.gguf"));
    CHECK(gguf_file::open(scratch / "a.gguf"));
  }
}

TEST_CASE("rows of a part that was truncated are an error of that file") {
  const testing::scratch_directory scratch;
  write_parts(scratch, tiny_writer());
  const auto file = gguf_file::open(part_path(scratch, 1));
  REQUIRE(file);
  const auto last = file->tensors().back();
  std::filesystem::resize_file(part_path(scratch, 3), 8);
  std::vector<std::byte> room(last.size_bytes());
  const auto copied = file->copy_rows(last.name, 0, last.rows(), room);
  REQUIRE_FALSE(copied);
  CHECK(copied.error().code == errc::io_failed);
  CHECK(has(copied.error(), part_path(scratch, 3).string()));
}
