// Attention that a library computes for whole sequences: where their rows and pages lie is planned
// once a step on the host, and then it runs in each layer. A device may have one
// (device::attention); what it does not compute stays with kernel_table::attend.
#pragma once

#include "runtime/gpu/kernels.hpp"

#include <memory>
#include <string>
#include <vector>

namespace baton::gpu {

// What the attention of a model is like, in all steps.
struct attention_shape {
  element kind = element::f32, kv = element::f32; // of queries and results; of keys and values
  std::uint32_t heads = 0, kv_heads = 0, head_size = 0, block_positions = 0;
  std::uint32_t rows_max = 0;         // of a step
  float soft_cap = 0;                 // 0: none
  std::vector<std::uint32_t> windows; // of the layers, each once, ascending; 0: none
};

// What a library computes of a model's steps.
struct attention_use {
  bool prompts = false; // sequences that have several rows in a step
  bool singles = false; // sequences of one row, in layers without a window
  std::string why_not;  // what is missing for the rest; empty: nothing
};

// Consecutive sequences of a step as compressed rows (CSR): sequence i has the rows
// [row_begin[i], row_begin[i + 1]) of the group, which are the last ones of its positions, and the
// pages [page_begin[i], page_begin[i + 1]) of `pages`, each a KV block, the last one with
// last_page[i] positions.
struct query_tables {
  std::uint32_t queries = 0, rows = 0;
  const std::int32_t* row_begin = nullptr;  // [queries + 1], from 0
  const std::int32_t* page_begin = nullptr; // [queries + 1], from 0
  const std::int32_t* last_page = nullptr;  // [queries]
  const std::uint32_t* pages = nullptr;     // [page_begin[queries]]
};

// Driven by the stage's thread. Throws what its device and the library throw.
class paged_attention {
public:
  virtual ~paged_attention() = default;

  // Of a step, before its first layer. `tables` are on the host, and may change afterwards. A step
  // that is recorded, and each that is replayed, is planned as such: what attend_singles() launches
  // depends on the number of queries alone then, and nothing that it reads moves.
  virtual void plan_singles(const query_tables& tables, bool is_recorded) = 0;
  virtual void plan_prompts(const query_tables& tables) = 0;

  // As kernel_table::attend for the rows of the group: `a.projected` and `a.out` begin at the first
  // of them, `a.positions`, `a.tables`, `a.blocks`, `a.splits` and `a.parts` are not read. The
  // tables are those of the plan, on the device. Singles: the layer has no window.
  virtual void attend_singles(const attend_args& a, const query_tables& tables) = 0;
  virtual void attend_prompts(const attend_args& a, const query_tables& tables) = 0;
};

// A device's answer for a model.
struct chosen_attention {
  std::string name;                         // "FlashInfer 0.7.2.post1"
  attention_use use;                        // of the library
  std::unique_ptr<paged_attention> library; // null: kernel_table::attend for everything
};

} // namespace baton::gpu
