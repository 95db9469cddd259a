// The models that pipelines and workers serve, and requests to change them.
#include "schema/archive_url.hpp"
#include "schema/codec/codec_parts.hpp"

namespace baton::codec {
namespace {

using number = std::optional<std::uint32_t>;

constexpr std::int64_t keep_alive_not_given = -2; // -1: without end

std::int64_t encode_optional(const number& value) noexcept {
  return value ? std::int64_t{*value} : -1;
}

number decode_optional(reader& in, std::int64_t value, std::string_view field) {
  if (value > std::int64_t{UINT32_MAX} || value < -1)
    in.refuse(fmt::format("{} is {}", field, value));
  return value < 0 ? std::nullopt : number(static_cast<std::uint32_t>(value));
}

} // namespace

offset<wire::ModelSettings> put(writer& out, const model_settings& m) {
  const auto handler = out.text(m.handler, limits::name_bytes_max);
  return wire::CreateModelSettings(
      out.buffer, handler, encode_optional(m.batch_size), encode_optional(m.max_batch_delay),
      encode_optional(m.response_timeout), encode_optional(m.startup_timeout),
      encode_optional(m.workers_min), encode_optional(m.workers_max));
}

void get(reader& in, const wire::ModelSettings& from, model_settings& to) {
  in.text(from.handler(), to.handler, limits::name_bytes_max, "model_settings.handler");
  to.batch_size = decode_optional(in, from.batch_size(), "model_settings.batch_size");
  to.max_batch_delay =
      decode_optional(in, from.max_batch_delay(), "model_settings.max_batch_delay");
  to.response_timeout =
      decode_optional(in, from.response_timeout(), "model_settings.response_timeout");
  to.startup_timeout =
      decode_optional(in, from.startup_timeout(), "model_settings.startup_timeout");
  to.workers_min = decode_optional(in, from.workers_min(), "model_settings.workers_min");
  to.workers_max = decode_optional(in, from.workers_max(), "model_settings.workers_max");
}

offset<wire::ChangeModel> put(writer& out, const change_model& m) {
  const auto model = out.text(m.model, limits::name_bytes_max);
  const auto version = out.text(m.version, limits::name_bytes_max);
  const auto archive = out.text(m.archive, archive_url_bytes_max);
  const auto settings = put(out, m.settings);
  return wire::CreateChangeModel(out.buffer, m.request, model, m.what == model_order::unload,
                                 static_cast<wire::ModelOrder>(m.what), version, archive, settings,
                                 m.waits, m.keep_alive.value_or(keep_alive_not_given));
}

void get(reader& in, const wire::ChangeModel& from, change_model& to) {
  to.request = from.request();
  in.text(from.model(), to.model, limits::name_bytes_max, "change_model.model");
  in.one_of(from.what(), to.what, model_order::load, model_order::keep, "change_model.what");
  if (from.is_unload()) // the encoding from before other orders existed
    to.what = model_order::unload;
  in.text(from.version(), to.version, limits::name_bytes_max, "change_model.version");
  in.text(from.archive(), to.archive, archive_url_bytes_max, "change_model.archive");
  if (from.settings() != nullptr)
    get(in, *from.settings(), to.settings);
  to.waits = from.waits();
  if (from.keep_alive() < keep_alive_not_given)
    in.refuse(fmt::format("change_model.keep_alive is {}", from.keep_alive()));
  else if (from.keep_alive() != keep_alive_not_given)
    to.keep_alive = from.keep_alive();
}

namespace {

offset<wire::SamplingDefaults> put(writer& out, const sampling_defaults& m) {
  if (m == sampling_defaults())
    return 0;
  wire::SamplingDefaultsBuilder table(out.buffer);
  if (m.temperature)
    table.add_temperature(*m.temperature);
  if (m.top_k)
    table.add_top_k(*m.top_k);
  if (m.top_p)
    table.add_top_p(*m.top_p);
  if (m.min_p)
    table.add_min_p(*m.min_p);
  if (m.repetition_penalty)
    table.add_repetition_penalty(*m.repetition_penalty);
  if (m.max_tokens)
    table.add_tokens_max(*m.max_tokens);
  return table.Finish();
}

void finite(reader& in, flatbuffers::Optional<float> from, std::optional<float>& to,
            std::string_view field) {
  if (from.has_value())
    in.finite(*from, to.emplace(), field);
}

void get(reader& in, const wire::SamplingDefaults* from, sampling_defaults& to) {
  if (from == nullptr)
    return;
  finite(in, from->temperature(), to.temperature, "sampling.temperature");
  finite(in, from->top_p(), to.top_p, "sampling.top_p");
  finite(in, from->min_p(), to.min_p, "sampling.min_p");
  finite(in, from->repetition_penalty(), to.repetition_penalty, "sampling.repetition_penalty");
  if (const auto top_k = from->top_k(); top_k.has_value())
    to.top_k = *top_k;
  if (const auto most = from->tokens_max(); most.has_value())
    to.max_tokens = *most;
}

} // namespace

offset<wire::ModelCard> put(writer& out, const model_card& m) {
  auto name = out.text(m.name, limits::name_bytes_max);
  auto architecture = out.text(m.architecture, limits::name_bytes_max);
  auto reason = out.reason(m.reason);
  auto sampling = put(out, m.sampling);
  auto chat_template_failure = out.reason(m.chat_template_failure);
  wire::ModelCardBuilder table(out.buffer);
  table.add_name(name);
  table.add_architecture(architecture);
  table.add_parameters(m.parameters);
  table.add_context_max(m.max_model_len);
  table.add_vocabulary_size(m.vocabulary_size);
  table.add_sequences_max(m.sequences_max);
  table.add_created(m.created);
  table.add_has_chat_template(m.has_chat_template);
  table.add_phase(static_cast<wire::Phase>(m.phase));
  table.add_reason(reason);
  table.add_call_format(static_cast<std::uint8_t>(m.call_format));
  table.add_reasoning(static_cast<std::uint8_t>(m.reasoning));
  table.add_sampling(sampling);
  table.add_chat_template_failure(chat_template_failure);
  table.add_loads_on_demand(m.loads_on_demand);
  table.add_has_own_calls(m.has_own_calls);
  return table.Finish();
}

void get(reader& in, const wire::ModelCard& from, model_card& to) {
  in.text(from.name(), to.name, limits::name_bytes_max, "model_card.name");
  in.text(from.architecture(), to.architecture, limits::name_bytes_max, "model_card.architecture");
  to.parameters = from.parameters();
  to.max_model_len = from.context_max();
  to.vocabulary_size = from.vocabulary_size();
  to.sequences_max = from.sequences_max();
  to.created = from.created();
  to.has_chat_template = from.has_chat_template();
  in.one_of(from.phase(), to.phase, phase::starting, phase::unloaded, "model_card.phase");
  in.text(from.reason(), to.reason, limits::reason_bytes_max, "model_card.reason");
  in.one_of(from.call_format(), to.call_format, call_format::hermes, call_format_last,
            "model_card.call_format");
  in.one_of(from.reasoning(), to.reasoning, reasoning_format::none, reasoning_format_last,
            "model_card.reasoning");
  get(in, from.sampling(), to.sampling);
  in.text(from.chat_template_failure(), to.chat_template_failure, limits::reason_bytes_max,
          "model_card.chat_template_failure");
  to.loads_on_demand = from.loads_on_demand();
  to.has_own_calls = from.has_own_calls();
}

} // namespace baton::codec
