#include "cluster/config/readers/config_tensors.hpp"

#include "cluster/config/readers/config_error.hpp"
#include "gateway/request/datatype.hpp"
#include "runtime/text/unicode/utf8.hpp"
#include "schema/limits.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace baton::cluster {
namespace {

bool is_shape(const std::vector<std::int64_t>& shape) noexcept {
  std::int64_t elements = 1;
  for (const auto n : shape) {
    if (n == 0 || n < -1 ||
        (n > 0 && elements > static_cast<std::int64_t>(limits::body_bytes_max) / n))
      return false;
    elements *= n > 0 ? n : 1;
  }
  return shape.size() < limits::dimensions_max;
}

// Nothing if it is not an array of integers.
std::optional<std::vector<std::int64_t>> read_shape(const toml::node* node) {
  const auto* array = node ? node->as_array() : nullptr;
  if (!array)
    return std::nullopt;
  std::vector<std::int64_t> shape;
  for (const auto& one : *array) {
    const auto n = one.value_exact<std::int64_t>();
    if (!n || shape.size() > limits::dimensions_max)
      return std::nullopt;
    shape.push_back(*n);
  }
  return shape;
}

result<gateway::worker_tensor> read_tensor(const toml::table* table, const std::string& path,
                                           const std::string& origin) {
  gateway::worker_tensor t;
  toml_section s(table, path, origin);
  s.read("name", t.name);
  s.read("datatype", t.datatype);
  const auto shape = read_shape(s.take("shape"));
  s.read("optional", t.is_optional);
  if (auto ok = s.finish(); !ok)
    return ok.error();
  if (!shape)
    return bad_value(origin, path + ".shape", "must be an array of integers");
  t.shape = *shape;
  if (const auto fault = fault_of(t); !fault.empty())
    return bad_value(origin, path, fault);
  return t;
}

} // namespace

std::string fault_of_name(std::string_view name) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (name.empty() || name.size() > tensor_name_bytes_max ||
      std::any_of(name.begin(), name.end(), is_control) ||
      text::utf8_valid_prefix(name) < name.size())
    return fmt::format("name must be a text of 1 to {} bytes, UTF-8 without control characters",
                       tensor_name_bytes_max);
  return {};
}

std::string fault_of(const gateway::worker_tensor& t) {
  if (auto fault = fault_of_name(t.name); !fault.empty())
    return fault;
  if (!gateway::is_datatype(t.datatype)) {
    std::vector<std::string_view> known;
    for (const auto& row : gateway::datatypes)
      known.push_back(row.name);
    return fmt::format("datatype must be one of {}", fmt::join(known, ", "));
  }
  if (!is_shape(t.shape))
    return fmt::format("shape must be at most {} sizes above 0, or -1 for any: [-1, 16]; and no "
                       "more elements than a message holds",
                       limits::dimensions_max - 1); // one is left for the batch
  return {};
}

std::string fault_of(const std::vector<gateway::worker_tensor>& all) {
  if (all.size() > limits::tensors_max)
    return fmt::format("must be at most {}", limits::tensors_max);
  for (auto at = all.begin(); at != all.end(); ++at)
    if (std::any_of(all.begin(), at, [&](const auto& known) { return known.name == at->name; }))
      return fmt::format("must have different names: '{}' comes twice", at->name);
  return {};
}

result<void> read_tensors(const toml::node* node, const std::string& path,
                          const std::string& origin, std::vector<gateway::worker_tensor>& into) {
  if (!node)
    return {};
  const auto* array = node->as_array();
  if (!array)
    return bad_value(origin, path,
                     "must be tables: [{ name = \"x\", datatype = \"FP32\", shape = [-1] }]");
  for (std::size_t i = 0; i < array->size() && i <= limits::tensors_max; ++i) {
    const auto at = fmt::format("{}[{}]", path, i);
    const auto* table = array->get(i)->as_table();
    if (!table)
      return bad_value(origin, at, "must be a table");
    auto tensor = read_tensor(table, at, origin);
    if (!tensor)
      return tensor.error();
    into.push_back(*std::move(tensor));
  }
  const auto fault = fault_of(into);
  return fault.empty() ? result<void>() : bad_value(origin, path, fault);
}

} // namespace baton::cluster
