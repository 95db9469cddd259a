// One line on a terminal that is written over; nothing where stderr is no terminal.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

namespace baton::cluster {

class status_line {
public:
  bool is_terminal() const noexcept { return is_terminal_; }
  void show(const std::string& text) {
    if (is_terminal_)
      std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
    is_shown_ = is_terminal_;
  }
  void clear() {
    if (std::exchange(is_shown_, false))
      std::fputs("\r\x1b[K", stderr);
  }

private:
  const bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  bool is_shown_ = false;
};

} // namespace baton::cluster
