#include "gateway/api/kserve/workers/kserve_raw.hpp"

#include "gateway/request/tensor_data.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace baton::gateway {
namespace {

error refusal(const worker_tensor& of, std::string what) {
  return {errc::invalid_value, std::move(what), of.name};
}

error no_raw(const worker_tensor& of, std::string_view needed) {
  return refusal(of, fmt::format("a body of bytes alone cannot be '{}', {} of the shape {}: that "
                                 "takes {}",
                                 of.name, of.datatype, shape_text(of.shape), needed));
}

result<std::vector<std::int64_t>> shape_of_text(const worker_tensor& of) {
  const auto is_one = [](std::int64_t n) { return n == 1 || n == -1; };
  if (!std::all_of(of.shape.begin(), of.shape.end(), is_one)) {
    return no_raw(of, "one element");
  }
  return std::vector<std::int64_t>(of.shape.size(), 1);
}

// Declared shapes have no dimension of 0 and no more elements than a body has bytes
// (cluster/config/readers/config_tensors.cpp).
result<std::vector<std::int64_t>> shape_of_numbers(const worker_tensor& of, std::size_t bytes) {
  auto shape = of.shape;
  if (std::count(shape.begin(), shape.end(), -1) > 1) {
    return no_raw(of, "one open dimension at most");
  }
  auto size = find_datatype(of.datatype)->bytes; // of the elements in the fixed dimensions
  std::int64_t* open = nullptr;
  for (auto& n : shape) {
    if (n == -1) {
      open = &n;
    } else {
      size *= static_cast<std::size_t>(n);
    }
  }
  if (open ? bytes % size != 0 : bytes != size) {
    return refusal(of, fmt::format("the body has {} bytes, which do not match '{}', {} of the "
                                   "shape {}",
                                   bytes, of.name, of.datatype, shape_text(of.shape)));
  }
  if (open) {
    *open = static_cast<std::int64_t>(bytes / size);
  }
  return shape;
}

} // namespace

result<tensor> tensor_of_raw(const worker_tensor& of, bool is_batched, std::string_view body) {
  const bool is_text = of.datatype == "BYTES";
  auto shape = is_text ? shape_of_text(of) : shape_of_numbers(of, body.size());
  if (!shape) {
    return shape.error();
  }
  tensor out{of.name, of.datatype, *std::move(shape), {}};
  if (is_batched) {
    out.shape.insert(out.shape.begin(), 1);
  }
  if (is_text) { // preceded by its length, little-endian
    const auto size = static_cast<std::uint32_t>(body.size());
    out.data.append(reinterpret_cast<const char*>(&size), sizeof size);
  }
  out.data += body;
  return out;
}

} // namespace baton::gateway
