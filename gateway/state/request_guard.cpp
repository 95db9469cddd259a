#include "gateway/state/request_guard.hpp"

#include <spdlog/spdlog.h>

#include <exception>

namespace baton::gateway {

error fault_here(std::string_view protocol) noexcept {
  try {
    throw;
  } catch (const std::exception& e) {
    spdlog::error("server {}: a request ended with an exception: {}", protocol, e.what());
  } catch (...) {
    spdlog::error("server {}: a request ended with an unknown exception", protocol);
  }
  return fail(errc::internal, "an internal error ended the request; see the server's log");
}

} // namespace baton::gateway
