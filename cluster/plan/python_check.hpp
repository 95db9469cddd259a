// Before workers start: do the Pythons that run them have what they need? Each is asked in a
// process of its own (`python3 -m baton_worker.check`), which imports nothing of what it looks for.
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
  std::vector<std::string> words; // of a command, up to its -m: "env", "A=b", "python3"
  std::set<std::string> entries;  // of baton_worker: "onnx", "triton"; none: its own handlers

  std::string text() const;
  friend bool operator==(const worker_python&, const worker_python&) = default;
};

// Of those commands that are `... -m baton_worker[.ENTRY] ...`, each Python once. Pure.
std::vector<worker_python> pythons_of(std::span<const std::vector<std::string>> commands);

struct python_answer {
  bool is_good = false;
  std::string found;
  std::string fix;       // empty: `found` says it
  bool is_needed = true; // what is missing, by all that it runs: else by some handlers alone
};

// Ends within python_answer_max.
python_answer ask_python(const worker_python& python);

} // namespace baton::cluster
