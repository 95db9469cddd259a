// What is known of the cluster at one moment, and what it means: who is ready, which models there
// are and who serves them. Pure.
//
// A model is served by one pipeline or by several alike. It is ready while one of them is.
#pragma once

#include "schema/ids.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// One pipeline, as its head describes it.
struct pipeline_view {
  std::string model; // as configured: its card comes later
  std::optional<model_card> card;
  std::optional<load_report> load;
  std::optional<status> head;
  bool is_head_lost = false;
  std::string head_lost_why;
  std::uint32_t open_then = 0; // sequences that this gateway had there when `load` came
  std::uint64_t losses = 0;    // of its head, so far: what it had cached is gone with it
  // `load` with its counts summed up over all lives of the head; it stays while the head is away.
  std::optional<load_report> totals{};
};
using pipeline_set = std::bitset<pipelines_max>;

struct snapshot {
  std::vector<pipeline_view> pipelines{pipeline_view{}}; // by number; none: worker models alone
  std::optional<cluster_status> cluster;
  bool is_draining = false;
};

struct standing {
  baton::phase phase = phase::starting;
  std::string reason; // empty when ready
};

// The truth for /health: ready only if a request that came now would be served, whichever LLM it is
// for.
standing standing_of(const snapshot& s);
standing standing_of(const snapshot& s, const pipeline_view& p);
std::string_view name_of(phase p) noexcept; // "ready", "loading" ...
std::string_view name_of(role r) noexcept;  // "gateway", "shard" ...: also the roles of `cluster`

// Whether every head has said how it stands, or is known to be away.
bool has_heard_all(const snapshot& s) noexcept;
const std::string& model_of(const pipeline_view& p) noexcept;
// What its heads have counted so far. Null: nothing yet.
const load_report* counts_of(const pipeline_view& p) noexcept;
bool is_ready(const pipeline_view& p) noexcept;
// Also one that recovers: its queue is open.
bool takes_requests(const pipeline_view& p) noexcept;
// Also one that drains: it brings to their ends those that it has.
bool serves_streams(const pipeline_view& p) noexcept;

// By their numbers; none if nobody has that model.
std::vector<std::uint32_t> pipelines_of(const snapshot& s, std::string_view model);
// Whether one of them that is not in `but` is ready.
bool is_served(const snapshot& s, std::string_view model, const pipeline_set& but = {});
// The first one; without an LLM one of which nothing is known.
const pipeline_view& first_of(const snapshot& s) noexcept;
// Of those that have said what they serve, each model's once, in the order of the pipelines.
std::vector<model_card> models_of(const snapshot& s);
// The model of the pipeline that has granted the ticket; empty: there is none such.
std::string_view model_of(const snapshot& s, ticket_id ticket) noexcept;
// Requests that wait at the shortest queue of this model (of the first one, if there is none such);
// 0: there is no LLM.
std::uint32_t waiting_for(const snapshot& s, std::string_view model);

// The card that `model` (a name, an alias of the first model, or empty for it) means, of a pipeline
// that serves it.
// Errors: draining, not_ready, model_not_found (param "model").
result<model_card> find_model(const snapshot& s, const std::vector<std::string>& aliases,
                              std::string_view model);

} // namespace baton::gateway
