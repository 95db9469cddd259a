// Checks before workers start whether their Pythons have the needed packages. Each check runs in a
// process of its own (`python3 -m baton_worker.check`), which imports none of the packages.
#pragma once

#include "cluster/config/config.hpp"

#include <chrono>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace baton::cluster {

inline constexpr std::chrono::seconds python_answer_max{30};

struct worker_python {
  std::vector<std::string> prefix; // the command before -m: "env", "A=b", "python3"
  std::set<std::string> entries;   // of baton_worker: "onnx", "triton"; empty: its handlers

  std::string text() const;
  friend bool operator==(const worker_python&, const worker_python&) = default;
};

// The distinct Pythons of commands like `... -m baton_worker[.ENTRY] ...`. Pure.
std::vector<worker_python> pythons_of(std::span<const std::vector<std::string>> commands);

struct python_answer {
  bool is_good = false;
  std::string found;
  std::string fix;       // empty if `found` explains it
  bool is_needed = true; // by all entries; false: by some handlers only
};

// Ends within python_answer_max.
python_answer check_python(const worker_python& python);

} // namespace baton::cluster
