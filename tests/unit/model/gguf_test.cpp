// The reader returns what a writer puts into a GGUF file; invalid queries fail by name.
#include "runtime/model/gguf/gguf.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <numeric>

using namespace baton;
using model::gguf_file;
using model::tensor_type;
using testing::gguf_writer;

namespace {

gguf_writer sample(std::uint32_t version = 3) {
  gguf_writer out(version);
  const std::vector<std::string> words = {"a", "", std::string("nul\0in", 6), "\u0120the"};
  const std::vector<std::int32_t> types = {1, -3, 6};
  const std::vector<float> scores = {0.5F, -1.0F};
  out.set_u32("u32", 4000000000U)
      .set_u64("u64", std::numeric_limits<std::uint64_t>::max())
      .set_i32("i32", -7)
      .set_f32("f32", 1e-5F)
      .set_bool("yes", true)
      .set_bool("no", false)
      .set_string("text", "two\nlines")
      .set_strings("words", words)
      .set_i32s("types", types)
      .set_f32s("scores", scores);
  return out;
}

std::string message(const auto& r) {
  return r ? std::string("no error") : r.error().message;
}

} // namespace

TEST_CASE("metadata of every kind is read back") {
  const testing::scratch_directory scratch;
  for (const std::uint32_t version : {2U, 3U}) {
    REQUIRE(sample(version).write(scratch / "a.gguf"));
    const auto file = gguf_file::open(scratch / "a.gguf");
    REQUIRE_MESSAGE(file, message(file));
    CHECK(file->version() == version);
    CHECK(file->get_u32("u32").value() == 4000000000U);
    CHECK(file->get_u64("u64").value() == std::numeric_limits<std::uint64_t>::max());
    CHECK(file->get_f32("f32").value() == 1e-5F);
    CHECK(file->get_bool("yes").value());
    CHECK_FALSE(file->get_bool("no").value());
    CHECK(file->get_string("text").value() == "two\nlines");
    CHECK(file->get_strings("words").value() ==
          std::vector<std::string>{"a", "", std::string("nul\0in", 6), "\u0120the"});
    CHECK(file->get_i32s("types").value() == std::vector<std::int32_t>{1, -3, 6});
    CHECK(file->get_f32s("scores").value() == std::vector<float>{0.5F, -1.0F});
    CHECK(file->array_size("words") == 4);
    CHECK_FALSE(file->array_size("text"));
    CHECK_FALSE(file->array_size("absent"));
    CHECK(file->keys().size() == 10);
    CHECK(file->keys().front() == "f32");
    CHECK(file->tensors().empty());
  }
}

TEST_CASE("a key that is absent, of another kind or out of range is an error with its name") {
  const testing::scratch_directory scratch;
  REQUIRE(sample().write(scratch / "a.gguf"));
  const auto file = gguf_file::open(scratch / "a.gguf");
  REQUIRE(file);
  CHECK(message(file->get_u32("absent")).find("'absent' is missing") != std::string::npos);
  CHECK(message(file->get_strings("absent")).find("'absent' is missing") != std::string::npos);
  CHECK(message(file->get_u32("u64")).find("'u64' is u64") != std::string::npos);
  CHECK(message(file->get_u32("i32")).find("'i32' is i32") != std::string::npos);
  CHECK(message(file->get_u32("f32")).find("'f32' is f32") != std::string::npos);
  CHECK(message(file->get_f32("u32")).find("'u32' is u32") != std::string::npos);
  CHECK(message(file->get_bool("u32")).find("not a bool") != std::string::npos);
  CHECK(message(file->get_string("words")).find("array of string") != std::string::npos);
  CHECK(message(file->get_strings("text")).find("not an array") != std::string::npos);
  CHECK(message(file->get_i32s("scores")).find("array of f32") != std::string::npos);
  CHECK(message(file->get_i32s("words")).find("array of string") != std::string::npos);
  CHECK(message(file->get_f32s("f32")).find("'f32' is f32") != std::string::npos);
  CHECK(message(file->get_u32("types")).find("array of i32") != std::string::npos);
}

TEST_CASE("a fallback replaces an absent key and nothing else") {
  const testing::scratch_directory scratch;
  REQUIRE(sample().write(scratch / "a.gguf"));
  const auto file = gguf_file::open(scratch / "a.gguf");
  REQUIRE(file);
  CHECK(file->get_u32("absent", 5).value() == 5);
  CHECK(file->get_u64("absent", 6).value() == 6);
  CHECK(file->get_f32("absent", 0.5F).value() == 0.5F);
  CHECK(file->get_bool("absent", true).value());
  CHECK(file->get_string("absent", "other").value() == "other");
  CHECK(file->get_u32("u32", 5).value() == 4000000000U);
  CHECK_FALSE(file->get_u32("text", 5));
  CHECK_FALSE(file->get_string("u32", "other"));
}

