#include "cluster/hub/removal.hpp"

#include "cluster/hub/pull.hpp"

#include <algorithm>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

bool has_revision(const cached_snapshot& snapshot, const std::string& revision) {
  const auto& names = snapshot.revisions;
  return snapshot.commit == revision ||
         std::find(names.begin(), names.end(), revision) != names.end();
}

// Whether the reference is a path in one of these directories.
bool is_below(const model_reference& reference, const std::vector<fs::path>& directories) {
  if (reference.from != model_reference::source::path)
    return false;
  std::error_code failed;
  const auto path = fs::weakly_canonical(reference.text, failed);
  return std::any_of(directories.begin(), directories.end(), [&](const fs::path& directory) {
    const auto base = fs::weakly_canonical(directory, failed);
    const auto below = path.lexically_relative(base);
    return !base.empty() && !below.empty() && *below.begin() != "..";
  });
}

} // namespace

result<removal> plan_removal(const model_reference& reference, const hub_settings& settings) {
  std::error_code failed;
  const auto missing = [&] {
    return fail(errc::not_found, "{} is not downloaded; `cluster models` lists those that are",
                text_of(reference));
  };
  removal what;
  if (reference.from == model_reference::source::ollama)
    return fail(errc::invalid_value,
                "{}: it belongs to Ollama, whose files are only read: `ollama rm {}` removes it",
                text_of(reference), reference.repository);
  if (is_below(reference, settings.ollama))
    return fail(errc::invalid_value, "{}: it belongs to Ollama, whose files are only read",
                reference.text);
  if (is_below(reference, settings.lmstudio))
    return fail(errc::invalid_value, "{}: it belongs to LM Studio, whose files are only read",
                reference.text);
  if (reference.from == model_reference::source::path)
    return fail(errc::invalid_value,
                "{}: it is a path; only downloads are removed, by the names of `cluster models`",
                reference.text);
  if (reference.from == model_reference::source::url) {
    for (auto& file : files_of_url(reference.text, settings))
      if (fs::exists(file, failed))
        what.files.push_back(std::move(file));
    return what.files.empty() ? result<removal>(missing()) : result<removal>(std::move(what));
  }
  const bool is_every = reference.revision == hub_revision_default;
  for (auto& snapshot : hub_cache(settings.cache).snapshots()) {
    if (snapshot.repository != reference.repository ||
        (!is_every && !has_revision(snapshot, reference.revision)))
      continue;
    if (!reference.quant.empty()) {
      const auto choice = choose_files(snapshot.files, reference.quant);
      if (!choice || choice->gguf.empty())
        continue;
      snapshot.files = choice->files;
    }
    what.snapshots.push_back(std::move(snapshot));
  }
  return what.snapshots.empty() ? result<removal>(missing()) : result<removal>(std::move(what));
}

std::vector<fs::path> files_of(const removal& what, const hub_settings& settings) {
  std::vector<fs::path> all;
  const auto add = [&](const fs::path& file) {
    std::error_code failed;
    if (auto path = fs::canonical(file, failed); !failed)
      all.push_back(std::move(path));
  };
  const hub_cache cache(settings.cache);
  for (const auto& snapshot : what.snapshots)
    for (const auto& file : snapshot.files)
      add(cache.snapshot(snapshot.repository, snapshot.commit) / file.path);
  for (const auto& file : what.files)
    add(file);
  return all;
}

result<removed_files> remove_model(const removal& what, const hub_settings& settings) {
  removed_files sum;
  const hub_cache cache(settings.cache);
  for (const auto& snapshot : what.snapshots) {
    const auto removed = cache.remove(snapshot);
    if (!removed)
      return removed.error();
    sum.links += removed->links;
    sum.bytes += removed->bytes;
  }
  if (what.files.empty())
    return sum;
  std::error_code failed;
  for (const auto& file : what.files) {
    const auto bytes = fs::file_size(file, failed);
    sum.bytes += failed ? 0 : bytes;
    ++sum.links;
  }
  const auto folder = what.files.front().parent_path();
  fs::remove_all(folder, failed); // of their own, with their locks
  if (failed)
    return fail(errc::io_failed, "{}: {}", folder.string(), failed.message());
  return sum;
}

} // namespace baton::cluster
