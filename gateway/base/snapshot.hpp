// The gateway's view of the cluster at one moment: the models, the pipelines that serve them, and
// whether they are ready. Pure.
//
// A model has one pipeline or several alike. It is ready while one of them is.
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
  std::string model; // as configured, until the card arrives
  std::optional<model_card> card;
  std::optional<load_report> load;
  std::optional<status> head;
  bool is_head_lost = false;
  std::string head_lost_why;
  std::uint32_t open_then = 0; // this gateway's open sequences there when `load` arrived
  std::uint64_t losses = 0;    // of its head so far; each one loses the head's cache
  // `load` with its counts added over all incarnations of the head; kept while the head is away.
  std::optional<load_report> totals{};
};
using pipeline_set = std::bitset<pipelines_max>;

struct snapshot {
  std::vector<pipeline_view> pipelines{pipeline_view{}}; // by index; empty: only worker models
  std::optional<cluster_status> cluster;
  bool is_draining = false;
};

struct standing {
  baton::phase phase = phase::starting;
  std::string reason; // empty when ready
};

// The status for /health: ready only if a request for any of the LLMs would be served now.
standing standing_of(const snapshot& s);
standing standing_of(const snapshot& s, const pipeline_view& p);
std::string_view name_of(phase p) noexcept; // "ready", "loading" ...
std::string_view name_of(role r) noexcept;  // "gateway", "shard" ...: also the roles of `cluster`

// Whether the state of every head is known: it has sent its card, is away, or is not ready yet.
bool knows_all_heads(const snapshot& s) noexcept;
// Whether the shards of a head are not ready as far as this gateway knows. A head reports to the
// root at the same moment, so the root may know it first.
bool awaits_head(const snapshot& s) noexcept;
const std::string& model_of(const pipeline_view& p) noexcept;
// The counts of its heads so far. Null: none yet.
const load_report* counts_of(const pipeline_view& p) noexcept;
bool is_ready(const pipeline_view& p) noexcept;
// True also for a model that its next request loads, and while it is loaded.
bool is_available(const pipeline_view& p) noexcept;
// True also for one that recovers: its queue is open.
bool takes_requests(const pipeline_view& p) noexcept;
// True also for one that drains: it completes its open streams.
bool serves_streams(const pipeline_view& p) noexcept;

// The indexes of the model's pipelines; empty: unknown model.
std::vector<std::uint32_t> pipelines_of(const snapshot& s, std::string_view model);
// Whether a pipeline of the model that is not in `but` is ready.
bool is_served(const snapshot& s, std::string_view model, const pipeline_set& but = {});
// The first pipeline; without an LLM an empty view.
const pipeline_view& first_of(const snapshot& s) noexcept;
// The known cards, one for each model, in the order of the pipelines.
std::vector<model_card> models_of(const snapshot& s);
// The model of the pipeline that granted the ticket; empty: unknown pipeline.
std::string_view model_of(const snapshot& s, ticket_id ticket) noexcept;
// The length of the shortest queue of this model, or of the first model if the name is unknown; 0:
// there is no LLM.
std::uint32_t waiting_for(const snapshot& s, std::string_view model);

// The card of a pipeline that serves `model`: a name, an alias of the first model, or empty for the
// first model. Errors: draining, not_ready, model_not_found (param "model").
result<model_card> find_model(const snapshot& s, const std::vector<std::string>& aliases,
                              std::string_view model);

} // namespace baton::gateway
