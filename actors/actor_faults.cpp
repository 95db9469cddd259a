#include "actors/actor_faults.hpp"

#include <spdlog/spdlog.h>

#include <exception>

namespace baton::actors {

void install_fault_handlers(caf::scheduled_actor* self) {
  self->set_exception_handler([self](std::exception_ptr& failure) -> caf::error {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      spdlog::error("actor {}: exception out of a handler: {}", self->name(), e.what());
    } catch (...) {
      spdlog::error("actor {}: unknown exception out of a handler", self->name());
    }
    return caf::sec::runtime_error;
  });
  self->set_default_handler(
      [self](caf::scheduled_actor*, caf::message_view& view) -> caf::result<caf::message> {
        spdlog::warn("actor {}: unexpected message of {} elements", self->name(),
                     view.content().size());
        return caf::sec::unexpected_message;
      });
}

} // namespace baton::actors
