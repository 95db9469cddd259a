// Where the parts of tensors go in a stage's memory. Private to load_weights().
#pragma once

#include "runtime/cpu/forward/thread_team.hpp"
#include "runtime/model/model_file.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton::cpu {

// Rows or columns of a tensor: consecutive ones, or runs of `run` that begin `stride` apart.
struct extent {
  std::uint64_t first = 0, count = 0;
  std::uint64_t run = 0, stride = 0; // 0: one run

  std::uint64_t at(std::uint64_t index) const noexcept {
    return first + (run == 0 ? index : index / run * stride + index % run);
  }
  // How many from `index` on are consecutive.
  std::uint64_t left_in_run(std::uint64_t index) const noexcept {
    return run == 0 ? count - index : std::min(run - index % run, count - index);
  }
};

inline extent shifted(std::uint64_t first, extent part) {
  part.first += first;
  return part;
}

enum class vector_form : std::uint8_t {
  stored,
  by_columns, // all rows of a matrix: the first elements of all rows, then the second
  decay,      // -exp(x)
};

// A part of a tensor and its destination: a matrix, or a vector of float32.
struct placement {
  const model::tensor_view* tensor = nullptr;
  extent rows, columns;
  std::byte* to = nullptr;
  bool is_vector = false;
  bool is_transposed = false; // outputs of the matrix are columns of the tensor, its inputs `rows`
  vector_form form = vector_form::stored;
};

// The type in which a transposed matrix is packed: blocks have no order across rows.
model::tensor_type transposed_type(model::tensor_type type) noexcept;

// Reads and packs all of them; the team shares the work. Errors: io_failed.
result<void> fill_placements(const model::model_file& file,
                             const std::vector<placement>& placements, thread_team& team);

} // namespace baton::cpu
