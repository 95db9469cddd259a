#include "gateway/tracing/span.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

// SpanFlags of trace.proto, above the eight bits of the trace flags.
constexpr std::uint32_t has_is_remote = 0x100;
constexpr std::uint32_t is_remote = 0x200;
constexpr int status_error = 2;

std::string number_text(std::uint64_t n) {
  return fmt::format("{}", n);
}

ordered string_value(const std::string& text) {
  return {{"stringValue", text}};
}

ordered value_json(const span_attribute::value_type& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    return string_value(*text);
  }
  if (const auto* n = std::get_if<std::int64_t>(&value)) {
    return {{"intValue", fmt::format("{}", *n)}};
  }
  if (const auto* d = std::get_if<double>(&value)) {
    return {{"doubleValue", *d}};
  }
  auto all = ordered::array();
  for (const auto& text : std::get<std::vector<std::string>>(value)) {
    all.push_back(string_value(text));
  }
  return {{"arrayValue", {{"values", std::move(all)}}}};
}

ordered attributes_json(const std::vector<span_attribute>& attributes) {
  auto all = ordered::array();
  for (const auto& a : attributes) {
    all.push_back({{"key", a.key}, {"value", value_json(a.value)}});
  }
  return all;
}

ordered events_json(const std::vector<span_event>& events) {
  auto all = ordered::array();
  for (const auto& e : events) {
    all.push_back({{"timeUnixNano", number_text(e.unix_nanos)},
                   {"name", e.name},
                   {"attributes", attributes_json(e.attributes)}});
  }
  return all;
}

ordered span_json(const span& s) {
  ordered out{{"traceId", hex_of(s.trace)}, {"spanId", hex_of(s.id)}};
  if (s.parent) {
    out["parentSpanId"] = hex_of(*s.parent);
  }
  if (!s.state.empty()) {
    out["traceState"] = s.state;
  }
  out["flags"] = s.flags | has_is_remote | (s.is_parent_remote ? is_remote : 0u);
  out["name"] = s.name;
  out["kind"] = static_cast<int>(s.kind);
  out["startTimeUnixNano"] = number_text(s.begin_unix_nanos);
  out["endTimeUnixNano"] = number_text(s.end_unix_nanos);
  out["attributes"] = attributes_json(s.attributes);
  if (!s.events.empty()) {
    out["events"] = events_json(s.events);
  }
  if (s.events_dropped > 0) {
    out["droppedEventsCount"] = s.events_dropped;
  }
  out["status"] = ordered::object();
  if (!s.failure.empty()) {
    out["status"] = {{"code", status_error}, {"message", s.failure}};
  }
  return out;
}

} // namespace

std::string otlp_body(const std::vector<span_attribute>& resource, std::string_view version,
                      const std::vector<span>& spans) {
  auto all = ordered::array();
  for (const auto& s : spans) {
    all.push_back(span_json(s));
  }
  ordered of_scope;
  of_scope["scope"] = {{"name", "baton"}, {"version", version}};
  of_scope["spans"] = std::move(all);
  ordered of_resource;
  of_resource["resource"]["attributes"] = attributes_json(resource);
  of_resource["scopeSpans"] = ordered::array({std::move(of_scope)});
  ordered body;
  body["resourceSpans"] = ordered::array({std::move(of_resource)});
  return body.dump(-1, ' ', false, ordered::error_handler_t::ignore);
}

// int64 is a string in this mapping, but numbers are accepted too.
std::uint64_t rejected_spans(std::string_view answer) {
  const auto body = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object() || !body.contains("partialSuccess")) {
    return 0;
  }
  const auto& partial = body["partialSuccess"];
  if (!partial.is_object() || !partial.contains("rejectedSpans")) {
    return 0;
  }
  const auto& rejected = partial["rejectedSpans"];
  if (rejected.is_number_unsigned()) {
    return rejected.get<std::uint64_t>();
  }
  std::uint64_t count = 0;
  if (rejected.is_string()) {
    const auto& digits = rejected.get_ref<const std::string&>();
    std::from_chars(digits.data(), digits.data() + digits.size(), count);
  }
  return count;
}

} // namespace baton::gateway
