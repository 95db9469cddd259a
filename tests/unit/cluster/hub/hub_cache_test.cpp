// The cache's directory, as huggingface_hub lays it out.
#include "cluster/hub/hub_cache.hpp"
#include "cluster/hub/local_models.hpp"
#include "cluster/hub/pull.hpp"
#include "cluster/hub/removal.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace baton;
using namespace baton::cluster;

namespace fs = std::filesystem;

namespace {

const std::string commit_a(40, 'a'), commit_b(40, 'b');

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

// A file of a snapshot, with its blob.
void put_blob(const hub_cache& cache, const std::string& id, const std::string& commit,
              const std::string& file, const std::string& etag) {
  put(cache.blob(id, etag), "GGUF" + etag);
  const auto ok = cache.link(id, commit, file, etag);
  REQUIRE_MESSAGE(ok, ok.error().message);
}

hub_settings settings_below(const fs::path& dir) {
  hub_settings s;
  s.endpoint = "https://huggingface.co";
  s.cache = dir / "hub";
  s.downloads = dir / "downloads";
  return s;
}

fs::path cached(const std::string& text, const hub_settings& settings) {
  const auto path = path_of_model(text, settings);
  return path ? *path : fs::path(path.error().message);
}

} // namespace

TEST_CASE("links of a snapshot are relative, as deep as their file") {
  const baton::testing::scratch_directory dir;
  const hub_cache cache(dir.path());
  put_blob(cache, "org/repo", commit_a, "a.gguf", "123");
  put_blob(cache, "org/repo", commit_a, "sub/x/b.gguf", "456");
  const auto base = dir.path() / "models--org--repo";
  CHECK(fs::read_symlink(base / "snapshots" / commit_a / "a.gguf") == "../../blobs/123");
  CHECK(fs::read_symlink(base / "snapshots" / commit_a / "sub/x/b.gguf") ==
        "../../../../blobs/456");
  CHECK(fs::file_size(base / "snapshots" / commit_a / "sub/x/b.gguf") == 7);
  put_blob(cache, "org/repo", commit_a, "a.gguf", "789"); // replaces
  CHECK(fs::read_symlink(base / "snapshots" / commit_a / "a.gguf") == "../../blobs/789");
}

TEST_CASE("a revision is a file with the commit alone") {
  const baton::testing::scratch_directory dir;
  const hub_cache cache(dir.path());
  CHECK_FALSE(cache.commit_of("org/repo", "main"));
  REQUIRE(cache.set_revision("org/repo", "refs/pr/1", commit_a));
  REQUIRE(cache.set_revision("org/repo", commit_b, commit_b));
  std::ifstream in(dir.path() / "models--org--repo/refs/refs/pr/1");
  CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == commit_a);
  CHECK(cache.commit_of("org/repo", "refs/pr/1") == commit_a);
  CHECK_FALSE(fs::exists(dir.path() / "models--org--repo/refs" / commit_b));
  CHECK_FALSE(cache.commit_of("org/repo", commit_b)); // nothing of it is there
}

TEST_CASE("a reference leads to the downloaded file, else to the command that downloads it") {
  const baton::testing::scratch_directory dir;
  const auto settings = settings_below(dir.path());
  const hub_cache cache(settings.cache);
  CHECK(cached("hf:org/repo", settings).string() ==
        "hf:org/repo is not downloaded: `cluster pull hf:org/repo` does that");
  put_blob(cache, "org/repo", commit_a, "a-Q8_0.gguf", "1");
  put_blob(cache, "org/repo", commit_a, "a-Q4_K_M.gguf", "2");
  CHECK(cached("hf:org/repo", settings).string().find("not downloaded") != std::string::npos);
  REQUIRE(cache.set_revision("org/repo", "main", commit_a));
  const auto snapshot = settings.cache / "models--org--repo/snapshots" / commit_a;
  CHECK(cached("hf:org/repo", settings) == snapshot / "a-Q4_K_M.gguf");
  CHECK(cached("org/repo:q8_0", settings) == snapshot / "a-Q8_0.gguf");
  CHECK(cached("hf:org/repo@" + commit_a, settings) == snapshot / "a-Q4_K_M.gguf");
  CHECK(cached("hf:org/repo:F16", settings).string().find("not downloaded") != std::string::npos);
  fs::remove(cache.blob("org/repo", "2"));
  CHECK(cached("hf:org/repo", settings) == snapshot / "a-Q8_0.gguf");
}

TEST_CASE("a directory of safetensors is there when all files of its index are") {
  const baton::testing::scratch_directory dir;
  const auto settings = settings_below(dir.path());
  const hub_cache cache(settings.cache);
  REQUIRE(cache.set_revision("org/repo", "main", commit_a));
  const auto snapshot = cache.snapshot("org/repo", commit_a);
  put(snapshot / "config.json", "{}");
  put(snapshot / "model-00001-of-00002.safetensors", "x");
  put(snapshot / "model.safetensors.index.json",
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors",
                         "b": "model-00002-of-00002.safetensors"}})");
  CHECK(cached("hf:org/repo", settings) != snapshot);
  put(snapshot / "model-00002-of-00002.safetensors", "y");
  CHECK(cached("hf:org/repo", settings) == snapshot);
}

