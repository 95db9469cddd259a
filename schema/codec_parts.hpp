// Internals of the codec: a writer and a reader that enforce limits, and one put/get pair for each
// struct on the wire. Included by codec*.cpp only.
//
// put() copies a struct into the buffer; ENSURE guards the limits, which API servers have checked.
// get() copies it out; the reader keeps the first error for its caller. An empty string or vector
// is an absent field.
#pragma once

#include "schema/codec.hpp"
#include "schema/limits.hpp"
#include "schema/wire_generated.h"

#include <flatbuffers/flatbuffers.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>
#include <type_traits>

namespace baton::codec {

static_assert(std::endian::native == std::endian::little, "vectors are copied as they lie");

template <class T>
using offset = flatbuffers::Offset<T>;
template <class T>
using vector_offset = offset<flatbuffers::Vector<T>>;

// Longest prefix of at most `limit` bytes that does not end inside a UTF-8 character.
std::string_view cut_text(std::string_view text, std::size_t limit) noexcept;

class writer {
public:
  flatbuffers::FlatBufferBuilder buffer{1024, nullptr, false, 16};

  offset<flatbuffers::String> text(std::string_view from, std::size_t limit);
  // For people: truncated at the limit.
  offset<flatbuffers::String> reason(std::string_view from) {
    return text(cut_text(from, limits::reason_bytes_max), limits::reason_bytes_max);
  }

  template <class T>
  vector_offset<T> numbers(const std::vector<T>& from, std::size_t limit) {
    ENSURE(from.size() <= limit, "{} numbers, at most {}", from.size(), limit);
    return from.empty() ? 0 : buffer.CreateVector(from.data(), from.size());
  }

  // One struct of the schema per element, made by `convert`.
  template <class S, class T, class F>
  vector_offset<const S*> structs(const std::vector<T>& from, std::size_t limit, F convert) {
    ENSURE(from.size() <= limit, "{} structs, at most {}", from.size(), limit);
    if (from.empty())
      return 0;
    std::vector<S> made;
    made.reserve(from.size());
    for (const auto& element : from)
      made.push_back(convert(element));
    return buffer.CreateVectorOfStructs(made); // the uninitialized kind aligns to the size
  }

  template <class T>
  auto tables(const std::vector<T>& from, std::size_t limit) {
    using table = decltype(put(*this, from.front()));
    ENSURE(from.size() <= limit, "{} tables, at most {}", from.size(), limit);
    std::vector<table> made;
    made.reserve(from.size());
    for (const auto& element : from)
      made.push_back(put(*this, element));
    using made_vector = decltype(buffer.CreateVector(made));
    return made.empty() ? made_vector{} : buffer.CreateVector(made);
  }

  template <class T>
  auto optional(const std::optional<T>& from) {
    using table = decltype(put(*this, *from));
    return from ? put(*this, *from) : table{};
  }
};

// Copies out at most as many bytes as the body has. This rejects a small body whose thousand
// offsets all point at one large string.
class reader {
public:
  explicit reader(std::size_t body_bytes) noexcept : budget_bytes_(body_bytes) {}

  // A description of the first error.
  const std::optional<std::string>& refusal() const noexcept { return refusal_; }
  void refuse(std::string what);

  void text(const flatbuffers::String* from, std::string& to, std::size_t limit,
            std::string_view field);
  void bytes(const flatbuffers::Vector<std::uint8_t>* from, std::string& to, std::size_t limit,
             std::string_view field);
  void finite(float from, float& to, std::string_view field);
  void duration(std::int64_t from_ms, std::chrono::milliseconds& to, std::string_view field);
  void at_most(std::uint32_t value, std::size_t limit, std::string_view field);

  template <class W, class E>
  void one_of(W from, E& to, E first, E last, std::string_view field) {
    using number = std::underlying_type_t<E>;
    const auto value = static_cast<number>(from);
    if (value < static_cast<number>(first) || value > static_cast<number>(last))
      return refuse(fmt::format("{} is {}", field, static_cast<int>(value)));
    to = static_cast<E>(value);
  }

  template <class T>
  void numbers(const flatbuffers::Vector<T>* from, std::vector<T>& to, std::size_t limit,
               std::string_view field) {
    if (from != nullptr && take<T>(from->Data(), from->size(), limit, field))
      to.assign(from->data(), from->data() + from->size());
  }

