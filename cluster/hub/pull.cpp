#include "cluster/hub/pull.hpp"

#include "cluster/hub/file_download.hpp"
#include "cluster/hub/hub_cache.hpp"
#include "cluster/hub/known_models.hpp"
#include "cluster/hub/ollama/ollama_store.hpp"
#include "runtime/model/part_name.hpp"
#include "schema/digest.hpp"

#include <nlohmann/json.hpp>
#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view index_name = "model.safetensors.index.json";
constexpr std::uintmax_t index_bytes_max = 64u << 20;
constexpr std::chrono::seconds lock_patience{10};

bool has_bytes(const fs::path& file, std::uint64_t bytes) {
  std::error_code failed;
  return fs::is_regular_file(file, failed) && fs::file_size(file, failed) == bytes && !failed;
}

// The name of its blob, by what the hub lists.
const std::string& listed_etag(const hub_file& file) noexcept {
  return file.sha256.empty() ? file.oid : file.sha256;
}

// Free bytes for this user where the directory is or will be.
std::optional<std::uint64_t> free_bytes(fs::path directory) {
  std::error_code failed;
  while (!fs::exists(directory, failed) && directory.has_parent_path() &&
         directory != directory.parent_path())
    directory = directory.parent_path();
  struct statvfs info {};
  if (statvfs(directory.c_str(), &info) != 0)
    return std::nullopt;
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

result<void> check_space(const fs::path& directory, std::uint64_t needed) {
  const auto available = free_bytes(directory);
  if (!available || *available >= needed)
    return {};
  return fail(
      errc::does_not_fit,
      "{}: the download takes {} bytes and the disk has {} left; HF_HUB_CACHE names another "
      "place",
      directory.string(), needed, *available);
}

download_target target_of(const hub_cache& cache, const pull_plan& plan, const hub_file& file,
                          std::string etag) {
  const auto& id = plan.reference.repository;
  auto at = cache.blob(id, etag);
  return {.from = remote_blob{{}, {}, std::move(etag), file.bytes},
          .what = fmt::format("{}/{}", id, file.path),
          .sha256 = file.sha256,
          .sha1 = file.sha256.empty() ? file.oid : std::string(),
          .file = std::move(at)};
}

download_target target_of_url(remote_blob from, fs::path file) {
  if (!is_etag(from.etag))
    from.etag = "none";
  auto what = from.url;
  return {.from = std::move(from),
          .what = std::move(what),
          .sha256 = {},
          .sha1 = {},
          .file = std::move(file)};
}

// One file of a repository, to its place in the cache.
result<void> pull_file(const hub_cache& cache, const pull_plan& plan, const hub_file& file,
                       const hub_settings& settings, const hub_events& events,
                       const download_progress& shown) {
  const auto& id = plan.reference.repository;
  auto etag = listed_etag(file);
  if (!is_etag(etag) || !has_bytes(cache.blob(id, etag), file.bytes)) {
    auto from = hub_client(settings, events).blob(id, plan.commit, file);
    if (!from)
      return from.error();
    etag = from->etag;
    auto target = target_of(cache, plan, file, etag);
    target.from = *std::move(from);
    const auto lock = file_lock::take(cache.lock_file(id, etag), lock_patience);
    if (!lock)
      return lock.error();
    if (!has_bytes(target.file, file.bytes)) // another process may have been faster
      if (auto ok = download_file(target, settings, events, shown); !ok)
        return ok;
  }
  return cache.link(id, plan.commit, file.path, etag);
}

result<void> pull_file_of_url(const std::string& url, const fs::path& file,
                              const hub_settings& settings, const hub_events& events,
                              const download_progress& shown) {
  auto from = hub_client(settings, events).blob_at(url);
  if (!from)
    return from.error();
  const auto lock = file_lock::take(file.string() + ".lock", lock_patience);
  if (!lock)
    return lock.error();
  return download_file(target_of_url(*std::move(from), file), settings, events, shown);
}

result<fs::path> pull_url(const pull_plan& plan, const hub_settings& settings,
                          const hub_events& events) {
  const auto urls = urls_of_model(plan.reference.text);
  const auto files = files_of_url(plan.reference.text, settings);
  if (plan.bytes_missing > 0)
    if (auto ok = check_space(settings.downloads, plan.bytes_missing); !ok)
      return ok.error();
  download_progress shown{0, plan.choice.bytes(), {}, false};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto bytes = plan.choice.files[i].bytes;
    if (!has_bytes(files[i], bytes))
      if (auto ok = pull_file_of_url(urls[i], files[i], settings, events, shown); !ok)
        return ok.error();
    shown.bytes += bytes;
  }
  return files.front();
}