TEST_CASE("tensors are read back with type, shape and bytes, at any alignment") {
  const testing::scratch_directory scratch;
  std::vector<float> values(64 * 3);
  std::iota(values.begin(), values.end(), -90.0F);
  for (const std::uint32_t alignment : {8U, 32U, 4096U}) {
    gguf_writer out;
    out.alignment(alignment)
        .add_tensor("line", tensor_type::f32, {3}, std::span(values).first(3))
        .add_tensor("matrix", tensor_type::q8_0, {64, 3}, values);
    REQUIRE(out.write(scratch / "a.gguf"));
    auto opened = gguf_file::open(scratch / "a.gguf");
    REQUIRE_MESSAGE(opened, message(opened));
    const gguf_file file = *std::move(opened); // views survive a move
    CHECK(file.alignment() == alignment);
    REQUIRE(file.tensors().size() == 2);
    CHECK_FALSE(file.find("absent"));
    const auto line = file.find("line");
    REQUIRE(line);
    CHECK(line->shape == std::vector<std::uint64_t>{3});
    CHECK(std::memcmp(line->bytes.data(), values.data(), 12) == 0);
    const auto matrix = file.find("matrix");
    REQUIRE(matrix);
    CHECK(matrix->type == tensor_type::q8_0);
    CHECK(matrix->rows() == 3);
    const auto row = matrix->row(2);
    const auto wanted = testing::quantize(tensor_type::q8_0, std::span(values).subspan(128));
    CHECK(std::ranges::equal(row, wanted));
    std::vector<std::byte> copy(2 * 68);
    REQUIRE(file.copy_rows("matrix", 1, 2, copy));
    CHECK(std::ranges::equal(std::span(copy).subspan(68), wanted));
  }
}

TEST_CASE("copying rows out of range, or of no tensor, is rejected") {
  const testing::scratch_directory scratch;
  gguf_writer out;
  out.add_tensor("matrix", tensor_type::f32, {4, 2}, std::vector<float>(8));
  REQUIRE(out.write(scratch / "a.gguf"));
  const auto file = gguf_file::open(scratch / "a.gguf");
  REQUIRE(file);
  std::vector<std::byte> room(64);
  const auto copy = [&](std::string_view name, std::uint64_t first, std::uint64_t count,
                        std::size_t bytes) {
    const auto r = file->copy_rows(name, first, count, std::span(room).first(bytes));
    return r ? std::optional<errc>() : r.error().code;
  };
  CHECK_FALSE(copy("matrix", 0, 2, 32));
  CHECK_FALSE(copy("matrix", 2, 0, 0));
  CHECK(copy("absent", 0, 1, 16) == errc::not_found);
  CHECK(copy("matrix", 1, 2, 32) == errc::invalid_value);
  CHECK(copy("matrix", 3, 0, 0) == errc::invalid_value);
  CHECK(copy("matrix", 0, 1, 15) == errc::invalid_value);
  CHECK(copy("matrix", 1, std::numeric_limits<std::uint64_t>::max(), 0) == errc::invalid_value);
}

TEST_CASE("a file truncated after it was opened fails the copy and raises no signal") {
  const testing::scratch_directory scratch;
  gguf_writer out;
  out.add_tensor("matrix", tensor_type::f32, {1024, 16}, std::vector<float>(16384));
  REQUIRE(out.write(scratch / "a.gguf"));
  const auto file = gguf_file::open(scratch / "a.gguf");
  REQUIRE(file);
  std::filesystem::resize_file(scratch / "a.gguf", 8192);
  std::vector<std::byte> room(std::size_t{1024} * 16 * 4);
  const auto copied = file->copy_rows("matrix", 0, 16, room);
  REQUIRE_FALSE(copied);
  CHECK(copied.error().code == errc::io_failed);
  CHECK(message(copied).find("'matrix'") != std::string::npos);
}

TEST_CASE("the fingerprint is a function of the contents") {
  const testing::scratch_directory scratch;
  const auto print = [&](float weight, std::uint32_t key) {
    gguf_writer out;
    out.set_u32("k", key).add_tensor("t", tensor_type::f32, {2}, std::vector<float>{weight, 0.0F});
    REQUIRE(out.write(scratch / "a.gguf"));
    return gguf_file::open(scratch / "a.gguf").value().fingerprint();
  };
  const auto first = print(1.0F, 1);
  CHECK(print(1.0F, 1) == first);
  CHECK(print(1.5F, 1) != first);
  CHECK(print(1.0F, 2) != first);
}

TEST_CASE("a file that is not regular is rejected without waiting") {
  const testing::scratch_directory scratch;
  const auto pipe = (scratch / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const auto& path : {scratch / "absent", scratch.path(), scratch / "pipe"}) {
    const auto file = gguf_file::open(path);
    REQUIRE_FALSE(file);
    CHECK(file.error().code == errc::io_failed);
    CHECK(file.error().message.find(path.string()) != std::string::npos);
  }
}

TEST_CASE("the first bytes are enough for the header, and fewer say that more are needed") {
  const testing::scratch_directory scratch;
  auto out = sample();
  const std::vector<float> values(64 * 1024, 1.0F);
  out.add_tensor("a", tensor_type::f32, {64, 1024}, values);
  const auto all = out.bytes();
  const auto header = all.size() - values.size() * sizeof(float);
  const auto opened = [&](std::size_t there, std::uint64_t file_bytes) {
    REQUIRE(testing::write_file(scratch / "part", std::span(all).first(there)));
    return gguf_file::open_header(scratch / "part", file_bytes);
  };
  const auto file = opened(header, all.size());
  REQUIRE_MESSAGE(file, message(file));
  CHECK(file->size_bytes() == all.size());
  CHECK(file->get_u32("u32").value() == 4000000000U);
  REQUIRE(file->tensors().size() == 1);
  CHECK(file->tensors()[0].size_bytes() == values.size() * sizeof(float));
  CHECK(file->tensors()[0].bytes.empty());
  for (const std::size_t there : {std::size_t{4}, std::size_t{40}, header / 2, header - 64})
    CHECK(opened(there, all.size()).error().code == errc::not_ready);
  // A tensor beyond the end of the whole file, and a header beyond it.
  CHECK(opened(header, all.size() - 1).error().code == errc::bad_model_file);
  CHECK(opened(40, 40).error().code == errc::bad_model_file);
}
