#include "cluster/process/running_clusters.hpp"

#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/files/exit_status.hpp"
#include "schema/digest.hpp"

#include <fmt/ranges.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

constexpr const char* records_name = "+running"; // never a cluster: is_name excludes '+'
constexpr const char* unit_runtime_dir = "/run/baton/baton";
constexpr std::size_t record_bytes_max = 8192; // a name and a path

std::vector<fs::path> own_runtime_dirs() {
  return runtime_dirs(std::getenv("XDG_RUNTIME_DIR"), geteuid());
}

std::optional<struct stat> stat_of(const fs::path& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? std::optional(info) : std::nullopt;
}

bool may_trust(const struct stat& parent) {
  return parent.st_uid == geteuid() || geteuid() == 0;
}

std::string record_file(const run_dir& dir) {
  return fmt::format("{:016x}", digest_of(dir.path().string()));
}

// Nothing if the file is not a valid record.
std::optional<running_cluster> read_record(const fs::path& file) {
  std::error_code failed;
  if (fs::file_size(file, failed) > record_bytes_max || failed)
    return std::nullopt;
  std::ifstream in(file);
  std::string name, path;
  if (!std::getline(in, name) || !std::getline(in, path) || !is_name(name))
    return std::nullopt;
  auto dir = run_dir::existing(path);
  return dir ? std::optional(running_cluster{*std::move(dir), name}) : std::nullopt;
}

// Root acts in the directory with its rights, so a record must not lead to another user's.
bool has_owner(const run_dir& dir, uid_t owner) {
  const auto info = stat_of(dir.path());
  return info && info->st_uid == owner;
}

void add_running(std::vector<running_cluster>& to, running_cluster one, uid_t owner) {
  const auto is_same = [&](const running_cluster& other) {
    return other.dir.path() == one.dir.path();
  };
  if (has_owner(one.dir, owner) && !one.dir.alive().empty() &&
      std::none_of(to.begin(), to.end(), is_same))
    to.push_back(std::move(one));
}

void add_running_in(std::vector<running_cluster>& to, const fs::path& parent) {
  const auto owner = stat_of(parent);
  if (!owner || !may_trust(*owner))
    return;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(parent / records_name, failed))
    if (auto recorded = read_record(entry.path()))
      add_running(to, *std::move(recorded), owner->st_uid);
  for (const auto& entry : fs::directory_iterator(parent, failed))
    if (const auto name = entry.path().filename().string(); is_name(name))
      if (auto dir = run_dir::existing(entry.path()))
        add_running(to, {*std::move(dir), name}, owner->st_uid);
}

std::string user_name(uid_t user) {
  const auto* entry = getpwuid(user);
  return entry != nullptr ? entry->pw_name : std::to_string(user);
}

// Switches to the owner of the cluster before looking into it.
result<running_cluster> as_its_owner(running_cluster found) {
  const auto info = stat_of(found.dir.path());
  if (!info || info->st_uid == geteuid())
    return found;
  const auto refuse = [&](std::string_view why) {
    return fail(errc::forbidden, "{} belongs to user {}: {}", found.dir.path().string(),
                user_name(info->st_uid), why);
  };
  if (geteuid() != 0)
    return refuse("ask as that user or as root");
  const auto group = info->st_gid;
  if (setgroups(1, &group) != 0 || setresgid(group, group, group) != 0 ||
      setresuid(info->st_uid, info->st_uid, info->st_uid) != 0)
    return refuse(std::strerror(errno));
  return found;
}

result<running_cluster> not_running(const std::string& what, const std::vector<fs::path>& looked) {
  std::vector<std::string> names;
  for (const auto& path : looked)
    names.push_back(path.string());
  return fail(errc::not_found, "{}: looked in {}", what, fmt::join(names, ", "));
}

// Looks into its cluster.run_dir, or by default into its directory in every runtime directory.
result<running_cluster> find_by_config(const std::string& file) {
  const auto config = load_config(file);
  if (!config)
    return config.error();
  std::vector<fs::path> looked{config->run_dir};
  if (config->run_dir == default_run_dir(config->name))
    for (const auto& parent : own_runtime_dirs())
      if (const auto path = parent / config->name;
          std::find(looked.begin(), looked.end(), path) == looked.end())
        looked.push_back(path);
  for (const auto& path : looked) {
    auto dir = run_dir::existing(path);
    if (!dir)
      continue;
    const auto info = stat_of(path);
    const bool is_hidden = info && !may_trust(*info); // alive() may not read it
    if (!is_hidden && dir->alive().empty())
      continue;
    if (const auto other = recorded_name(*dir); other && *other != config->name)
      return fail(errc::not_found, "{} is not running: in {} another cluster runs, {}",
                  config->name, path.string(), *other);
    return as_its_owner({*std::move(dir), config->name});
  }
  return not_running(fmt::format("{} is not running", config->name), looked);
}

