// The head: tokenizer, scheduler and detokenizer of one model, and the sequence log. Loads the
// vocabulary, no weights.
#include "actors/detokenizer.hpp"
#include "actors/scheduler.hpp"
#include "actors/tokenizer.hpp"
#include "cluster/bus/proxies.hpp"
#include "cluster/config/readers/model_sampling.hpp"
#include "cluster/plan/model_identity.hpp"
#include "cluster/process/child.hpp"
#include "cluster/roles/process.hpp"
#include "cluster/roles/roles.hpp"
#include "runtime/model/open/open_model.hpp"
#include "runtime/text/stream/reasoning_style.hpp"
#include "runtime/text/tokenizer/vocabulary_file.hpp"

#include <spdlog/spdlog.h>

#include <ctime>

namespace baton::cluster {
namespace {

struct language {
  std::shared_ptr<const text::tokenizer> tokenizer;
  std::optional<text::chat_template> chat_template;
  text::call_style calls{};
  reasoning_format reasoning = reasoning_format::none;
  std::string chat_template_failure{};
  std::vector<std::pair<std::string, std::string>> named_tokens{};
};

result<language> load_language(const cluster_context& context) {
  auto vocabulary = text::open_vocabulary(context.config.model.path);
  if (!vocabulary)
    return vocabulary.error();
  auto file = model::open_model(context.config.model.path);
  if (!file)
    return file.error();
  if (auto ok = check_identity(**file, context.record().model_identity);
      !ok) // written while it was read
    return ok.error();
  auto tokenizer = text::tokenizer::create(*vocabulary);
  if (!tokenizer)
    return tokenizer.error();
  language l{.tokenizer = std::make_shared<const text::tokenizer>(std::move(*tokenizer)),
             .chat_template = std::nullopt};
  l.calls = text::call_style_of(vocabulary->chat_template);
  l.reasoning = text::reasoning_format_of(vocabulary->chat_template);
  l.chat_template_failure = vocabulary->chat_template_failure;
  if (!vocabulary->chat_template.empty()) {
    auto parsed = text::chat_template::parse(vocabulary->chat_template);
    if (parsed)
      l.chat_template = std::move(*parsed);
    else
      l.chat_template_failure = parsed.error().message;
  }
  if (!l.chat_template_failure.empty())
    spdlog::warn("chat is refused, the model's template cannot be used: {}",
                 l.chat_template_failure);
  l.named_tokens = std::move(vocabulary->named_tokens);
  return l;
}

schedule::scheduler_config limits_of(const cluster_context& context, const language& l,
                                     incarnation_id incarnation) {
  const auto& m = context.config.model;
  schedule::scheduler_config limits;
  limits.max_num_seqs = m.max_num_seqs;
  limits.max_num_batched_tokens = m.max_num_batched_tokens;
  limits.max_batch_total_tokens = m.max_batch_total_tokens;
  limits.prefill_chunk = m.prefill_chunk;
  limits.max_model_len = context.plan.max_model_len;
  limits.vocabulary_size = context.model.vocab_size;
  limits.max_num_queued_reqs = m.max_num_queued_reqs;
  limits.max_num_queued_tokens = m.max_num_queued_tokens;
  if (m.scheduling_policy == "priority")
    limits.scheduling_policy = schedule::scheduling_policy::priority;
  limits.enable_prefix_caching = m.enable_prefix_caching;
  limits.async_scheduling = m.async_scheduling;
  limits.num_speculative_tokens = m.num_speculative_tokens;
  limits.speculative_disable_by_batch_size = m.speculative_disable_by_batch_size;
  limits.lookup.ngram_max = m.prompt_lookup_max;
  limits.lookup.ngram_min = m.prompt_lookup_min;
  limits.pooling = m.pooling;
  limits.use_job_ticket = m.use_job_ticket;
  limits.queue_deadline = m.queue_timeout;
  limits.recovery_timeout = m.recovery_timeout;
  limits.resume_window = m.resume_window;
  if (m.loads_on_demand)
    limits.load_timeout = m.load_timeout;
  auto ends = l.tokenizer->end_ids();
  limits.eos_ids.assign(ends.begin(), ends.end());
  limits.first_ticket = first_ticket_of(incarnation, context.pipeline());
  limits.ticket_step = pipelines_max;
  return limits;
}

model_card card_of(const cluster_context& context, const language& l) {
  model_card card;
  card.name = context.config.model.name;
  card.architecture = context.model.architecture;
  card.parameters = context.model.parameter_count;
  card.max_model_len = context.plan.max_model_len;
  card.vocabulary_size = context.model.vocab_size;
  card.sequences_max = context.config.model.max_num_seqs;
  card.created = std::time(nullptr);
  card.has_chat_template = l.chat_template.has_value();
  card.chat_template_failure = l.chat_template_failure;
  card.call_format = l.calls.format;
  card.has_own_calls = l.calls.is_native;
  card.reasoning = l.reasoning;
  card.sampling = sampling_of(context.config.model);
  card.loads_on_demand = context.config.model.loads_on_demand;
  return card;
}

actors::scheduler_options options_of(process& self, const cluster_context& context,
                                     const language& l, incarnation_id incarnation) {
  actors::scheduler_options options;
  options.limits = limits_of(context, l, incarnation);
  options.plan = context.record().generations->now;
  options.first_epoch = epoch_id{incarnation.value};
  options.card = card_of(context, l);
  options.report = [&self](const load_report& load) {
    self.links().send(process_ids::root, actors::well_known::supervisor, message(load));
  };
  options.report_status = [&self](phase p, const std::string& reason) { self.report(p, reason); };
  options.serves = [&self](std::uint32_t generation) {
    self.links().send(process_ids::root, actors::well_known::supervisor,
                      message(serves{generation}));
  };
  options.now = [] { return std::chrono::steady_clock::now(); };
  return options;
}

} // namespace

int run_head(const cluster_context& context, const role_arguments& arguments) {
  auto loaded = load_language(context);
  if (!loaded) {
    spdlog::error("{}", loaded.error().message);
    return exit_permanent;
  }
  const auto name = name_of_head(context);
  auto started = process::start({.process = process_ids::head(context.pipeline()),
                                 .incarnation = arguments.incarnation,
                                 .as = role::head,
                                 .name = name.name,
                                 .endpoint = context.where.listen(name),
                                 .supervisor = process_ids::root,
                                 .supervisor_endpoint = context.where.find(root_name)},
                                context.where, /*actor_threads=*/1);
  if (!started) {
    spdlog::error("{}", started.error().message);
    return exit_status_of_listening(started.error().code);
  }
  auto& self = **started;
  outlive_parent(context.dir, name.name, arguments.incarnation);
  actors::directory peers;
  peers.gateway =
      proxies<actors::gateway_actor>(self.system(), self.links(), actors::well_known::gateway);
  peers.stage =
      proxies<actors::stage_actor>(self.system(), self.links(), actors::well_known::stage);

  auto detokenizer = self.own_pinned(self.system().spawn(
      actors::detokenizer,
      actors::detokenizer_config{.peers = peers,
                                 .tokenizer = loaded->tokenizer,
                                 .resume_window = context.config.model.resume_window,
                                 .calls = loaded->calls.format}));
  auto options = options_of(self, context, *loaded, arguments.incarnation);
  options.detokenizer = detokenizer;
  options.peers = peers;
  auto scheduler = self.own_pinned(self.system().spawn(actors::scheduler, options));
  // The tokenizer has its own thread, because a long text would delay steps. Scheduler and
  // detokenizer run on the bus's thread: messages between them wake no other thread.
  auto tokenizer = self.own_typed(self.system().spawn<caf::detached>(
      actors::tokenizer,
      actors::tokenizer_config{.scheduler = scheduler,
                               .peers = peers,
                               .tokenizer = loaded->tokenizer,
                               .chat_template = loaded->chat_template,
                               .max_model_len = context.plan.max_model_len,
                               .calls = loaded->calls,
                               .reasoning = loaded->reasoning,
                               .chat_template_failure = loaded->chat_template_failure,
                               .named_tokens = loaded->named_tokens}));
  deliver_to(self.links(), actors::well_known::scheduler, scheduler);
  deliver_to(self.links(), actors::well_known::tokenizer, tokenizer);
  self.forward_peer_events(scheduler);
  self.on_tick([scheduler] { caf::anon_send(scheduler, actors::tick{}); });
  self.begin();
  if (context.plan.shards.empty() && !context.coming)
    self.report(phase::ready, "no node has its layers");
  else
    self.report(phase::loading, "waiting for the shards");
  self.wait();
  return 0;
}

} // namespace baton::cluster
