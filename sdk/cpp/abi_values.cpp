#include "sdk/cpp/abi_values.hpp"

namespace baton::sdk {
namespace {

tensor tensor_of(const baton_tensor& t) {
  tensor made{text_of(t.name), text_of(t.datatype), {}, {}};
  if (t.dimensions > 0)
    made.shape.assign(t.shape, t.shape + t.dimensions);
  if (t.data_bytes > 0)
    made.data.assign(static_cast<const char*>(t.data), t.data_bytes);
  return made;
}

std::vector<tensor> values_of(const baton_tensor* all, std::size_t count) {
  std::vector<tensor> made;
  for (std::size_t i = 0; i < count; ++i)
    made.push_back(tensor_of(all[i]));
  return made;
}

std::vector<header_field> values_of(const baton_header* all, std::size_t count) {
  std::vector<header_field> made;
  for (std::size_t i = 0; i < count; ++i)
    made.push_back({text_of(all[i].name), text_of(all[i].value)});
  return made;
}

std::string bytes_of(const void* data, std::size_t bytes) {
  return bytes > 0 ? std::string(static_cast<const char*>(data), bytes) : std::string();
}

} // namespace

std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

inferred value_of(const baton_piece& piece, std::uint32_t version) {
  inferred p;
  p.body = bytes_of(piece.body, piece.body_bytes);
  p.content_type = text_of(piece.content_type);
  p.outputs = values_of(piece.outputs, piece.outputs_count);
  if (version >= 2) {
    p.parameters = text_of(piece.parameters);
    p.headers = values_of(piece.headers, piece.headers_count);
    p.http_status = static_cast<std::uint16_t>(piece.status);
  }
  return p;
}

infer value_of(const baton_question& question) {
  infer q;
  q.model = text_of(question.model);
  q.version = text_of(question.version);
  q.body = bytes_of(question.body, question.body_bytes);
  q.content_type = text_of(question.content_type);
  q.inputs = values_of(question.inputs, question.inputs_count);
  for (std::size_t i = 0; i < question.outputs_count; ++i)
    q.outputs.push_back(text_of(question.outputs[i]));
  q.parameters = text_of(question.parameters);
  q.headers = values_of(question.headers, question.headers_count);
  q.request_id = text_of(question.id);
  q.deadline = std::chrono::milliseconds(question.deadline_ms);
  return q;
}

std::vector<baton_tensor> views_of(std::span<const tensor> all) {
  std::vector<baton_tensor> made;
  for (const auto& t : all)
    made.push_back({.name = t.name.c_str(),
                    .datatype = t.datatype.c_str(),
                    .shape = t.shape.data(),
                    .dimensions = t.shape.size(),
                    .data = t.data.data(),
                    .data_bytes = t.data.size()});
  return made;
}

std::vector<baton_header> views_of(std::span<const header_field> all) {
  std::vector<baton_header> made;
  for (const auto& h : all)
    made.push_back({h.name.c_str(), h.value.c_str()});
  return made;
}

std::vector<const char*> views_of(std::span<const std::string> all) {
  std::vector<const char*> made;
  for (const auto& text : all)
    made.push_back(text.c_str());
  return made;
}

} // namespace baton::sdk
