#include "gateway/admission/admission.hpp"

#include "gateway/dispatch/request_tracker.hpp"
#include "gateway/request/json_reader.hpp"
#include "gateway/request/model_defaults.hpp"
#include "gateway/request/request_check.hpp"
#include "gateway/state/refusal.hpp"
#include "gateway/workers/repository_client.hpp"
#include "gateway/workers/worker_pool.hpp"
#include "schema/limits.hpp"

#include <ctime>
#include <utility>

namespace baton::gateway {
namespace {

open_result refused(rejected no, const trace_handle& trace) {
  if (trace) {
    trace->data.failed_by(no.reason.code, request_trace::instant::clock::now());
  }
  return no;
}

} // namespace

open_request::open_request(actors::takes<close_request> owner, std::shared_ptr<stream> out,
                           std::string model, cancel_reason if_lost)
    : owner_(std::move(owner)), stream_(std::move(out)), model_(std::move(model)),
      if_lost_(if_lost) {}

open_request::~open_request() {
  close(if_lost_);
}

open_request::open_request(open_request&& other) noexcept
    : owner_(std::move(other.owner_)), stream_(std::move(other.stream_)),
      model_(std::move(other.model_)), if_lost_(other.if_lost_), is_ended_(other.is_ended_) {}

open_request& open_request::operator=(open_request&& other) noexcept {
  if (this != &other) {
    close(if_lost_);
    owner_ = std::move(other.owner_);
    stream_ = std::move(other.stream_);
    model_ = std::move(other.model_);
    if_lost_ = other.if_lost_;
    is_ended_ = other.is_ended_;
  }
  return *this;
}

void open_request::close(cancel_reason why) noexcept {
  if (!stream_) {
    return;
  }
  stream_->detach();
  if (!std::exchange(is_ended_, true)) {
    caf::anon_send(owner_, close_request{stream_->number(), why});
  }
}

admission::admission(request_router_actor router, std::shared_ptr<gateway_state> facts,
                     std::string protocol)
    : router_(std::move(router)), facts_(std::move(facts)), protocol_(std::move(protocol)) {}

rejected admission::refuse(error why, std::string_view model) {
  counts().refused(protocol_, why.code);
  return refuse_here(std::move(why), *facts_->look(), model);
}

std::variant<std::shared_ptr<quota_lease>, rejected> admission::lease_for(const principal& who,
                                                                          bool is_new) {
  const auto now = facts_->authenticator().renew(who);
  if (!now) {
    return refuse(now.error());
  }
  const auto& account = now->account;
  if (!account) {
    return std::shared_ptr<quota_lease>();
  }
  if (!is_new) {
    account->begin_resumed();
    return std::make_shared<quota_lease>(account);
  }
  if (const auto used_up = account->begin(authenticator::instant::clock::now())) {
    auto no = refuse(fail_param(errc::rate_limit_exceeded, used_up->quota,
                                "the API key '{}' has used up its {} ({})", account->name(),
                                used_up->quota, used_up->limit));
    no.retry_after = used_up->retry_after;
    return no;
  }
  return std::make_shared<quota_lease>(account);
}

std::variant<admission::admitted_request, rejected>
admission::admit(const principal& who, bool is_new, std::string_view model, generate* request) {
  auto card = find_model(*facts_->look(), facts_->config().model_aliases, model);
  if (!card) {
    return refuse(card.error(), model);
  }
  if (request) {
    if (auto ok = check_against_model(*request, *card); !ok) {
      return refuse(ok.error(), model);
    }
    if (auto ok = take_defaults(card->sampling, *request); !ok) {
      return refuse(ok.error(), model);
    }
  }
  auto lease = lease_for(who, is_new);
  if (auto* no = std::get_if<rejected>(&lease)) {
    return std::move(*no);
  }
  if (!facts_->enter()) {
    return refuse_full(card->name);
  }
  counts().request_opened(protocol_);
  return admitted_request{*std::move(card), std::get<0>(std::move(lease))};
}

std::shared_ptr<stream> admission::new_stream(std::function<void()> wake) {
  return std::make_shared<stream>(facts_->next_number(), facts_->config().stream_buffer_max_bytes,
                                  std::move(wake));
}

trace_handle admission::trace_for(const principal& who, request_trace::operation asks,
                                  std::string_view model) {
  auto trace = trace_of(who);
  if (trace) {
    trace->data.asks_for(asks, model);
  }
  return trace;
}

trace_handle admission::trace_of(const principal& who) {
  const auto& to = facts_->tracer();
  return to ? to->begin(who.trace, protocol_, request_trace::instant::clock::now()) : nullptr;
}

void admission::trace_refusal(const principal& who, std::string route, int http_status) {
  if (const auto trace = trace_of(who)) {
    trace->data.route = std::move(route);
    trace->data.refused_with(http_status, request_trace::instant::clock::now());
  }
}

void admission::trace_refusal(const principal& who, errc reason) {
  if (const auto trace = trace_of(who)) {
    trace->data.failed_by(reason, request_trace::instant::clock::now());
  }
}

rejected admission::refuse_full(std::string_view model) {
  return refuse(fail(errc::overloaded, "the gateway serves {} requests, its limit; try again later",
                     facts_->config().requests_max),
                model);
}

namespace {

constexpr std::size_t parameters_depth_max = 32; // handlers in any language parse them

// Null: not found.
worker_pool_actor find_worker_pool(const gateway_state& facts, const std::string& name,
                                   const std::string& version) {
  const auto all = facts.workers();
  const auto* model = all ? all->find(name, version) : nullptr;
  return model ? model->pool : worker_pool_actor();
}

// Why no pool has it. A client should wait for a model that loads.
error no_worker_model(const gateway_state& facts, const std::string& name,
                      const std::string& version) {
  const auto of_version = version.empty() ? "" : fmt::format(", version {}", version);
  for (const auto& m : facts.models()->all) {
    if (m.name != name || (!version.empty() && m.version != version)) {
      continue;
    }
    if (m.state == model_state::loading) {
      return fail_param(errc::not_ready, "model", "the model '{}'{} is being loaded", name,
                        of_version);
    }
    if (!m.reason.empty()) {
      return fail_param(errc::model_not_found, "model", "the model '{}'{} is not served: {}", name,
                        of_version, m.reason);
    }
  }
  return fail_param(errc::model_not_found, "model", "no worker serves the model '{}'{}", name,
                    of_version);
}

cancel_reason if_lost(bool is_resumable) {
  return is_resumable ? cancel_reason::client_lost : cancel_reason::client_gone;
}

// The local time of day, as the seconds that UTC would have for it.
std::int64_t local_seconds_now() {
  const auto now = std::time(nullptr);
  std::tm local{};
  return localtime_r(&now, &local) ? timegm(&local) : now;
}

// By the name, which stays when its key is rotated. No name contains a space.
void set_principal(generate& request, std::string_view name) {
  if (name.empty()) {
    return;
  }
  request.terms.cache_salt = fmt::format("{} {}", name, request.terms.cache_salt);
  if (!request.request_id.empty()) {
    request.request_id = fmt::format("{} {}", name, request.request_id);
  }
}

} // namespace

open_result admission::open(const principal& who, generate request, bool add_generation_prompt,
                            bool is_stream, std::function<void()> wake) {
  auto trace = trace_of(who);
  if (trace) {
    trace->data.asks_for(request);
  }
  set_principal(request, who.name());
  if (auto ok = check_limits(request); !ok) {
    return refused(refuse(ok.error()), trace);
  }
  auto entry = admit(who, /*is_new=*/true, request.model, &request);
  if (auto* no = std::get_if<rejected>(&entry)) {
    return refused(std::move(*no), trace);
  }
  auto& [card, lease] = std::get<admitted_request>(entry);
  if (trace) {
    trace->data.asks_for(request); // with the model's defaults
    trace->data.opened(card.name, request.terms.choices);
  }
  auto out = new_stream(std::move(wake));
  request.request = out->number();
  request.model = card.name;
  request.template_options.local_seconds = local_seconds_now();
  const auto lost = if_lost(request.is_resumable || !request.request_id.empty());
  caf::anon_send(router_, open_generate{.out = out,
                                        .request = std::move(request),
                                        .add_generation_prompt = add_generation_prompt,
                                        .is_stream = is_stream,
                                        .lease = std::move(lease),
                                        .inflight = nullptr,
                                        .trace = std::move(trace)});
  return open_request(router_, std::move(out), card.name, lost);
}

open_result admission::resume(const principal& who, std::string_view model, stream_position from,
                              bool is_resumable, std::function<void()> wake) {
  auto trace = trace_for(who, request_trace::operation::resume, model);
  const auto now = facts_->look();
  if (model.empty()) { // SDK clients name none
    model = model_of(*now, from.ticket);
  }
  auto entry = admit(who, /*is_new=*/false, model, nullptr);
  if (auto* no = std::get_if<rejected>(&entry)) {
    return refused(std::move(*no), trace);
  }
  auto& [card, lease] = std::get<admitted_request>(entry);
  if (trace) {
    trace->data.opened(card.name, static_cast<std::uint32_t>(from.from.size()));
  }
  auto out = new_stream(std::move(wake));
  caf::anon_send(router_, open_resume{.out = out,
                                      .model = card.name,
                                      .ticket = from.ticket,
                                      .resume_key = from.resume_key,
                                      .from = std::move(from.from),
                                      .lease = std::move(lease),
                                      .inflight = nullptr,
                                      .trace = std::move(trace)});
  return open_request(router_, std::move(out), card.name, if_lost(is_resumable));
}

open_result admission::tokenize(const principal& who, std::string_view model, baton::tokenize what,
                                std::function<void()> wake) {
  auto trace = trace_for(who, request_trace::operation::tokenize, model);
  if (auto ok = check_limits(what); !ok) {
    return refused(refuse(ok.error()), trace);
  }
  auto entry = admit(who, /*is_new=*/true, model, nullptr);
  if (auto* no = std::get_if<rejected>(&entry)) {
    return refused(std::move(*no), trace);
  }
  auto& [card, lease] = std::get<admitted_request>(entry);
  if (trace) {
    trace->data.opened(card.name, 0);
  }
  auto out = new_stream(std::move(wake));
  what.template_options.local_seconds = local_seconds_now();
  caf::anon_send(router_, open_tokenize{.out = out,
                                        .input = std::move(what.input),
                                        .add_generation_prompt = what.add_generation_prompt,
                                        .lease = std::move(lease),
                                        .model = card.name,
                                        .trace = std::move(trace),
                                        .tools = std::move(what.tools),
                                        .template_options = std::move(what.template_options)});
  return open_request(router_, std::move(out), card.name);
}

open_result admission::detokenize(const principal& who, std::string_view model,
                                  std::vector<token_id> ids, std::function<void()> wake) {
  auto trace = trace_for(who, request_trace::operation::detokenize, model);
  if (ids.size() > limits::ids_max) {
    return refused(refuse(fail_param(errc::payload_too_large, "tokens",
                                     "{} tokens are more than the {} that fit into a message",
                                     ids.size(), limits::ids_max)),
                   trace);
  }
  auto entry = admit(who, /*is_new=*/true, model, nullptr);
  if (auto* no = std::get_if<rejected>(&entry)) {
    return refused(std::move(*no), trace);
  }
  auto& [card, lease] = std::get<admitted_request>(entry);
  if (trace) {
    trace->data.opened(card.name, 0);
  }
  auto out = new_stream(std::move(wake));
  caf::anon_send(router_, open_detokenize{.out = out,
                                          .ids = std::move(ids),
                                          .lease = std::move(lease),
                                          .model = card.name,
                                          .trace = std::move(trace)});
  return open_request(router_, std::move(out), card.name);
}

open_result admission::infer(const principal& who, baton::infer request, std::function<void()> wake,
                             bool goes_alone) {
  auto trace = trace_for(who, request_trace::operation::infer, request.model);
  if (auto ok = check_limits(request); !ok) {
    return refused(refuse(ok.error()), trace);
  }
  if (!request.parameters.empty()) {
    if (auto ok = parse_body(request.parameters, parameters_depth_max); !ok) {
      return refused(refuse(ok.error()), trace);
    }
  }
  if (facts_->look()->is_draining) {
    return refused(refuse(fail(errc::draining, "the server is draining: it takes no new requests")),
                   trace);
  }
  const auto pool = find_worker_pool(*facts_, request.model, request.version);
  if (!pool) {
    return refused(refuse(no_worker_model(*facts_, request.model, request.version)), trace);
  }
  auto lease = lease_for(who, /*is_new=*/true);
  if (auto* no = std::get_if<rejected>(&lease)) {
    return refused(std::move(*no), trace);
  }
  if (!facts_->enter()) {
    return refused(refuse_full(request.model), trace);
  }
  if (trace) {
    trace->data.opened(request.model, 0);
  }
  counts().request_opened(protocol_);
  auto out =
      std::make_shared<stream>(facts_->next_number(), worker_answer_bytes_max, std::move(wake));
  request.request = out->number();
  request.deadline = sooner(request.deadline, facts_->config().request_deadline);
  auto name = request.model;
  caf::anon_send(pool, open_infer{.out = out,
                                  .request = std::move(request),
                                  .lease = std::get<0>(std::move(lease)),
                                  .trace = std::move(trace),
                                  .goes_alone = goes_alone});
  return open_request(pool, std::move(out), std::move(name));
}

open_result admission::change(const change_model& what, std::function<void()> wake) {
  if (facts_->look()->is_draining)
    return refuse(fail(errc::draining, "the server is draining: it loads no models"));
  if (!facts_->repository())
    return refuse(
        fail(errc::conflict, "nodes.toml has no [model_repository], and no [model_store]"));
  auto out =
      std::make_shared<stream>(facts_->next_number(), worker_answer_bytes_max, std::move(wake));
  const auto& owner = facts_->repository()->client;
  caf::anon_send(owner, open_change{out, what});
  return open_request(owner, std::move(out), what.model);
}

} // namespace baton::gateway
