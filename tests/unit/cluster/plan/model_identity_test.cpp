// Changes of a model's files that are detected, also outside the fingerprint.
#include "cluster/plan/model_identity.hpp"
#include "runtime/model/open/open_model.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace baton;
using namespace baton::cluster;
namespace fs = std::filesystem;

namespace {

const fs::path data = fs::path(BATON_SOURCE_DIR) / "tests/data/model";

std::unique_ptr<model::model_file> opened(const fs::path& path) {
  auto file = model::open_model(path);
  REQUIRE_MESSAGE(file, file.error().message);
  return *std::move(file);
}

void overwrite(const fs::path& path, std::streamoff at, std::string_view bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
  file << bytes;
}

void set_time(const fs::path& path, std::chrono::seconds later) {
  fs::last_write_time(path, fs::last_write_time(path) + later);
}

} // namespace

TEST_CASE("changed bytes inside a tensor are detected by the file's time") {
  const testing::scratch_directory scratch;
  const auto path = scratch.path() / "m.gguf";
  fs::copy_file(data / "families/llama3.gguf", path);
  const auto before = opened(path);
  const auto identity = model_identity(*before);
  REQUIRE(identity);
  CHECK(check_identity(*before, *identity));
  CHECK(check_identity(*opened(path), *identity)); // a new reader finds the same
  overwrite(path, -4, "last");
  set_time(path, std::chrono::seconds(5));
  const auto refused = check_identity(*opened(path), *identity);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_model_file);
  CHECK(refused.error().message.find("m.gguf was changed") != std::string::npos);
  CHECK_FALSE(check_identity(*before, *identity)); // nor a reader that had begun
}

TEST_CASE("every part of a model in several files counts") {
  const testing::scratch_directory scratch;
  const auto writer = testing::tiny_llama_writer({});
  REQUIRE(writer);
  const auto parts = writer->split(3);
  const auto path = [&](std::size_t i) {
    return scratch.path() / fmt::format("m-{:05}-of-00003.gguf", i + 1);
  };
  for (std::size_t i = 0; i < parts.size(); ++i)
    REQUIRE(parts[i].write(path(i)));
  const auto file = opened(path(0));
  const auto identity = model_identity(*file);
  REQUIRE(identity);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CAPTURE(i);
    set_time(path(i), std::chrono::seconds(5));
    CHECK_FALSE(check_identity(*file, *identity));
    set_time(path(i), std::chrono::seconds(-5));
    CHECK(check_identity(*file, *identity));
  }
  fs::remove(path(2));
  CHECK_FALSE(check_identity(*file, *identity));
}

TEST_CASE("in a directory only the files of the model count") {
  const testing::scratch_directory scratch;
  const auto path = scratch.path() / "model";
  fs::copy(data / "checkpoint", path, fs::copy_options::recursive);
  const auto file = opened(path);
  const auto identity = model_identity(*file);
  REQUIRE(identity);
  std::ofstream(path / "README.md") << "words";
  CHECK(check_identity(*file, *identity));
  set_time(path / "tokenizer.json", std::chrono::seconds(5));
  CHECK_FALSE(check_identity(*file, *identity));
  set_time(path / "tokenizer.json", std::chrono::seconds(-5));
  CHECK(check_identity(*file, *identity));
  fs::remove(path / "chat_template.jinja");
  CHECK_FALSE(check_identity(*file, *identity));
}

TEST_CASE("a missing model is an error that names it") {
  const testing::scratch_directory scratch;
  const auto path = scratch.path() / "m.gguf";
  fs::copy_file(data / "families/llama3.gguf", path);
  const auto file = opened(path);
  fs::remove(path);
  const auto gone = model_identity(*file);
  REQUIRE_FALSE(gone);
  CHECK(gone.error().code == errc::io_failed);
  CHECK(gone.error().message.find("m.gguf") != std::string::npos);
}
