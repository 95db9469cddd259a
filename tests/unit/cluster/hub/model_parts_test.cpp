// A downloaded model in several parts: found, listed and removed as one.
#include "cluster/hub/hub_cache.hpp"
#include "cluster/hub/local_models.hpp"
#include "cluster/hub/pull.hpp"
#include "cluster/hub/removal.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

using namespace baton;
using namespace baton::cluster;

namespace fs = std::filesystem;

namespace {

const std::string first_commit(40, 'a');
constexpr int part_count = 3;

std::string part(int number) {
  return fmt::format("a-Q8_0-{:05}-of-{:05}.gguf", number, part_count);
}

void write_text(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

hub_settings settings_in(const fs::path& dir) {
  hub_settings s;
  s.endpoint = "https://huggingface.co";
  s.cache = dir / "hub";
  s.downloads = dir / "downloads";
  s.lmstudio = {dir / "studio"};
  return s;
}

void put_part(const hub_settings& settings, int number) {
  const hub_cache cache(settings.cache);
  const auto etag = fmt::format("{}{}", number, number);
  write_text(cache.blob("org/repo", etag),
             "GGUF" + std::string(static_cast<std::size_t>(number), 'x'));
  REQUIRE(cache.link("org/repo", first_commit, part(number), etag));
  REQUIRE(cache.set_revision("org/repo", "main", first_commit));
}

} // namespace

TEST_CASE("parts in the cache are one model, once all are there") {
  const testing::scratch_directory dir;
  const auto settings = settings_in(dir.path());
  put_part(settings, 1);
  put_part(settings, 3);
  const auto found = [&] { return cached_model(*parse_reference("hf:org/repo:Q8_0"), settings); };
  REQUIRE_FALSE(found());
  CHECK(found().error().message.find("`cluster pull hf:org/repo:Q8_0`") != std::string::npos);
  CHECK(local_models(settings).empty());
  put_part(settings, 2);
  REQUIRE(found());
  CHECK(found()->filename() == part(1));
  const auto all = local_models(settings);
  REQUIRE(all.size() == 1);
  CHECK(all[0].name == "hf:org/repo:Q8_0");
  CHECK(all[0].bytes == 5 + 6 + 7);
  CHECK(all[0].path.filename() == part(1));
}

TEST_CASE("a model's parts are removed together") {
  const testing::scratch_directory dir;
  const auto settings = settings_in(dir.path());
  for (int number = 1; number <= part_count; ++number)
    put_part(settings, number);
  const auto plan = plan_removal(*parse_reference("hf:org/repo:Q8_0"), settings);
  REQUIRE_MESSAGE(plan, plan.error().message);
  CHECK(files_of(*plan, settings).size() == part_count);
  const auto removed = remove_model(*plan, settings);
  REQUIRE(removed);
  CHECK(removed->links == part_count);
  CHECK(removed->bytes == 5 + 6 + 7);
  CHECK_FALSE(cached_model(*parse_reference("hf:org/repo:Q8_0"), settings));
}

TEST_CASE("parts of a URL have URLs of their own, and one folder") {
  const testing::scratch_directory dir;
  const auto settings = settings_in(dir.path());
  const std::string base = "https://example.org/m/";
  const auto urls = urls_of_model(base + part(2) + "?download=true");
  REQUIRE(urls.size() == part_count);
  CHECK(urls[0] == base + part(1) + "?download=true");
  CHECK(urls[2] == base + part(3) + "?download=true");
  CHECK(urls_of_model(base + "a.gguf?x") == std::vector<std::string>{base + "a.gguf?x"});
  const auto files = files_of_url(urls[1], settings);
  CHECK(files == files_of_url(urls[0], settings));
  for (int i = 0; i < part_count; ++i) {
    CHECK(files[static_cast<std::size_t>(i)].filename() == part(i + 1));
    CHECK_FALSE(cached_model(*parse_reference(urls[0]), settings));
    write_text(files[static_cast<std::size_t>(i)], "GGUF");
  }
  CHECK(cached_model(*parse_reference(urls[0]), settings).value() == files[0]);
  const auto all = local_models(settings);
  REQUIRE(all.size() == 1);
  CHECK(all[0].bytes == 12);
  const auto removed = remove_model(*plan_removal(*parse_reference(urls[1]), settings), settings);
  REQUIRE(removed);
  CHECK(removed->bytes == 12);
  CHECK_FALSE(fs::exists(files[0].parent_path()));
}

TEST_CASE("parts in LM Studio's folders are one model") {
  const testing::scratch_directory dir;
  const auto settings = settings_in(dir.path());
  for (int number = 1; number <= part_count; ++number) {
    CHECK(local_models(settings).empty());
    write_text(settings.lmstudio[0] / "org/repo" / part(number), "GGUF");
  }
  const auto all = local_models(settings);
  REQUIRE(all.size() == 1);
  CHECK(all[0].bytes == 12);
  CHECK(all[0].path == settings.lmstudio[0] / "org/repo" / part(1));
}
