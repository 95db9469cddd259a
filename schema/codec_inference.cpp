// Requests and answers of worker models.
#include "schema/codec_parts.hpp"

#include <cmath>

namespace baton::codec {
namespace {

vector_offset<std::uint8_t> put_bytes(writer& out, const std::string& from) {
  ENSURE(from.size() <= limits::client_body_bytes_max, "{} bytes", from.size());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(from.data());
  return from.empty() ? 0 : out.buffer.CreateVector(bytes, from.size());
}

vector_offset<offset<flatbuffers::String>> put_names(writer& out,
                                                     const std::vector<std::string>& from) {
  ENSURE(from.size() <= limits::tensors_max, "{} names", from.size());
  std::vector<offset<flatbuffers::String>> made;
  for (const auto& name : from) // an empty name too: its position counts
    made.push_back(out.buffer.CreateString(name));
  return made.empty() ? 0 : out.buffer.CreateVector(made);
}

void get_names(reader& in, const flatbuffers::Vector<offset<flatbuffers::String>>* from,
               std::vector<std::string>& to) {
  if (from == nullptr)
    return;
  in.at_most(from->size(), limits::tensors_max, "infer.outputs");
  for (flatbuffers::uoffset_t i = 0; i < from->size() && !in.refusal(); ++i)
    in.text(from->Get(i), to.emplace_back(), limits::name_bytes_max, "infer.outputs");
}

} // namespace

offset<wire::Tensor> put(writer& out, const tensor& m) {
  auto name = out.text(m.name, limits::name_bytes_max);
  auto datatype = out.text(m.datatype, limits::name_bytes_max);
  auto shape = out.numbers(m.shape, limits::dimensions_max);
  auto data = put_bytes(out, m.data);
  return wire::CreateTensor(out.buffer, name, datatype, shape, data);
}

void get(reader& in, const wire::Tensor& from, tensor& to) {
  in.text(from.name(), to.name, limits::name_bytes_max, "tensor.name");
  in.text(from.datatype(), to.datatype, limits::name_bytes_max, "tensor.datatype");
  in.numbers(from.shape(), to.shape, limits::dimensions_max, "tensor.shape");
  in.bytes(from.data(), to.data, limits::client_body_bytes_max, "tensor.data");
}

offset<wire::HeaderField> put(writer& out, const header_field& m) {
  auto name = out.text(m.name, limits::name_bytes_max);
  auto value = out.text(m.value, limits::header_bytes_max);
  return wire::CreateHeaderField(out.buffer, name, value);
}

void get(reader& in, const wire::HeaderField& from, header_field& to) {
  in.text(from.name(), to.name, limits::name_bytes_max, "header.name");
  in.text(from.value(), to.value, limits::header_bytes_max, "header.value");
}

offset<wire::Infer> put(writer& out, const infer& m) {
  auto model = out.text(m.model, limits::name_bytes_max);
  auto version = out.text(m.version, limits::name_bytes_max);
  auto inputs = out.tables(m.inputs, limits::tensors_max);
  auto outputs = put_names(out, m.outputs);
  auto body = put_bytes(out, m.body);
  auto content_type = out.text(m.content_type, limits::name_bytes_max);
  auto headers = out.tables(m.headers, limits::headers_max);
  auto parameters = out.text(m.parameters, limits::parameters_bytes_max);
  auto request_id = out.text(m.request_id, limits::name_bytes_max);
  return wire::CreateInfer(out.buffer, m.request, model, version, inputs, outputs, body,
                           content_type, headers, parameters, request_id, m.deadline.count());
}

void get(reader& in, const wire::Infer& from, infer& to) {
  to.request = from.request();
  in.text(from.model(), to.model, limits::name_bytes_max, "infer.model");
  in.text(from.version(), to.version, limits::name_bytes_max, "infer.version");
  in.tables(from.inputs(), to.inputs, limits::tensors_max, "infer.inputs");
  get_names(in, from.outputs(), to.outputs);
  in.bytes(from.body(), to.body, limits::client_body_bytes_max, "infer.body");
  in.text(from.content_type(), to.content_type, limits::name_bytes_max, "infer.content_type");
  in.tables(from.headers(), to.headers, limits::headers_max, "infer.headers");
  in.text(from.parameters(), to.parameters, limits::parameters_bytes_max, "infer.parameters");
  in.text(from.request_id(), to.request_id, limits::name_bytes_max, "infer.request_id");
  in.duration(from.deadline_ms(), to.deadline, "infer.deadline");
}

offset<wire::Inferred> put(writer& out, const inferred& m) {
  auto outputs = out.tables(m.outputs, limits::tensors_max);
  auto body = put_bytes(out, m.body);
  auto content_type = out.text(m.content_type, limits::name_bytes_max);
  auto headers = out.tables(m.headers, limits::headers_max);
  auto parameters = out.text(m.parameters, limits::parameters_bytes_max);
  auto failure = out.optional(m.failure);
  return wire::CreateInferred(out.buffer, m.request, m.index, m.is_last, outputs, body,
                              content_type, headers, parameters, m.http_status, failure);
}

void get(reader& in, const wire::Inferred& from, inferred& to) {
  to.request = from.request();
  to.index = from.index();
  to.is_last = from.is_last();
  in.tables(from.outputs(), to.outputs, limits::tensors_max, "inferred.outputs");
  in.bytes(from.body(), to.body, limits::client_body_bytes_max, "inferred.body");
  in.text(from.content_type(), to.content_type, limits::name_bytes_max, "inferred.content_type");
  in.tables(from.headers(), to.headers, limits::headers_max, "inferred.headers");
  in.text(from.parameters(), to.parameters, limits::parameters_bytes_max, "inferred.parameters");
  to.http_status = from.http_status();
  in.optional(from.failure(), to.failure);
}

offset<wire::InferBatch> put(writer& out, const infer_batch& m) {
  auto items = out.tables(m.items, limits::batch_items_max);
  return wire::CreateInferBatch(out.buffer, m.batch, items);
}

void get(reader& in, const wire::InferBatch& from, infer_batch& to) {
  to.batch = from.batch();
  in.tables(from.items(), to.items, limits::batch_items_max, "infer_batch.items");
}

offset<wire::CancelInfer> put(writer& out, const cancel_infer& m) {
  return wire::CreateCancelInfer(out.buffer, m.request);
}

void get(reader&, const wire::CancelInfer& from, cancel_infer& to) {
  to.request = from.request();
}

offset<wire::HandlerMetric> put(writer& out, const handler_metric& m) {
  auto name = out.text(m.name, limits::name_bytes_max);
  auto help = out.text(m.help, limits::name_bytes_max);
  auto labels = out.tables(m.labels, limits::metric_labels_max);
  return wire::CreateHandlerMetric(out.buffer, name, help, static_cast<wire::MetricKind>(m.kind),
                                   labels, m.sets, m.value);
}

void get(reader& in, const wire::HandlerMetric& from, handler_metric& to) {
  in.text(from.name(), to.name, limits::name_bytes_max, "metric.name");
  in.text(from.help(), to.help, limits::name_bytes_max, "metric.help");
  in.one_of(from.kind(), to.kind, metric_kind::counter, metric_kind::gauge, "metric.kind");
  in.tables(from.labels(), to.labels, limits::metric_labels_max, "metric.labels");
  to.sets = from.sets();
  if (!std::isfinite(from.value()))
    in.refuse("metric.value is not finite");
  to.value = from.value();
}

offset<wire::HandlerMetrics> put(writer& out, const handler_metrics& m) {
  auto all = out.tables(m.all, limits::metrics_max);
  return wire::CreateHandlerMetrics(out.buffer, all);
}

void get(reader& in, const wire::HandlerMetrics& from, handler_metrics& to) {
  in.tables(from.all(), to.all, limits::metrics_max, "handler_metrics.all");
}

} // namespace baton::codec
