#include "gateway/api/kserve/calls/kserve_infer.hpp"

#include "gateway/base/json_text.hpp"
#include "schema/limits.hpp"

namespace baton::gateway {
namespace {

result<void> take_input(kserve_call& call, const tensor& t) {
  const auto row = input_named(t.name, t.datatype);
  const auto count = row ? count_of(**row, t.shape) : row.error();
  return count ? add_input(call, **row, values_of_bytes(**row, t.data, *count)) : count.error();
}

// Schemas among the parameters keep the order of their members.
result<void> take_parameters(kserve_call& call, std::string_view text, std::size_t depth_max) {
  if (text.empty()) {
    return {};
  }
  const auto all = parse_body(text, depth_max);
  if (!all) {
    return all.error();
  }
  for (auto it = all->begin(); it != all->end(); ++it) {
    const std::string_view path[] = {it.key()};
    if (it->is_null()) {
      continue;
    }
    auto given = raw_member(text, path);
    if (!given) {
      return given.error();
    }
    if (auto ok = add_parameter(call, it.key(), *std::move(given)); !ok) {
      return ok;
    }
  }
  return {};
}

} // namespace

result<kserve_generate> read_language_infer(const infer& given, std::string_view model,
                                            const gateway_config& config) {
  if (auto ok = check_limits(given); !ok) {
    return ok.error();
  }
  if (!given.body.empty()) {
    return fail_param(errc::invalid_request, "body",
                      "the language model '{}' takes tensors, 'text_input' among them, no body",
                      model);
  }
  kserve_call call;
  call.is_binary = true;
  if (auto ok = take_parameters(call, given.parameters, config.request.json_depth_max); !ok) {
    return ok.error();
  }
  for (const auto& t : given.inputs) {
    if (auto ok = take_input(call, t); !ok) {
      return ok.error();
    }
  }
  for (const auto& name : given.outputs) {
    if (auto ok = add_output(call, name, /*is_binary=*/true); !ok) {
      return ok.error();
    }
  }
  return read_kserve(kserve_route::stream_infer, std::move(call), model, config);
}

std::optional<inferred> language_pieces::take(const chunk& c) {
  if (has_ended()) {
    return std::nullopt;
  }
  gatherer_.add(c);
  const bool brings = c.count > 0 || !c.text.empty() || c.finish != finish::none;
  if (!has_ended() && !(gatherer_.shape().is_stream && brings)) {
    return std::nullopt;
  }
  inferred piece;
  piece.index = next_index_++;
  piece.is_last = has_ended();
  for (const auto& t : gatherer_.take()) {
    auto& out = piece.outputs.emplace_back();
    out.name = t.row->name;
    out.datatype = datatype_of(t.row->type);
    out.shape = {static_cast<std::int64_t>(t.values.size())};
    append_bytes(out.data, t.row->type, t.values);
  }
  return piece;
}

} // namespace baton::gateway
