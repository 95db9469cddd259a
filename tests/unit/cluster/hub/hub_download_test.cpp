// The record of parts, retries, digests and the environment of downloads.
#include "cluster/hub/file_digest.hpp"
#include "cluster/hub/hub_retry.hpp"
#include "cluster/hub/hub_settings.hpp"
#include "cluster/hub/part_record.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <map>

using namespace baton;
using namespace baton::cluster;

namespace fs = std::filesystem;

namespace {

transfer_end answered(int status, std::map<std::string, std::string> headers = {}) {
  return {0, {status, std::move(headers)}, {}, false};
}

hub_settings settings_with(const std::map<std::string, std::string>& values) {
  return hub_settings_of([&](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
}

} // namespace

TEST_CASE("a record counts what is on the disk, and is taken up again") {
  const baton::testing::scratch_directory dir;
  const auto data = dir.path() / "x", record = dir.path() / "x.parts";
  const std::uint64_t bytes = part_bytes + 100;
  {
    auto r = part_record::open(data, record, bytes, "etag");
    REQUIRE_MESSAGE(r, r.error().message);
    REQUIRE(r->parts().size() == 2);
    CHECK_FALSE(r->was_resumed());
    REQUIRE(r->append(1, std::string(100, 'b'))); // a whole part is on record at once
    REQUIRE(r->append(0, std::string(record_step, 'a')));
    REQUIRE(r->append(0, "lost"));
    CHECK(r->done() == record_step + 104);
    CHECK_FALSE(r->append(1, "more")); // than the part has
  }
  CHECK(recorded_bytes(data, record, bytes, "etag") == record_step + 100);
  CHECK(recorded_bytes(data, record, bytes, "other") == 0);
  CHECK(recorded_bytes(data, record, bytes + 1, "etag") == 0);
  {
    auto r = part_record::open(data, record, bytes, "etag");
    REQUIRE(r);
    CHECK(r->was_resumed());
    CHECK(r->parts()[0].done == record_step);
    CHECK(r->parts()[1].is_done());
    REQUIRE(r->append(0, "kept"));
    REQUIRE(r->flush(0));
  }
  CHECK(recorded_bytes(data, record, bytes, "etag") == record_step + 104);
  auto other = part_record::open(data, record, bytes, "other");
  REQUIRE(other);
  CHECK(other->done() == 0);
  CHECK(fs::file_size(data) == bytes);
}

TEST_CASE("a record that was changed or cut is not believed") {
  const baton::testing::scratch_directory dir;
  const auto data = dir.path() / "x", record = dir.path() / "x.parts";
  for (const std::string text : {"", "baton-download 1 100 16777216 etag\n",
                                 "baton-download 1 100 16777216 etag\n0000000101\n",
                                 "baton-download 1 100 16777216 etag\n00000000-1\n",
                                 "baton-download 1 100 16777216 etag\n0000000010\n0000000010\n"}) {
    CAPTURE(text);
    std::ofstream(data) << std::string(100, 'a');
    std::ofstream(record) << text;
    CHECK(recorded_bytes(data, record, 100, "etag") == 0);
  }
  std::ofstream(record) << "baton-download 1 100 16777216 etag\n0000000010\n";
  CHECK(recorded_bytes(data, record, 100, "etag") == 10);
  std::ofstream(data) << "short";
  CHECK(recorded_bytes(data, record, 100, "etag") == 0);
}

TEST_CASE("Retry-After is seconds or a date") {
  CHECK(retry_after("7", 0) == std::chrono::seconds(7));
  CHECK(retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 20) == std::chrono::seconds(40));
  CHECK(retry_after("Thu, 01 Jan 1970 00:00:00 GMT", 20) == std::chrono::seconds(0));
  CHECK_FALSE(retry_after("", 0));
  CHECK_FALSE(retry_after("soon", 0));
}

TEST_CASE("what may pass is tried again a few times, not before the hub allows it") {
  const hub_retry::clock::time_point now{};
  hub_retry retry;
  CHECK_FALSE(retry.pause_after(answered(404), now, 0));
  CHECK_FALSE(retry.pause_after(answered(401), now, 0));
  CHECK(retry.pause_after(answered(429, {{"retry-after", "20"}}), now, 0) ==
        std::chrono::seconds(20));
  CHECK_FALSE(retry.pause_after(answered(429, {{"retry-after", "3600"}}), now, 0));
  hub_retry other;
  std::uint32_t attempts = 0;
  while (other.pause_after(answered(503), now, 0))
    ++attempts;
  CHECK(attempts == hub_retry::attempts_max);
  other.on_progress();
  CHECK(other.pause_after(transfer_end{0, {}, "connection reset", false}, now, 0));
  CHECK_FALSE(other.pause_after(transfer_end{0, {}, "bad certificate", true}, now, 0));
}

namespace {

bool go_on(std::uint64_t) {
  return true;
}

result<std::string> digest_of(const std::filesystem::path& file, file_digest::kind kind,
                              std::uint64_t bytes) {
  return file_digest(file, kind, bytes).wait(go_on);
}

} // namespace

TEST_CASE("digests are those of sha256sum and of git hash-object") {
  const baton::testing::scratch_directory dir;
  const auto file = dir.path() / "x";
  std::ofstream(file) << "hello\n";
  using enum file_digest::kind;
  CHECK(*digest_of(file, sha256, 6) ==
        "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
  CHECK(*digest_of(file, git_sha1, 6) == "ce013625030ba8dba906f756967f9e9ca394464a");
  CHECK(*digest_of(file, git_sha1, 0) == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  CHECK(digest_of(dir.path() / "none", sha256, 6).error().code == errc::io_failed);
  CHECK(digest_of(file, sha256, 7).error().code == errc::io_failed); // it is shorter
}

TEST_CASE("a digest follows the writer of its file") {
  const baton::testing::scratch_directory dir;
  const auto file = dir.path() / "x";
  constexpr std::size_t step = 300'001;
  const std::string text(10 * step, 'a');
  std::ofstream out(file, std::ios::binary);
  std::filesystem::resize_file(file, text.size()); // zeros, as in an unfinished download
  file_digest digest(file, file_digest::kind::sha256, text.size());
  for (std::size_t at = 0; at < text.size(); at += step) {
    out.write(text.data() + at, step);
    out.flush();
    digest.extend(at + step);
  }
  CHECK(*digest.wait(go_on) == *digest_of(file, file_digest::kind::sha256, text.size()));
}

TEST_CASE("a digest that is not wanted any more ends") {
  const baton::testing::scratch_directory dir;
  const auto file = dir.path() / "x";
  file_digest waits(file, file_digest::kind::sha256, 1u << 20); // for bytes that never come
  std::ofstream(file) << std::string(1u << 20, 'a');
  file_digest asked(file, file_digest::kind::sha256, 1u << 20);
  CHECK(asked.wait([](std::uint64_t) { return false; }).error().code == errc::cancelled);
}

TEST_CASE("the environment is huggingface_hub's") {
  const baton::testing::scratch_directory dir;
  const auto plain = settings_with({{"HOME", "/home/a"}});
  CHECK(plain.endpoint == "https://huggingface.co");
  CHECK(plain.cache == "/home/a/.cache/huggingface/hub");
  CHECK(plain.downloads == "/home/a/.cache/baton/models");
  CHECK(plain.token.empty());
  CHECK_FALSE(plain.is_offline);
  CHECK(settings_with({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "/x"}}).cache ==
        "/x/huggingface/hub");
  CHECK(settings_with({{"HOME", "/home/a"}, {"HF_HOME", "~/hf"}}).cache == "/home/a/hf/hub");
  CHECK(settings_with({{"HF_HOME", "/hf"}, {"HF_HUB_CACHE", "/c"}}).cache == "/c");
  CHECK(settings_with({{"HF_ENDPOINT", "http://mirror/"}}).endpoint == "http://mirror");
  CHECK(settings_with({{"HF_HUB_OFFLINE", "true"}}).is_offline);
  CHECK_FALSE(settings_with({{"HF_HUB_OFFLINE", "0"}}).is_offline);
  CHECK(settings_with({{"HF_HUB_DOWNLOAD_TIMEOUT", "3"}}).silence_max == std::chrono::seconds(3));
  CHECK(settings_with({{"HF_TOKEN", " hf_a\n"}}).token == "hf_a");
  CHECK(settings_with({{"HF_TOKEN", "a\r\nX: b"}}).token.empty()); // it would be a header
  std::ofstream(dir.path() / "token") << "hf_file\n";
  CHECK(settings_with({{"HF_HOME", dir.path().string()}}).token == "hf_file");
  CHECK(settings_with({{"HF_TOKEN_PATH", (dir.path() / "token").string()}}).token == "hf_file");
}