TEST_CASE("a removed file takes its blob along, unless another snapshot links it") {
  const baton::testing::scratch_directory dir;
  const auto settings = settings_below(dir.path());
  const hub_cache cache(settings.cache);
  put_blob(cache, "org/repo", commit_a, "a-Q8_0.gguf", "1");
  put_blob(cache, "org/repo", commit_a, "a-Q4_0.gguf", "2");
  put_blob(cache, "org/repo", commit_b, "a-Q8_0.gguf", "1");
  REQUIRE(cache.set_revision("org/repo", "main", commit_b));
  REQUIRE(cache.set_revision("org/repo", "old", commit_a));
  const auto remove = [&](const std::string& text) {
    const auto what = plan_removal(*parse_reference(text), settings);
    REQUIRE_MESSAGE(what, what.error().message);
    const auto removed = remove_model(*what, settings);
    REQUIRE_MESSAGE(removed, removed.error().message);
    return *removed;
  };
  CHECK(remove("hf:org/repo:Q4_0").bytes == 5);
  CHECK_FALSE(fs::exists(cache.blob("org/repo", "2")));
  const auto shared = remove("hf:org/repo@old");
  CHECK(shared.links == 1);
  CHECK(shared.bytes == 0);
  CHECK(fs::exists(cache.blob("org/repo", "1")));
  CHECK_FALSE(cache.commit_of("org/repo", "old"));
  CHECK(remove("hf:org/repo").bytes == 5);
  CHECK_FALSE(fs::exists(cache.repository("org/repo")));
  CHECK_FALSE(plan_removal(*parse_reference("hf:org/repo"), settings));
  CHECK_FALSE(plan_removal(*parse_reference("/a/path"), settings));
}

TEST_CASE("models of the cache, of Ollama and of LM Studio are listed") {
  const baton::testing::scratch_directory dir;
  auto settings = settings_below(dir.path());
  const hub_cache cache(settings.cache);
  put_blob(cache, "org/repo", commit_a, "a-Q8_0.gguf", "1");
  put_blob(cache, "org/repo", commit_a, "notes.txt", "2");
  REQUIRE(cache.set_revision("org/repo", "main", commit_a));
  put(cache.snapshot("org/other", commit_b) / "config.json", "{}");
  put(cache.snapshot("org/other", commit_b) / "model.safetensors", "weights");
  put(cache.snapshot("org/data", commit_b) / "data.csv", "1");
  const auto ollama = dir.path() / "ollama", studio = dir.path() / "studio";
  put(ollama / "blobs/sha256-ab", "GGUF of ollama");
  put(ollama / "manifests/registry.ollama.ai/library/llama3.2/1b",
      R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:ab"},
                     {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:cd"}]})");
  put(ollama / "manifests/registry.ollama.ai/library/broken/1b", "{");
  put(ollama / "manifests/registry.ollama.ai/library/hostile/1b",
      R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "a:../../x"}]})");
  put(studio / "publisher/repo/b.gguf", "GGUF");
  settings.ollama = {ollama};
  settings.lmstudio = {studio};
  const auto all = local_models(settings);
  REQUIRE(all.size() == 4);
  CHECK(all[0].name == "hf:org/other@" + commit_b);
  CHECK(all[0].format == "safetensors");
  CHECK(all[1].name == "hf:org/repo:Q8_0");
  CHECK(all[1].bytes == 5);
  CHECK(all[2].source == "lmstudio");
  CHECK(all[2].path == studio / "publisher/repo/b.gguf");
  CHECK(all[3].name == "ollama:llama3.2:1b");
  CHECK(all[3].shown == "llama3.2:1b");
  CHECK(all[3].path == ollama / "blobs/sha256-ab");
}

TEST_CASE("models of other programs are not removed") {
  const baton::testing::scratch_directory dir;
  auto settings = settings_below(dir.path());
  settings.ollama = {dir.path() / "ollama"};
  settings.lmstudio = {dir.path() / "studio"};
  put(dir.path() / "studio/a/b/c.gguf", "GGUF");
  const auto why = [&](const std::string& text) {
    return plan_removal(*parse_reference(text), settings).error().message;
  };
  CHECK(why("ollama:llama3.2:1b").find("`ollama rm llama3.2:1b`") != std::string::npos);
  CHECK(why((dir.path() / "studio/a/b/c.gguf").string()).find("belongs to LM Studio") !=
        std::string::npos);
  CHECK(why((dir.path() / "ollama/blobs/sha256-ab").string()).find("belongs to Ollama") !=
        std::string::npos);
  CHECK(why((dir.path() / "other.gguf").string()).find("it is a path") != std::string::npos);
}

TEST_CASE("an ETag and a commit become files' names only in their forms") {
  CHECK(bare_etag("W/\"abc\"") == "abc");
  CHECK(bare_etag("\"abc-1\"") == "abc-1");
  CHECK(is_etag("abc-1"));
  for (const auto* bad : {"", "..", "a/b", "a b", "a.b"})
    CHECK_FALSE(is_etag(bad));
  CHECK(is_commit(commit_a));
  CHECK_FALSE(is_commit("main"));
  CHECK_FALSE(is_commit(std::string(40, 'G')));
}
