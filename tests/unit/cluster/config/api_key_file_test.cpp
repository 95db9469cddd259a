// The file of API keys: its fields, refusals by key, and additions of `cluster keygen --api`.
#include "cluster/config/readers/api_key_file.hpp"
#include "cluster/files/file_watch.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace baton;
using namespace baton::cluster;

namespace {

const std::string key_digest = gateway::hex_of(gateway::digest_of_key("k"));

std::string table(const std::string& lines) {
  return "[[keys]]\nname = \"a\"\nsha256 = [\"" + key_digest + "\"]\n" + lines;
}

void write_keys(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

} // namespace

TEST_CASE("keys are read with their role and quotas") {
  const auto keys = parse_api_keys(table("role = \"admin\"\nrequests_per_minute = 60\n"
                                         "concurrent_requests = 4\ntokens_per_minute = 100000\n"),
                                   "keys.toml");
  REQUIRE(keys);
  REQUIRE(keys->size() == 1);
  CHECK(keys->front().name == "a");
  CHECK(keys->front().role == gateway::key_role::admin);
  CHECK(keys->front().quotas == gateway::key_quotas{60, 4, 100000});
  CHECK(keys->front().digests == std::vector{gateway::digest_of_key("k")});
  const auto plain = parse_api_keys(table(""), "keys.toml");
  REQUIRE(plain);
  CHECK(plain->front().role == gateway::key_role::user);
  CHECK(plain->front().quotas == gateway::key_quotas{});
  CHECK(parse_api_keys("", "keys.toml")->empty());
}

TEST_CASE("errors are refused with their key") {
  const std::pair<std::string, const char*> wrong[] = {
      {table("role = \"root\"\n"), "keys[0].role"},
      {table("requests_per_minute = 0\n"), "keys[0].requests_per_minute"},
      {table("tokens_per_minute = -1\n"), "keys[0].tokens_per_minute"},
      {table("key = \"k\"\n"), "keys[0].key"},
      {table("") + table(""), "keys[1].name"},
      {table("") + "[[keys]]\nname = \"b\"\nsha256 = [\"" + key_digest + "\"]\n", "keys[1].sha256"},
      {"[[keys]]\nname = \"a\"\n", "keys[0].sha256"},
      {"[[keys]]\nname = \"a\"\nsha256 = [\"baton_k\"]\n", "keys[0].sha256"},
      {"[[keys]]\nname = \"a b\"\nsha256 = [\"" + key_digest + "\"]\n", "keys[0].name"},
      {"[[keys]]\nsha256 = [\"" + key_digest + "\"]\n", "keys[0].name"},
      {"keys = 1\n", "keys"},
      {"keys = [1]\n", "keys[0]"},
      {"[[key]]\n", "key"},
  };
  for (const auto& [text, param] : wrong) {
    CAPTURE(text);
    const auto keys = parse_api_keys(text, "keys.toml");
    REQUIRE_FALSE(keys);
    CHECK(keys.error().param == param);
    CHECK(keys.error().message.starts_with("keys.toml"));
  }
  CHECK_FALSE(parse_api_keys("[[keys]\n", "keys.toml"));
}

TEST_CASE("keys have 256 bits, and each is different") {
  const auto one = make_api_key();
  CHECK(one.size() == 6 + 64);
  CHECK(one.starts_with("baton_"));
  CHECK(one != make_api_key());
}

TEST_CASE("keys are added to a file, whose content is kept") {
  const testing::scratch_directory dir;
  const auto file = dir.path() / "keys.toml";
  REQUIRE(add_api_key(file, "a", gateway::key_role::user, "k"));
  REQUIRE(add_api_key(file, "b", gateway::key_role::admin, "l"));
  const auto keys = load_api_keys(file);
  REQUIRE(keys);
  REQUIRE(keys->size() == 2);
  CHECK((*keys)[0].digests.front() == gateway::digest_of_key("k"));
  CHECK((*keys)[1].role == gateway::key_role::admin);
  CHECK((std::filesystem::status(file).permissions() & std::filesystem::perms::mask) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  const auto again = add_api_key(file, "a", gateway::key_role::user, "m");
  REQUIRE_FALSE(again);
  CHECK(again.error().code == errc::conflict);
  CHECK(load_api_keys(file)->size() == 2);
  write_keys(file, "[[keys]\n");
  CHECK_FALSE(
      add_api_key(file, "c", gateway::key_role::user, "n")); // a broken file is not overwritten
  CHECK_FALSE(load_api_keys(dir.path() / "none.toml"));
}

TEST_CASE("a change of a file is reported once it is complete") {
  const testing::scratch_directory dir;
  const auto file = dir.path() / "f";
  write_keys(file, "1");
  file_watch watch({file});
  CHECK_FALSE(watch.has_changed());
  write_keys(file, "22");
  CHECK_FALSE(watch.has_changed()); // it may be incomplete
  CHECK(watch.has_changed());
  CHECK_FALSE(watch.has_changed());
  write_keys(file, "333");
  CHECK_FALSE(watch.has_changed());
  write_keys(file, "4444");
  CHECK_FALSE(watch.has_changed());
  CHECK(watch.has_changed());
  std::filesystem::remove(file);
  CHECK_FALSE(watch.has_changed());
  CHECK(watch.has_changed());
  write_keys(dir.path() / "g", "1");
  std::filesystem::rename(dir.path() / "g", file);
  CHECK_FALSE(watch.has_changed());
  CHECK(watch.has_changed());
}

TEST_CASE("characters beyond ASCII are allowed in strings and comments, also near a wrong value") {
  const auto named = parse_api_keys("# Schlüssel\n" + table("") + "# Ende: ж\n", "keys.toml");
  CHECK(named);
  // The string follows a wrong value, whose end the library searches in characters of all kinds.
  const auto wrong = parse_api_keys("role = 6bf8)cfea[\"ba\xcf\xa8\"4e\n", "keys.toml");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == errc::bad_config);
  CHECK(wrong.error().message.find("keys.toml:1") != std::string::npos);
}