result<running_cluster> find_by_name(const std::string& name) {
  const auto parents = own_runtime_dirs();
  auto all = running_clusters(parents);
  std::erase_if(all, [&](const running_cluster& c) { return c.name != name; });
  if (all.size() == 1)
    return as_its_owner(std::move(all.front()));
  if (all.empty())
    return not_running(fmt::format("there is no file and no running cluster '{}'", name), parents);
  std::vector<std::string> paths;
  for (const auto& c : all)
    paths.push_back(c.dir.path().string() + "/");
  return fail(errc::conflict, "{} running clusters are named {}: give the directory of one: {}",
              all.size(), name, fmt::join(paths, ", "));
}

result<running_cluster> find_alone() {
  const auto parents = own_runtime_dirs();
  auto all = running_clusters(parents);
  if (all.size() == 1)
    return as_its_owner(std::move(all.front()));
  if (all.empty())
    return not_running("no cluster is running", parents);
  std::vector<std::string> names;
  for (const auto& c : all)
    names.push_back(c.name);
  std::sort(names.begin(), names.end());
  return fail(errc::conflict, "{} clusters are running: name one of {}", all.size(),
              fmt::join(names, ", "));
}

} // namespace

std::vector<fs::path> runtime_dirs(const char* xdg, uid_t user) {
  std::vector<fs::path> parents;
  if (xdg != nullptr && *xdg != 0)
    parents.push_back(fs::path(xdg) / "baton");
  for (const auto& path :
       {fs::path(fmt::format("/run/user/{}/baton", user)),
        fs::path(fmt::format("/tmp/baton-{}", user)), fs::path(unit_runtime_dir)})
    if (std::find(parents.begin(), parents.end(), path) == parents.end())
      parents.push_back(path);
  return parents;
}

result<void> record_running(const run_dir& dir, const std::string& name) {
  const auto records = default_run_dir(records_name);
  std::error_code failed;
  fs::create_directories(records, failed);
  if (failed)
    return fail(errc::io_failed, "{}: {}", records.string(), failed.message());
  const auto info = stat_of(records);
  if (!info || info->st_uid != geteuid())
    return fail(errc::io_failed, "{}: belongs to another user", records.string());
  fs::permissions(records, fs::perms::owner_all, failed);
  const auto in = run_dir::existing(records);
  if (failed || !in)
    return fail(errc::io_failed, "{}: {}", records.string(), failed.message());
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(records, failed))
    if (const auto recorded = read_record(entry.path()); !recorded || recorded->dir.alive().empty())
      old.push_back(entry.path());
  for (const auto& file : old)
    if (file.extension() != ".new") // another process is about to rename it
      fs::remove(file, failed);
  return in->write(record_file(dir), fmt::format("{}\n{}\n", name, dir.path().string()));
}

void forget_running(const run_dir& dir) {
  std::error_code ignored;
  const auto alive = dir.alive();
  if (std::all_of(alive.begin(), alive.end(),
                  [](const process_record& n) { return n.pid == getpid(); }))
    fs::remove(default_run_dir(records_name) / record_file(dir), ignored);
}

std::optional<std::string> recorded_name(const run_dir& dir) {
  for (const auto& parent : own_runtime_dirs())
    if (const auto recorded = read_record(parent / records_name / record_file(dir)))
      return recorded->name;
  return std::nullopt;
}

std::vector<running_cluster> running_clusters(const std::vector<fs::path>& parents) {
  std::vector<running_cluster> all;
  for (const auto& parent : parents)
    add_running_in(all, parent);
  return all;
}

std::vector<running_cluster> running_clusters_here() {
  return running_clusters(own_runtime_dirs());
}

result<running_cluster> find_cluster(const std::string& which) {
  if (which.empty())
    return find_alone();
  std::error_code failed;
  if (fs::is_regular_file(which, failed))
    return find_by_config(which);
  if (which.find('/') == std::string::npos || !fs::is_directory(which, failed))
    return find_by_name(which);
  auto dir = run_dir::existing(which); // a node with --run-dir
  if (!dir)
    return dir.error();
  const auto info = stat_of(dir->path());
  if (info && may_trust(*info) && dir->alive().empty())
    return not_running("no cluster is running there", {dir->path()});
  auto name = recorded_name(*dir).value_or(dir->path().filename().string());
  return as_its_owner({*std::move(dir), std::move(name)});
}

int exit_status_of_search(errc why) noexcept {
  if (why == errc::not_found)
    return exit_not_running;
  return why == errc::conflict ? exit_usage : exit_status_of(why);
}

int refuse_search(const error& why) {
  std::fprintf(stderr, "%s\n", why.message.c_str());
  return exit_status_of_search(why.code);
}

} // namespace baton::cluster
