#include "gateway/state/request_guard.hpp"

#include <spdlog/spdlog.h>

#include <exception>

namespace baton::gateway {

error fault_here(std::string_view door) noexcept {
  try {
    throw;
  } catch (const std::exception& e) {
    spdlog::error("server {}: a request ended with an exception: {}", door, e.what());
  } catch (...) {
    spdlog::error("server {}: a request ended with an unknown exception", door);
  }
  return fail(errc::internal, "an internal error ended the request; see the server's log");
}

} // namespace baton::gateway
