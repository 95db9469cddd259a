// A download with its progress on the terminal, for `cluster pull` and `cluster run`.
#pragma once

#include "cluster/hub/hub_settings.hpp"
#include "schema/result.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace baton::cluster {

// A model on this machine, and the name that it gets by default.
struct found_model {
  std::filesystem::path path;
  std::string name;
};

// Downloads what `reference` means and is not there yet; what was chosen is a line on stderr.
// Errors: those of plan_pull and pull; conflict (a running cluster serves another commit by this
// name).
result<found_model> download_model(const std::string& reference, const hub_settings& settings);

// The model that a user's text means, downloaded or an existing path; no network. A line on
// stderr names the model of a short name, here and below.
result<found_model> find_model(const std::string& text, const hub_settings& settings);

// The same for `cluster run`: downloads it if `may_download`, or if a person at the terminal
// agrees.
result<found_model> find_or_download(const std::string& text, bool may_download,
                                     const hub_settings& settings);

struct served_file {
  std::string cluster;        // the running cluster's name
  std::filesystem::path path; // a canonical path of its models, a file or a directory
};
std::vector<served_file> served_files();

} // namespace baton::cluster