  template <class S, class T, class F>
  void structs(const flatbuffers::Vector<const S*>* from, std::vector<T>& to, std::size_t limit,
               std::string_view field, F convert) {
    if (from == nullptr || !take<S>(from->Data(), from->size(), limit, field))
      return;
    to.reserve(from->size());
    for (const S* element : *from)
      to.push_back(convert(*element));
  }

  template <class W, class T>
  void tables(const flatbuffers::Vector<offset<W>>* from, std::vector<T>& to, std::size_t limit,
              std::string_view field) {
    if (from == nullptr || !spend(from->size(), sizeof(flatbuffers::uoffset_t), limit, field))
      return;
    to.resize(from->size());
    for (flatbuffers::uoffset_t i = 0; i < from->size() && !refusal_; ++i)
      get(*this, *from->Get(i), to[i]);
  }

  // An optional table: if absent, `to` keeps its default.
  template <class W, class T>
  void table(const W* from, T& to) {
    if (from != nullptr)
      get(*this, *from, to);
  }
  template <class W, class T>
  void optional(const W* from, std::optional<T>& to) {
    if (from != nullptr)
      get(*this, *from, to.emplace());
  }

private:
  bool spend(std::size_t count, std::size_t size, std::size_t limit, std::string_view field);
  // The verifier of FlatBuffers 2.0 checks the alignment of a vector's length, not of its elements.
  template <class Element>
  bool take(const std::uint8_t* data, std::size_t count, std::size_t limit,
            std::string_view field) {
    if (reinterpret_cast<std::uintptr_t>(data) % alignof(Element) == 0)
      return spend(count, sizeof(Element), limit, field);
    refuse(fmt::format("{} is not aligned", field));
    return false;
  }

