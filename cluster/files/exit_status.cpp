#include "cluster/files/exit_status.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace baton::cluster {

int exit_status_of(errc why) noexcept {
  switch (why) {
  case errc::bad_config:
  case errc::unknown_key:
  case errc::bad_model_file:
  case errc::unsupported_model:
  case errc::does_not_fit:
  case errc::io_failed: // a file that is missing, or a directory that cannot be written
  case errc::address_in_use:
  case errc::conflict:
  case errc::not_found:    // a key file, the library of an engine
  case errc::start_failed: // a device, a driver, a library
  case errc::invalid_value:
  case errc::unauthorized:     // this machine's own key was revoked
  case errc::version_mismatch: // of a library
    return exit_permanent;
  default:
    return exit_failed;
  }
}

bool is_permanent_reason(std::string_view reason) noexcept {
  const auto status_text = fmt::format("exit status {}", exit_permanent);
  const auto at = reason.find(status_text);
  if (at == std::string_view::npos)
    return false;
  const auto behind = reason.substr(at + status_text.size());
  return behind.empty() || behind.front() == ':' || behind.front() == ' ';
}

int refuse_start(const error& why) {
  std::fprintf(stderr, "error: %s\n", why.message.c_str());
  return exit_status_of(why.code);
}

} // namespace baton::cluster
