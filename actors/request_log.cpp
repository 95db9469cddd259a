#include "actors/request_log.hpp"

namespace baton::actors {

void request_log::remember(const std::string& name, const named_request& request, time_point now) {
  if (const auto before = names_.find(name); before != names_.end())
    tickets_.erase(before->second.request.ticket);
  names_.insert_or_assign(name, entry{request, now});
  tickets_.insert_or_assign(request.ticket, name);
  if (names_.size() > count_max_)
    forget(tickets_.begin()->first);
}

std::optional<named_request> request_log::find(const std::string& name) const {
  const auto it = names_.find(name);
  return it == names_.end() ? std::nullopt : std::optional(it->second.request);
}

std::string request_log::name_of(ticket_id ticket) const {
  const auto it = tickets_.find(ticket);
  return it == tickets_.end() ? std::string() : it->second;
}

void request_log::forget(ticket_id ticket) {
  if (const auto it = tickets_.find(ticket); it != tickets_.end()) {
    names_.erase(it->second);
    tickets_.erase(it);
  }
}

void request_log::tick(time_point now, const std::function<bool(ticket_id)>& is_open) {
  for (auto it = names_.begin(); it != names_.end();) {
    auto& [request, open_at] = it->second;
    if (is_open(request.ticket)) {
      open_at = now;
    } else if (now - open_at >= window_) {
      tickets_.erase(request.ticket);
      it = names_.erase(it);
      continue;
    }
    ++it;
  }
}

} // namespace baton::actors