  std::size_t budget_bytes_;
  std::optional<std::string> refusal_;
};

// Parts.
offset<wire::Error> put(writer& out, const error& m);
offset<wire::Constraint> put(writer& out, const constraint& m);
offset<wire::SamplingParams> put(writer& out, const sampling_params& m);
// Without its constraint, which several draws share.
offset<wire::SamplingParams> put_unconstrained(writer& out, const sampling_params& m);
offset<wire::Stopping> put(writer& out, const stopping& m);
offset<wire::Sample> put(writer& out, const sample& m);
offset<wire::LogprobEntry> put(writer& out, const logprob_entry& m);
offset<wire::TokenDetail> put(writer& out, const token_detail& m);
offset<wire::ChatMessage> put(writer& out, const chat_message& m);
offset<wire::RequestTerms> put(writer& out, const request_terms& m);
offset<wire::DeliveredChoice> put(writer& out, const delivered_choice& m);
offset<wire::TemplateOptions> put(writer& out, const template_options& m);
offset<wire::Slice> put(writer& out, const slice& m);
offset<wire::Pool> put(writer& out, const pool& m);
offset<wire::Pooled> put(writer& out, const pooled& m);
offset<wire::StageAddress> put(writer& out, const stage_address& m);
offset<wire::Generation> put(writer& out, const generation& m);
offset<wire::Tensor> put(writer& out, const tensor& m);
offset<wire::HeaderField> put(writer& out, const header_field& m);
offset<wire::HandlerMetric> put(writer& out, const handler_metric& m);
offset<wire::ModelWorker> put(writer& out, const model_worker& m);
offset<wire::ServedModel> put(writer& out, const served_model& m);
void get(reader& in, const wire::Error& from, error& to);
void get(reader& in, const wire::Constraint& from, shared_constraint& to);
void get(reader& in, const wire::SamplingParams& from, sampling_params& to);
void get(reader& in, const wire::Stopping& from, stopping& to);
void get(reader& in, const wire::Sample& from, sample& to);
void get(reader& in, const wire::LogprobEntry& from, logprob_entry& to);
void get(reader& in, const wire::TokenDetail& from, token_detail& to);
void get(reader& in, const wire::ChatMessage& from, chat_message& to);
void get(reader& in, const wire::RequestTerms& from, request_terms& to);
void get(reader& in, const wire::DeliveredChoice& from, delivered_choice& to);
void get(reader& in, const wire::TemplateOptions& from, template_options& to);
void get(reader& in, const wire::Slice& from, slice& to);
void get(reader& in, const wire::Draw& from, draw& to);
void get(reader& in, const wire::Pool& from, pool& to);
void get(reader& in, const wire::Pooled& from, pooled& to);
void get(reader& in, const wire::StageAddress& from, stage_address& to);
void get(reader& in, const wire::Generation& from, generation& to);
void get(reader& in, const wire::Tensor& from, tensor& to);
void get(reader& in, const wire::HeaderField& from, header_field& to);
void get(reader& in, const wire::HandlerMetric& from, handler_metric& to);
void get(reader& in, const wire::ModelWorker& from, model_worker& to);
void get(reader& in, const wire::ServedModel& from, served_model& to);

struct put_prompt_result {
  wire::Prompt type;
  offset<void> table;
};
put_prompt_result put_prompt(writer& out, const prompt& m);
void get_prompt(reader& in, wire::Prompt type, const void* table, prompt& to);

// Messages, in the order of `message`.
offset<wire::Reserve> put(writer& out, const reserve& m);
offset<wire::Granted> put(writer& out, const granted& m);
offset<wire::Rejected> put(writer& out, const rejected& m);
offset<wire::Submit> put(writer& out, const submit& m);
offset<wire::Admit> put(writer& out, const admit& m);
offset<wire::Cancel> put(writer& out, const cancel& m);
offset<wire::MicroBatch> put(writer& out, const micro_batch& m);
offset<wire::Sampled> put(writer& out, const sampled& m);
offset<wire::Tokens> put(writer& out, const tokens& m);
offset<wire::Chunk> put(writer& out, const chunk& m);
offset<wire::Tokenize> put(writer& out, const tokenize& m);
offset<wire::Tokenized> put(writer& out, const tokenized& m);
offset<wire::Detokenize> put(writer& out, const detokenize& m);
offset<wire::Detokenized> put(writer& out, const detokenized& m);
offset<wire::StageReady> put(writer& out, const stage_ready& m);
offset<wire::OpenEpoch> put(writer& out, const open_epoch& m);
offset<wire::EpochOpened> put(writer& out, const epoch_opened& m);
offset<wire::Hello> put(writer& out, const hello& m);
offset<wire::HelloAck> put(writer& out, const hello_ack& m);
offset<wire::Heartbeat> put(writer& out, const heartbeat& m);
offset<wire::Credit> put(writer& out, const credit& m);
offset<wire::Supervision> put(writer& out, const supervision& m);
offset<wire::Status> put(writer& out, const status& m);
offset<wire::ModelCard> put(writer& out, const model_card& m);
offset<wire::LoadReport> put(writer& out, const load_report& m);
offset<wire::Drain> put(writer& out, const drain& m);
offset<wire::QueryStatus> put(writer& out, const query_status& m);
offset<wire::PipelineStatus> put(writer& out, const pipeline_status& m);
offset<wire::ShardPlace> put(writer& out, const shard_assignment& m);
offset<wire::ClusterStatus> put(writer& out, const cluster_status& m);
offset<wire::ListModels> put(writer& out, const list_models& m);
offset<wire::Models> put(writer& out, const models& m);
offset<wire::Generate> put(writer& out, const generate& m);
offset<wire::Chunks> put(writer& out, const chunks& m);
offset<wire::Resume> put(writer& out, const resume& m);
offset<wire::ChangeNodes> put(writer& out, const change_nodes& m);
offset<wire::NodesChanged> put(writer& out, const nodes_changed& m);
offset<wire::RemoveNode> put(writer& out, const remove_node& m);
offset<wire::ScaleModel> put(writer& out, const scale_model& m);
offset<wire::Generations> put(writer& out, const generations& m);
offset<wire::Serves> put(writer& out, const serves& m);
offset<wire::Joined> put(writer& out, const joined& m);
offset<wire::GroupValues> put(writer& out, const group_values& m);
offset<wire::Infer> put(writer& out, const infer& m);
offset<wire::Inferred> put(writer& out, const inferred& m);
offset<wire::InferBatch> put(writer& out, const infer_batch& m);
offset<wire::CancelInfer> put(writer& out, const cancel_infer& m);
offset<wire::ServedModels> put(writer& out, const served_models& m);
offset<wire::ModelSettings> put(writer& out, const model_settings& m);
offset<wire::ChangeModel> put(writer& out, const change_model& m);
offset<wire::ModelChanged> put(writer& out, const model_changed& m);
offset<wire::ModelDrained> put(writer& out, const model_drained& m);
offset<wire::HandlerMetrics> put(writer& out, const handler_metrics& m);

void get(reader& in, const wire::Reserve& from, reserve& to);
void get(reader& in, const wire::Granted& from, granted& to);
void get(reader& in, const wire::Rejected& from, rejected& to);
void get(reader& in, const wire::Submit& from, submit& to);
void get(reader& in, const wire::Admit& from, admit& to);
void get(reader& in, const wire::Cancel& from, cancel& to);
void get(reader& in, const wire::MicroBatch& from, micro_batch& to);
void get(reader& in, const wire::Sampled& from, sampled& to);
void get(reader& in, const wire::Tokens& from, tokens& to);
void get(reader& in, const wire::Chunk& from, chunk& to);
void get(reader& in, const wire::Tokenize& from, tokenize& to);
void get(reader& in, const wire::Tokenized& from, tokenized& to);
void get(reader& in, const wire::Detokenize& from, detokenize& to);
void get(reader& in, const wire::Detokenized& from, detokenized& to);
void get(reader& in, const wire::StageReady& from, stage_ready& to);
void get(reader& in, const wire::OpenEpoch& from, open_epoch& to);
void get(reader& in, const wire::EpochOpened& from, epoch_opened& to);
void get(reader& in, const wire::Hello& from, hello& to);
void get(reader& in, const wire::HelloAck& from, hello_ack& to);
void get(reader& in, const wire::Heartbeat& from, heartbeat& to);
void get(reader& in, const wire::Credit& from, credit& to);
void get(reader& in, const wire::Supervision& from, supervision& to);
void get(reader& in, const wire::Status& from, status& to);
void get(reader& in, const wire::ModelCard& from, model_card& to);
void get(reader& in, const wire::LoadReport& from, load_report& to);
void get(reader& in, const wire::Drain& from, drain& to);
void get(reader& in, const wire::QueryStatus& from, query_status& to);
void get(reader& in, const wire::PipelineStatus& from, pipeline_status& to);
void get(reader& in, const wire::ShardPlace& from, shard_assignment& to);
void get(reader& in, const wire::ClusterStatus& from, cluster_status& to);
void get(reader& in, const wire::ListModels& from, list_models& to);
void get(reader& in, const wire::Models& from, models& to);
void get(reader& in, const wire::Generate& from, generate& to);
void get(reader& in, const wire::Chunks& from, chunks& to);
void get(reader& in, const wire::Resume& from, resume& to);
void get(reader& in, const wire::ChangeNodes& from, change_nodes& to);
void get(reader& in, const wire::NodesChanged& from, nodes_changed& to);
void get(reader& in, const wire::RemoveNode& from, remove_node& to);
void get(reader& in, const wire::ScaleModel& from, scale_model& to);
void get(reader& in, const wire::Generations& from, generations& to);
void get(reader& in, const wire::Serves& from, serves& to);
void get(reader& in, const wire::Joined& from, joined& to);
void get(reader& in, const wire::GroupValues& from, group_values& to);
void get(reader& in, const wire::Infer& from, infer& to);
void get(reader& in, const wire::Inferred& from, inferred& to);
void get(reader& in, const wire::InferBatch& from, infer_batch& to);
void get(reader& in, const wire::CancelInfer& from, cancel_infer& to);
void get(reader& in, const wire::ServedModels& from, served_models& to);
void get(reader& in, const wire::ModelSettings& from, model_settings& to);
void get(reader& in, const wire::ChangeModel& from, change_model& to);
void get(reader& in, const wire::ModelChanged& from, model_changed& to);
void get(reader& in, const wire::ModelDrained& from, model_drained& to);
void get(reader& in, const wire::HandlerMetrics& from, handler_metrics& to);

// A finished buffer as a payload that owns it, 16-byte aligned.
template <class W>
payload finish(writer& out, offset<W> root, const char* identifier) {
  out.buffer.Align(16); // makes the buffer's size, and so its start, a multiple of 16
  out.buffer.Finish(root, identifier);
  auto owner = std::make_shared<flatbuffers::DetachedBuffer>(out.buffer.Release());
  const auto* data = reinterpret_cast<const std::byte*>(owner->data());
  const auto size_bytes = owner->size();
  return {std::move(owner), data, size_bytes};
}

// The same bytes at an address that is a multiple of `alignment`: copied only if it is not.
payload aligned_to(const payload& bytes, std::size_t alignment);
// The same bytes in memory of its own.
payload aligned_copy(const payload& bytes, std::size_t alignment);

// The root table, or nothing if the structure is invalid. The result points into `body`, which must
// be 16-byte aligned.
template <class W>
const W* verified_root(const payload& body, const char* identifier) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(body.data);
  flatbuffers::Verifier verifier(data, body.size_bytes, limits::depth_max, limits::tables_max);
  return verifier.VerifyBuffer<W>(identifier) ? flatbuffers::GetRoot<W>(data) : nullptr;
}

} // namespace baton::codec
