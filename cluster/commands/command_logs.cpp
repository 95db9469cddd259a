// `cluster logs`: the ends of the processes' log files, and what is added to them.
#include "cluster/commands/commands.hpp"
#include "cluster/roles/process.hpp"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds follow_interval{200};

// A log file that is read up to a position.
struct followed_log {
  std::string name;
  fs::path file;
  std::streamoff read_to = 0;
};

class log_printer {
public:
  explicit log_printer(std::vector<followed_log> logs) : logs_(std::move(logs)) {
    for (const auto& l : logs_)
      width_ = std::max(width_, l.name.size());
  }
  // The last `most` lines of each.
  void show_ends(std::size_t most) {
    for (auto& l : logs_) {
      std::deque<std::string> last;
      read(l, [&](const std::string& line) {
        last.push_back(line);
        if (last.size() > most)
          last.pop_front();
      });
      for (const auto& line : last)
        print(l, line);
    }
    std::fflush(stdout);
  }
  void show_new() {
    for (auto& l : logs_)
      read(l, [&](const std::string& line) { print(l, line); });
    std::fflush(stdout);
  }

private:
  // Complete lines from read_to on.
  template <class Take>
  static void read(followed_log& l, const Take& take) {
    std::ifstream in(l.file, std::ios::binary | std::ios::ate);
    if (in && in.tellg() < l.read_to)
      l.read_to = 0; // it was made anew
    in.seekg(l.read_to);
    for (std::string line; std::getline(in, line) && !in.eof();) {
      l.read_to += static_cast<std::streamoff>(line.size()) + 1;
      take(line);
    }
  }
  void print(const followed_log& l, const std::string& line) const {
    if (logs_.size() == 1)
      std::printf("%s\n", line.c_str());
    else
      std::printf("%-*s | %s\n", static_cast<int>(width_), l.name.c_str(), line.c_str());
  }

  std::vector<followed_log> logs_;
  std::size_t width_ = 0;
};

} // namespace

int command_logs(const logs_options& options) {
  const auto found = find_cluster(options.which);
  if (!found)
    return refuse_search(found.error());
  constexpr std::string_view ending = ".log";
  std::vector<followed_log> logs;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(found->dir.path(), failed))
    if (entry.path().extension() == ending)
      logs.push_back({entry.path().stem().string(), entry.path(), 0});
  std::sort(logs.begin(), logs.end(),
            [](const followed_log& a, const followed_log& b) { return a.name < b.name; });
  std::vector<std::string> names;
  for (const auto& l : logs)
    names.push_back(l.name);
  if (!options.process.empty()) {
    std::erase_if(logs, [&](const followed_log& l) { return l.name != options.process; });
    if (logs.empty())
      return refuse_command(fail(errc::not_found, "cluster {} has no log of '{}'; it has {}",
                                 found->name, options.process, fmt::join(names, ", ")));
  }
  log_printer out(std::move(logs));
  out.show_ends(options.lines);
  while (options.follow && wait_for_end(follow_interval) == 0)
    out.show_new();
  return 0;
}

} // namespace baton::cluster