result<pull_plan> plan_url(const model_reference& reference, const hub_settings& settings,
                           const hub_events& events) {
  const auto urls = urls_of_model(reference.text);
  const auto files = files_of_url(reference.text, settings);
  pull_plan plan{reference, {}, {}, 0};
  plan.choice.gguf = files.front().filename().string();
  for (std::size_t i = 0; i < urls.size(); ++i) {
    auto from = hub_client(settings, events).blob_at(urls[i]);
    if (!from)
      return from.error();
    const auto bytes = from->bytes;
    const auto target = target_of_url(*std::move(from), files[i]);
    plan.choice.files.push_back({target.file.filename().string(), bytes, {}, {}});
    plan.bytes_missing += has_bytes(target.file, bytes) ? 0 : bytes - target.present();
  }
  plan.choice.why = fmt::format("{}: the file of the URL", plan.choice.gguf);
  if (urls.size() > 1)
    plan.choice.why += fmt::format(", and {} other parts", urls.size() - 1);
  return plan;
}

// "; did you mean 'smollm2'?" behind `before`; empty: no known model has a name like that.
std::string guess_of(const std::string& text, std::string_view before) {
  const auto near = nearest_known_model(text);
  return near ? fmt::format("{}; did you mean '{}'?", before, *near) : std::string();
}

error no_such_model(const std::string& text) {
  return fail(errc::not_found, "{}: no such file or directory{}", text,
              guess_of(text, ", and no known model (`cluster models --known`)"));
}

// Whether every file that the index of safetensors names is there.
bool is_complete(const fs::path& directory) {
  const auto index = directory / index_name;
  std::error_code failed;
  if (!fs::exists(index, failed))
    return true;
  if (fs::file_size(index, failed) > index_bytes_max || failed)
    return false;
  std::ifstream in(index, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto map = parsed.is_object() ? parsed.find("weight_map") : parsed.end();
  if (map == parsed.end() || !map->is_object())
    return false;
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items())
    if (file.is_string())
      names.insert(file.get<std::string>());
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    std::error_code missing;
    return is_file_path(name) && fs::exists(directory / name, missing);
  });
}

error not_downloaded(const model_reference& reference) {
  return fail(errc::not_found, "{} is not downloaded: `cluster pull {}` does that",
              text_of(reference), text_of(reference));
}

} // namespace

std::vector<std::string> urls_of_model(const std::string& url) {
  const auto bare = url.substr(0, url.find_first_of("?#"));
  const auto part = model::parse_part_name(bare);
  if (!part)
    return {url};
  std::vector<std::string> all;
  for (std::uint32_t number = 1; number <= part->count; ++number)
    all.push_back(part->of(number) + url.substr(bare.size()));
  return all;
}

std::vector<fs::path> files_of_url(const std::string& url, const hub_settings& settings) {
  const auto urls = urls_of_model(url);
  const auto folder = settings.downloads / fmt::format("{:016x}", digest_of(urls.front()));
  std::vector<fs::path> files;
  for (const auto& each : urls) {
    const auto bare = each.substr(0, each.find_first_of("?#"));
    auto name = bare.substr(bare.rfind('/') + 1);
    std::replace_if(
        name.begin(), name.end(),
        [](char c) { return c == '\\' || static_cast<unsigned char>(c) < ' '; }, '-');
    files.push_back(folder / name);
  }
  return files;
}

