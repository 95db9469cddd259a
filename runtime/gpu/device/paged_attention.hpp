// Attention of whole sequences by a library. The host plans the location of rows and pages once per
// step; the plan is used in each layer. A device may provide one (device::attention);
// kernel_table::attend handles the rest.
#pragma once

#include "runtime/gpu/device/kernels.hpp"

#include <memory>
#include <string>
#include <vector>

namespace baton::gpu {

// The properties of a model's attention that are the same in all steps.
struct attention_shape {
  element kind = element::f32, kv = element::f32; // of queries and results; of keys and values
  std::uint32_t heads = 0, kv_heads = 0, head_size = 0, block_positions = 0;
  std::uint32_t rows_max = 0;         // of a step
  float soft_cap = 0;                 // 0: none
  std::vector<std::uint32_t> windows; // of the layers, unique, ascending; 0: none
};

// The parts of a model's steps that a library computes.
struct attention_use {
  bool prompts = false; // sequences with several rows in a step
  bool singles = false; // sequences with one row, in layers without a window
  std::string why_not;  // why the rest is not supported; empty: all is
};

// Consecutive sequences of a step as compressed rows (CSR). Sequence i has the rows [row_begin[i],
// row_begin[i + 1]) of the group, which are its last positions. Its KV blocks are [page_begin[i],
// page_begin[i + 1]) of `pages`; the last block holds last_page[i] positions.
struct query_tables {
  std::uint32_t queries = 0, rows = 0;
  const std::int32_t* row_begin = nullptr;  // [queries + 1], from 0
  const std::int32_t* page_begin = nullptr; // [queries + 1], from 0
  const std::int32_t* last_page = nullptr;  // [queries]
  const std::uint32_t* pages = nullptr;     // [page_begin[queries]]
};

// Used by the stage's thread. Throws what its device and the library throw.
class paged_attention {
public:
  virtual ~paged_attention() = default;

  // Called before the first layer of a step. `tables` are on the host and are not kept. Recorded
  // and replayed steps need `is_recorded`: then the launches of attend_singles() depend only on the
  // number of queries, and the memory that they read does not move.
  virtual void plan_singles(const query_tables& tables, bool is_recorded) = 0;
  virtual void plan_prompts(const query_tables& tables) = 0;

  // As kernel_table::attend for the rows of the group: `a.projected` and `a.out` start at its first
  // row; `a.positions`, `a.tables`, `a.blocks`, `a.splits` and `a.parts` are not read. `tables` are
  // those of the plan, on the device. Singles: the layer has no window.
  virtual void attend_singles(const attend_args& a, const query_tables& tables) = 0;
  virtual void attend_prompts(const attend_args& a, const query_tables& tables) = 0;
};

// The attention that a device selects for a model.
struct chosen_attention {
  std::string name;                         // "FlashInfer 0.7.2.post1"
  attention_use use;                        // of the library
  std::unique_ptr<paged_attention> library; // null: kernel_table::attend for everything
};

} // namespace baton::gpu
