#include "actors/reservations.hpp"

#include "schema/result.hpp"

namespace baton::actors {
namespace {

rejected refusal_of(const baton::reserve& m, error reason) {
  rejected no;
  no.request = m.request;
  no.reason = std::move(reason);
  return no;
}

} // namespace

reservations::answer reservations::reserve(const baton::reserve& m, epoch_id epoch,
                                           schedule::time_point now) {
  if (m.model != model_)
    return refusal_of(m, fail_param(errc::model_not_found, "model",
                                    "the model '{}' does not exist; this cluster serves '{}'",
                                    m.model, model_));
  if (!m.request_id.empty() && !m.ticket)
    if (const auto known = named_.find(m.request_id))
      return repeat(m, *known, epoch);
  auto given = core_.reserve(m, now);
  if (const auto* g = std::get_if<granted>(&given); g && !m.request_id.empty())
    named_.remember(m.request_id, {g->ticket, m.resume_key, m.request_digest, m.choices}, now);
  return std::visit([](auto& a) -> answer { return std::move(a); }, given);
}

reservations::answer reservations::repeat(const baton::reserve& m, const named_request& known,
                                          epoch_id epoch) {
  if (known.digest != m.request_digest || known.choices != m.choices)
    return refusal_of(m, fail_param(errc::conflict, "request_id",
                                    "request_id '{}' names another request", m.request_id));
  resume from{.request = m.request,
              .gateway = m.gateway,
              .ticket = known.ticket,
              .resume_key = known.resume_key,
              .from = std::vector<resume_point>(known.choices)};
  if (!core_.is_reserved(known.ticket))
    return from;
  core_.resume(from); // the first gateway has not submitted it
  return granted{.request = m.request,
                 .ticket = known.ticket,
                 .epoch = epoch,
                 .resume_key = known.resume_key,
                 .is_submitted = false};
}

std::optional<schedule::scheduler::recovered> reservations::recover(const resume& m,
                                                                    schedule::time_point now) {
  auto recovered = core_.rebuild_request(m, now);
  if (!recovered)
    return std::nullopt;
  auto& ask = recovered->reserve;
  ask.model = model_;
  ask.request_id = named_.name_of(m.ticket);
  if (const auto named = named_.find(ask.request_id))
    ask.request_digest = named->digest;
  return recovered;
}

void reservations::tick(schedule::time_point now) {
  named_.tick(now, [this](ticket_id ticket) { return core_.is_known(ticket); });
}

} // namespace baton::actors