result<pull_plan> plan_pull(const model_reference& reference, const hub_settings& settings,
                            const hub_events& events, const std::optional<memory_room>& room) {
  if (reference.from == model_reference::source::path)
    return fail(errc::invalid_value,
                "{}: it is a path{}; a download is hf:ORG/REPO[:QUANT][@REVISION], the URL of a "
                "GGUF file, or a name of `cluster models --known`",
                reference.text, guess_of(reference.text, ", and no known model"));
  if (reference.from == model_reference::source::ollama)
    return fail(errc::invalid_value, "{}: `ollama pull {}` downloads models of Ollama",
                text_of(reference), reference.repository);
  if (settings.is_offline)
    return fail(errc::not_ready, "{}: nothing is downloaded in offline mode (HF_HUB_OFFLINE)",
                text_of(reference));
  if (reference.from == model_reference::source::url)
    return plan_url(reference, settings, events);
  const hub_client client(settings, events);
  const auto& id = reference.repository;
  auto commit = client.commit_of(id, reference.revision);
  if (!commit)
    return commit.error();
  const auto all = client.files(id, *commit);
  if (!all)
    return all.error();
  auto choice = choose_files(*all, reference.quant, room);
  if (!choice)
    return fail(choice.error().code, "{}: {}", text_of(reference), choice.error().message);
  pull_plan plan{reference, *std::move(commit), *std::move(choice), 0};
  const hub_cache cache(settings.cache);
  for (const auto& file : plan.choice.files) {
    const auto& etag = listed_etag(file);
    if (!is_etag(etag))
      plan.bytes_missing += file.bytes;
    else if (const auto target = target_of(cache, plan, file, etag);
             !has_bytes(target.file, file.bytes))
      plan.bytes_missing += file.bytes - target.present();
  }
  return plan;
}

result<fs::path> pull(const pull_plan& plan, const hub_settings& settings,
                      const hub_events& events) {
  if (plan.reference.from == model_reference::source::url)
    return pull_url(plan, settings, events);
  const hub_cache cache(settings.cache);
  const auto& id = plan.reference.repository;
  if (auto ok = check_space(cache.root(), plan.bytes_missing); !ok)
    return ok.error();
  download_progress shown{0, plan.choice.bytes(), {}, false};
  for (const auto& file : plan.choice.files) {
    if (auto ok = pull_file(cache, plan, file, settings, events, shown); !ok)
      return ok.error();
    shown.bytes += file.bytes;
    events.progress(shown);
  }
  // Last, so that a revision never leads to a part of its files.
  if (auto ok = cache.set_revision(id, plan.reference.revision, plan.commit); !ok)
    return ok.error();
  const auto directory = cache.snapshot(id, plan.commit);
  return plan.choice.gguf.empty() ? directory : directory / plan.choice.gguf;
}

result<fs::path> cached_model(const model_reference& reference, const hub_settings& settings) {
  std::error_code failed;
  if (reference.from == model_reference::source::path)
    return fs::path(reference.text);
  if (reference.from == model_reference::source::ollama) {
    auto model = find_ollama_model(settings.ollama, reference.repository);
    return model ? result<fs::path>(std::move(model->blob)) : model.error();
  }
  if (reference.from == model_reference::source::url) {
    const auto files = files_of_url(reference.text, settings);
    const bool has_all = std::all_of(
        files.begin(), files.end(), [&](const fs::path& file) { return fs::exists(file, failed); });
    return has_all ? result<fs::path>(files.front()) : not_downloaded(reference);
  }
  const hub_cache cache(settings.cache);
  const auto& id = reference.repository;
  const auto commit = cache.commit_of(id, reference.revision);
  if (!commit)
    return not_downloaded(reference);
  const auto choice = choose_files(cache.files(id, *commit), reference.quant);
  if (!choice)
    return not_downloaded(reference);
  const auto directory = cache.snapshot(id, *commit);
  if (!choice->gguf.empty())
    return directory / choice->gguf;
  return is_complete(directory) ? result<fs::path>(directory) : not_downloaded(reference);
}

result<fs::path> path_of_model(const std::string& text, const hub_settings& settings) {
  std::error_code failed;
  if (!is_explicit_reference(text) && fs::exists(text, failed))
    return fs::path(text);
  const auto reference = parse_reference(text, settings.endpoint);
  if (!reference)
    return reference.error();
  if (reference->from == model_reference::source::path)
    return no_such_model(text);
  auto path = cached_model(*reference, settings);
  if (!path && !is_explicit_reference(text))
    return fail(errc::not_found, "{}: there is no such path, and {}", text, path.error().message);
  return path;
}

} // namespace baton::cluster
