// Pipeline lifecycle, membership and supervision, and clients' queries about them.
#include "schema/codec_parts.hpp"

#include <algorithm>

namespace baton::codec {

offset<wire::StageReady> put(writer& out, const stage_ready& m) {
  auto device = out.text(m.device, limits::name_bytes_max);
  return wire::CreateStageReady(out.buffer, m.process.value, m.incarnation.value, m.stage, m.stages,
                                m.blocks, m.block_positions, m.model_hash, device, m.kv_incarnation,
                                m.swap_blocks, m.rank, m.width, m.generation, m.pools);
}

void get(reader& in, const wire::StageReady& from, stage_ready& to) {
  to.process = {from.node()};
  to.incarnation = {from.node_epoch()};
  to.stage = from.stage();
  in.at_most(from.stages(), limits::stages_max, "stage_ready.stages");
  to.stages = from.stages();
  to.blocks = from.blocks();
  to.block_positions = from.block_positions();
  to.model_hash = from.model_hash();
  in.text(from.device(), to.device, limits::name_bytes_max, "stage_ready.device");
  to.kv_incarnation = from.kv_life();
  to.swap_blocks = from.swap_blocks();
  to.rank = from.rank();
  in.at_most(from.width(), limits::stages_max, "stage_ready.width");
  to.width = from.width();
  to.generation = from.generation();
  to.pools = from.pools();
}

offset<wire::Generation> put(writer& out, const generation& m) {
  ENSURE(m.without.size() <= limits::nodes_max, "{} nodes", m.without.size());
  std::vector<offset<flatbuffers::String>> names;
  for (const auto& name : m.without)
    names.push_back(out.text(name, limits::name_bytes_max));
  const auto without = names.empty() ? 0 : out.buffer.CreateVector(names);
  return wire::CreateGeneration(out.buffer, m.number, m.stages, without, m.width);
}

void get(reader& in, const wire::Generation& from, generation& to) {
  to.number = from.number();
  in.at_most(from.stages(), limits::stages_max, "generation.stages");
  to.stages = from.stages();
  if (from.width() == 0)
    return in.refuse("generation.width is 0");
  in.at_most(from.width(), limits::stages_max / std::max(from.stages(), 1u), "generation.width");
  to.width = from.width();
  if (from.without() == nullptr)
    return;
  in.at_most(from.without()->size(), limits::nodes_max, "generation.without");
  for (flatbuffers::uoffset_t i = 0; i < from.without()->size() && !in.refusal(); ++i) {
    in.text(from.without()->Get(i), to.without.emplace_back(), limits::name_bytes_max,
            "generation.without");
    if (to.without.back()
            .empty()) // an empty text is left out of tables, so an empty name is invalid
      in.refuse("generation.without has an empty name");
  }
}

offset<wire::Generations> put(writer& out, const generations& m) {
  const auto serving = put(out, m.serving);
  const auto coming = out.optional(m.coming);
  return wire::CreateGenerations(out.buffer, serving, coming, m.pipeline);
}

void get(reader& in, const wire::Generations& from, generations& to) {
  in.table(from.serving(), to.serving);
  in.optional(from.coming(), to.coming);
  in.at_most(from.pipeline(), pipelines_max - 1, "generations.pipeline");
  to.pipeline = from.pipeline();
}

offset<wire::Serves> put(writer& out, const serves& m) {
  return wire::CreateServes(out.buffer, m.generation);
}

void get(reader&, const wire::Serves& from, serves& to) {
  to.generation = from.generation();
}

offset<wire::Joined> put(writer& out, const joined& m) {
  const auto facts = out.text(m.facts, limits::machines_bytes_max);
  const auto keys = out.text(m.keys, limits::machines_bytes_max);
  const auto nodes = out.text(m.nodes, limits::machines_bytes_max);
  return wire::CreateJoined(out.buffer, facts, keys, nodes);
}

void get(reader& in, const wire::Joined& from, joined& to) {
  in.text(from.facts(), to.facts, limits::machines_bytes_max, "joined.facts");
  in.text(from.keys(), to.keys, limits::machines_bytes_max, "joined.keys");
  in.text(from.nodes(), to.nodes, limits::machines_bytes_max, "joined.nodes");
}

offset<wire::StageAddress> put(writer& out, const stage_address& m) {
  auto endpoint = out.text(m.endpoint, limits::name_bytes_max);
  return wire::CreateStageAddress(out.buffer, m.process.value, m.incarnation.value, endpoint);
}

void get(reader& in, const wire::StageAddress& from, stage_address& to) {
  to.process = {from.node()};
  to.incarnation = {from.node_epoch()};
  in.text(from.endpoint(), to.endpoint, limits::name_bytes_max, "stage_address.endpoint");
}

offset<wire::KvHandover> put(writer& out, const kv_handover& m) {
  auto lives = out.numbers(m.kv_incarnations, limits::stages_max);
  auto blocks = out.numbers(m.blocks, limits::copies_max);
  return wire::CreateKvHandover(out.buffer, lives, blocks);
}

void get(reader& in, const wire::KvHandover& from, kv_handover& to) {
  in.numbers(from.lives(), to.kv_incarnations, limits::stages_max, "kv_handover.lives");
  in.numbers(from.blocks(), to.blocks, limits::copies_max, "kv_handover.blocks");
}

offset<wire::OpenEpoch> put(writer& out, const open_epoch& m) {
  auto stages = out.tables(m.stages, limits::stages_max);
  auto takes = out.optional(m.takes);
  return wire::CreateOpenEpoch(out.buffer, m.epoch.value, m.stage, stages, m.rank, m.width, takes);
}

void get(reader& in, const wire::OpenEpoch& from, open_epoch& to) {
  to.epoch = {from.epoch()};
  to.stage = from.stage();
  in.tables(from.stages(), to.stages, limits::stages_max, "open_epoch.stages");
  to.rank = from.rank();
  in.at_most(from.width(), limits::stages_max, "open_epoch.width");
  to.width = from.width();
  in.optional(from.takes(), to.takes);
}

offset<wire::EpochOpened> put(writer& out, const epoch_opened& m) {
  return wire::CreateEpochOpened(out.buffer, m.epoch.value, m.stage, m.rank, m.has_taken);
}

void get(reader&, const wire::EpochOpened& from, epoch_opened& to) {
  to = {{from.epoch()}, from.stage(), from.rank(), from.has_taken()};
}

offset<wire::Hello> put(writer& out, const hello& m) {
  auto name = out.text(m.name, limits::name_bytes_max);
  auto endpoint = out.text(m.endpoint, limits::name_bytes_max);
  auto build = out.text(m.build, limits::name_bytes_max);
  auto api_key = out.text(m.api_key, limits::name_bytes_max);
  return wire::CreateHello(out.buffer, m.process.value, m.incarnation.value,
                           static_cast<wire::Role>(m.role), name, endpoint, build, m.pid, api_key,
                           m.load_micros);
}

void get(reader& in, const wire::Hello& from, hello& to) {
  to.process = {from.node()};
  to.incarnation = {from.epoch()};
  in.one_of(from.role(), to.role, role::root, role::worker, "hello.role");
  in.text(from.name(), to.name, limits::name_bytes_max, "hello.name");
  in.text(from.endpoint(), to.endpoint, limits::name_bytes_max, "hello.endpoint");
  in.text(from.build(), to.build, limits::name_bytes_max, "hello.build");
  to.pid = from.pid();
  in.text(from.api_key(), to.api_key, limits::name_bytes_max, "hello.api_key");
  to.load_micros = from.load_micros();
}

offset<wire::HelloAck> put(writer& out, const hello_ack& m) {
  auto refused = out.optional(m.refused);
  return wire::CreateHelloAck(out.buffer, m.process.value, m.incarnation.value, m.credit_bytes,
                              refused);
}

void get(reader& in, const wire::HelloAck& from, hello_ack& to) {
  to.process = {from.node()};
  to.incarnation = {from.epoch()};
  to.credit_bytes = from.credit_bytes();
  in.optional(from.refused(), to.refused);
}

offset<wire::Heartbeat> put(writer& out, const heartbeat& m) {
  return wire::CreateHeartbeat(out.buffer, m.count, m.steps);
}

void get(reader&, const wire::Heartbeat& from, heartbeat& to) {
  to = {from.count(), from.steps()};
}

offset<wire::Credit> put(writer& out, const credit& m) {
  return wire::CreateCredit(out.buffer, m.bytes_total);
}

void get(reader&, const wire::Credit& from, credit& to) {
  to = {from.bytes_total()};
}

offset<wire::Supervision> put(writer& out, const supervision& m) {
  return wire::CreateSupervision(out.buffer, out.text(m.by, limits::name_bytes_max),
                                 static_cast<wire::RestartStrategy>(m.strategy), m.restarts_max,
                                 m.period_seconds, m.restarts_recent, m.has_given_up);
}

void get(reader& in, const wire::Supervision& from, supervision& to) {
  in.text(from.by(), to.by, limits::name_bytes_max, "supervision.by");
  in.one_of(from.strategy(), to.strategy, restart_strategy::one_for_one,
            restart_strategy::rest_for_one, "supervision.strategy");
  to.restarts_max = from.restarts_max();
  to.period_seconds = from.period_seconds();
  to.restarts_recent = from.restarts_recent();
  to.has_given_up = from.has_given_up();
}

offset<wire::Status> put(writer& out, const status& m) {
  auto name = out.text(m.name, limits::name_bytes_max);
  auto reason = out.reason(m.reason);
  auto supervision = out.optional(m.supervision);
  return wire::CreateStatus(
      out.buffer, m.process.value, m.incarnation.value, static_cast<wire::Role>(m.role), name,
      static_cast<wire::Phase>(m.phase), reason, m.pid, m.restarts, m.progress, supervision);
}

void get(reader& in, const wire::Status& from, status& to) {
  to.process = {from.node()};
  to.incarnation = {from.epoch()};
  in.one_of(from.role(), to.role, role::root, role::worker, "status.role");
  in.text(from.name(), to.name, limits::name_bytes_max, "status.name");
  in.one_of(from.phase(), to.phase, phase::starting, phase::failed, "status.phase");
  in.text(from.reason(), to.reason, limits::reason_bytes_max, "status.reason");
  to.pid = from.pid();
  to.restarts = from.restarts();
  to.progress = from.progress();
  in.optional(from.supervision(), to.supervision);
}

offset<wire::SizeCounts> put(writer& out, const size_counts& m) {
  return wire::CreateSizeCounts(out.buffer, out.numbers(m.counts, limits::size_counts_max), m.sum);
}

void get(reader& in, const wire::SizeCounts& from, size_counts& to) {
  in.numbers(from.counts(), to.counts, limits::size_counts_max, "load_report.counts");
  to.sum = from.sum();
}

offset<wire::LoadReport> put(writer& out, const load_report& m) {
  auto model = out.text(m.model, limits::name_bytes_max);
  auto step_rows = put(out, m.step_rows);
  auto prefill_micros = put(out, m.prefill_micros);
  auto decode_micros = put(out, m.decode_micros);
  auto stage_busy_micros = out.numbers(m.stage_busy_micros, limits::stages_max);
  wire::LoadReportBuilder table(out.buffer);
  table.add_model(model);
  table.add_running(m.running);
  table.add_waiting(m.waiting);
  table.add_blocks_used(m.blocks_used);
  table.add_blocks_total(m.blocks_total);
  table.add_in_flight(m.in_flight);
  table.add_prompt_tokens(m.prompt_tokens);
  table.add_output_tokens(m.output_tokens);
  table.add_steps(m.steps);
  table.add_preemptions(m.preemptions);
  table.add_epochs(m.epochs);
  table.add_recoveries(m.recoveries);
  table.add_recovery_seconds(m.recovery_seconds);
  table.add_bubble_ratio(m.bubble_ratio);
  table.add_stage_busy_micros(stage_busy_micros);
  table.add_prefix_cache_queries(m.prefix_cache_queries);
  table.add_prefix_cache_hits(m.prefix_cache_hits);
  table.add_spec_decode_drafts(m.spec_decode_drafts);
  table.add_spec_decode_draft_tokens(m.spec_decode_draft_tokens);
  table.add_spec_decode_accepted_tokens(m.spec_decode_accepted_tokens);
  table.add_swapped(m.swapped);
  table.add_swap_blocks_used(m.swap_blocks_used);
  table.add_swap_blocks_total(m.swap_blocks_total);
  table.add_swapped_out_blocks(m.swapped_out_blocks);
  table.add_swapped_in_blocks(m.swapped_in_blocks);
  table.add_max_batch_total_tokens(m.max_batch_total_tokens);
  table.add_detached(m.orphaned);
  table.add_running_tokens(m.running_tokens);
  table.add_running_max_tokens(m.running_max_tokens);
  table.add_step_rows(step_rows);
  table.add_prefill_micros(prefill_micros);
  table.add_decode_micros(decode_micros);
  table.add_prefills_failed(m.prefills_failed);
  table.add_decodes_failed(m.decodes_failed);
  return table.Finish();
}

void get(reader& in, const wire::LoadReport& from, load_report& to) {
  in.text(from.model(), to.model, limits::name_bytes_max, "load_report.model");
  to.running = from.running();
  to.waiting = from.waiting();
  to.blocks_used = from.blocks_used();
  to.blocks_total = from.blocks_total();
  to.in_flight = from.in_flight();
  to.prompt_tokens = from.prompt_tokens();
  to.output_tokens = from.output_tokens();
  to.steps = from.steps();
  to.preemptions = from.preemptions();
  to.epochs = from.epochs();
  to.recoveries = from.recoveries();
  to.recovery_seconds = from.recovery_seconds();
  to.bubble_ratio = from.bubble_ratio();
  to.prefix_cache_queries = from.prefix_cache_queries();
  to.prefix_cache_hits = from.prefix_cache_hits();
  to.spec_decode_drafts = from.spec_decode_drafts();
  to.spec_decode_draft_tokens = from.spec_decode_draft_tokens();
  to.spec_decode_accepted_tokens = from.spec_decode_accepted_tokens();
  to.swapped = from.swapped();
  to.swap_blocks_used = from.swap_blocks_used();
  to.swap_blocks_total = from.swap_blocks_total();
  to.swapped_out_blocks = from.swapped_out_blocks();
  to.swapped_in_blocks = from.swapped_in_blocks();
  to.max_batch_total_tokens = from.max_batch_total_tokens();
  to.orphaned = from.detached();
  to.running_tokens = from.running_tokens();
  to.running_max_tokens = from.running_max_tokens();
  in.table(from.step_rows(), to.step_rows);
  in.table(from.prefill_micros(), to.prefill_micros);
  in.table(from.decode_micros(), to.decode_micros);
  to.prefills_failed = from.prefills_failed();
  to.decodes_failed = from.decodes_failed();
  in.numbers(from.stage_busy_micros(), to.stage_busy_micros, limits::stages_max,
             "load_report.stage_busy_micros");
}

offset<wire::Drain> put(writer& out, const drain& m) {
  return wire::CreateDrain(out.buffer, m.grace.count());
}

void get(reader& in, const wire::Drain& from, drain& to) {
  in.duration(from.grace_ms(), to.grace, "drain.grace");
}

offset<wire::QueryStatus> put(writer& out, const query_status& m) {
  return wire::CreateQueryStatus(out.buffer, m.request);
}

void get(reader&, const wire::QueryStatus& from, query_status& to) {
  to.request = from.request();
}

offset<wire::PipelineStatus> put(writer& out, const pipeline_status& m) {
  const auto model = out.text(m.model, limits::name_bytes_max);
  const auto change = out.reason(m.change);
  const auto load = out.optional(m.load);
  return wire::CreatePipelineStatus(out.buffer, model, m.generation, m.coming_generation, change,
                                    load);
}

void get(reader& in, const wire::PipelineStatus& from, pipeline_status& to) {
  in.text(from.model(), to.model, limits::name_bytes_max, "pipeline_status.model");
  to.generation = from.generation();
  to.coming_generation = from.coming_generation();
  in.text(from.change(), to.change, limits::reason_bytes_max, "pipeline_status.change");
  in.optional(from.load(), to.load);
}

offset<wire::ShardPlace> put(writer& out, const shard_assignment& m) {
  const auto on = out.text(m.on, limits::name_bytes_max);
  const auto device = out.text(m.device, limits::name_bytes_max);
  return wire::CreateShardPlace(out.buffer, m.process.value, m.pipeline, m.generation, m.stage,
                                m.rank, m.first_layer, m.layers, on, device);
}

void get(reader& in, const wire::ShardPlace& from, shard_assignment& to) {
  to.process = {from.node()};
  to.pipeline = from.pipeline();
  to.generation = from.generation();
  to.stage = from.stage();
  to.rank = from.rank();
  to.first_layer = from.first_layer();
  to.layers = from.layers();
  in.text(from.on(), to.on, limits::name_bytes_max, "shard_place.on");
  in.text(from.device(), to.device, limits::name_bytes_max, "shard_place.device");
}

offset<wire::ClusterStatus> put(writer& out, const cluster_status& m) {
  auto nodes = out.tables(m.nodes, limits::nodes_max);
  auto reason = out.reason(m.reason);
  auto url = out.text(m.url, limits::name_bytes_max);
  auto model = out.text(m.model, limits::name_bytes_max);
  auto load = out.optional(m.load);
  auto change = out.reason(m.change);
  auto pipelines = out.tables(m.pipelines, pipelines_max);
  auto places = out.tables(m.assignments, limits::nodes_max);
  return wire::CreateClusterStatus(out.buffer, m.request, nodes, static_cast<wire::Phase>(m.phase),
                                   reason, url, model, load, m.generation, m.coming_generation,
                                   change, pipelines, places);
}

void get(reader& in, const wire::ClusterStatus& from, cluster_status& to) {
  to.request = from.request();
  in.tables(from.nodes(), to.nodes, limits::nodes_max, "cluster_status.nodes");
  in.one_of(from.phase(), to.phase, phase::starting, phase::failed, "cluster_status.phase");
  in.text(from.reason(), to.reason, limits::reason_bytes_max, "cluster_status.reason");
  in.text(from.url(), to.url, limits::name_bytes_max, "cluster_status.url");
  in.text(from.model(), to.model, limits::name_bytes_max, "cluster_status.model");
  in.optional(from.load(), to.load);
  to.generation = from.generation();
  to.coming_generation = from.coming_generation();
  in.text(from.change(), to.change, limits::reason_bytes_max, "cluster_status.change");
  in.tables(from.pipelines(), to.pipelines, pipelines_max, "cluster_status.pipelines");
  in.tables(from.places(), to.assignments, limits::nodes_max, "cluster_status.places");
}

offset<wire::ChangeNodes> put(writer& out, const change_nodes& m) {
  const auto node = out.text(m.node, limits::name_bytes_max);
  return wire::CreateChangeNodes(out.buffer, m.request, node, m.is_drain);
}

void get(reader& in, const wire::ChangeNodes& from, change_nodes& to) {
  to.request = from.request();
  in.text(from.node(), to.node, limits::name_bytes_max, "change_nodes.node");
  to.is_drain = from.is_drain();
}

offset<wire::RemoveNode> put(writer& out, const remove_node& m) {
  const auto node = out.text(m.node, limits::name_bytes_max);
  return wire::CreateRemoveNode(out.buffer, m.request, node);
}

void get(reader& in, const wire::RemoveNode& from, remove_node& to) {
  to.request = from.request();
  in.text(from.node(), to.node, limits::name_bytes_max, "remove_node.node");
}

offset<wire::ScaleModel> put(writer& out, const scale_model& m) {
  const auto model = out.text(m.model, limits::name_bytes_max);
  return wire::CreateScaleModel(out.buffer, m.request, model, m.replicas, m.width);
}

void get(reader& in, const wire::ScaleModel& from, scale_model& to) {
  to.request = from.request();
  in.text(from.model(), to.model, limits::name_bytes_max, "scale_model.model");
  in.at_most(from.replicas(), pipelines_max, "scale_model.replicas");
  to.replicas = from.replicas();
  in.at_most(from.width(), limits::stages_max, "scale_model.width");
  to.width = from.width();
}

offset<wire::NodesChanged> put(writer& out, const nodes_changed& m) {
  const auto refused = out.optional(m.refused);
  const auto further = out.numbers(m.further, pipelines_max);
  return wire::CreateNodesChanged(out.buffer, m.request, m.generation, refused, further);
}

void get(reader& in, const wire::NodesChanged& from, nodes_changed& to) {
  to.request = from.request();
  to.generation = from.generation();
  in.optional(from.refused(), to.refused);
  in.numbers(from.further(), to.further, pipelines_max, "nodes_changed.further");
}

} // namespace baton::codec
