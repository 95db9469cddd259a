// Downloads a model, and finds one that was downloaded.
#pragma once

#include "cluster/hub/file_choice.hpp"
#include "cluster/hub/hub_client.hpp"
#include "cluster/hub/hub_settings.hpp"
#include "cluster/hub/model_reference.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace baton::cluster {

struct pull_plan {
  model_reference reference;
  std::string commit; // of a repository
  file_choice choice;
  std::uint64_t bytes_missing = 0; // to download
};

// Asks the hub what the model is, and chooses its files (`room`: as of choose_files). Errors: those
// of hub_client and choose_files; not_ready (offline mode), invalid_value (a path is no download).
result<pull_plan> plan_pull(const model_reference& reference, const hub_settings& settings,
                            const hub_events& events,
                            const std::optional<memory_room>& room = std::nullopt);
// Downloads what is missing; returns the model's path, a GGUF file or a directory. Errors: those of
// download_file; does_not_fit (the disk), conflict (another process downloads it).
result<std::filesystem::path> pull(const pull_plan& plan, const hub_settings& settings,
                                   const hub_events& events);

// The path of a model that is downloaded in full; uses no network. Errors: not_found.
result<std::filesystem::path> cached_model(const model_reference& reference,
                                           const hub_settings& settings);

// The path that a user's text means: an existing path is itself, a reference the downloaded model.
// Errors: not_found (names `cluster pull`), invalid_value.
result<std::filesystem::path> path_of_model(const std::string& text, const hub_settings& settings);

// The URL of each part of a model, in order; the URL itself if its file is no part.
std::vector<std::string> urls_of_model(const std::string& url);
// Where the files of these URLs are kept, in the same order: a folder of their own.
std::vector<std::filesystem::path> files_of_url(const std::string& url,
                                                const hub_settings& settings);

} // namespace baton::cluster
