#include "gateway/state/request_guard.hpp"

#include <spdlog/spdlog.h>

#include <exception>

namespace baton::gateway {

error fault_here(std::string_view door) noexcept {
  try {
    throw;
  } catch (const std::exception& e) {
    spdlog::error("door {}: a request ended with an exception: {}", door, e.what());
  } catch (...) {
    spdlog::error("door {}: a request ended with an unknown exception", door);
  }
  return fail(errc::internal, "the server failed at this request; its log says how");
}

} // namespace baton::gateway
