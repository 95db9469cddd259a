// Processes that did not end after SIGKILL, beside which their next incarnations run. Each costs a
// restart, so that the intensity bounds their number.
#pragma once

#include "actors/supervision/supervisor_config.hpp"

#include <string>
#include <vector>

namespace baton::actors {

class abandoned_processes {
public:
  void add(const child& c);
  // True if the exit is that of an abandoned process, which is forgotten.
  bool take_exit(const child_exited& m);
  // Names the remaining ones in the log.
  void log() const;

private:
  struct process {
    std::string name;
    process_id id;
    incarnation_id incarnation;
    std::int32_t pid = 0;
  };
  std::vector<process> all_;
};

} // namespace baton::actors
