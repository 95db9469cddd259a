// FlashInfer's paged attention: BatchPrefillWithPagedKVCache for sequences with several rows
// (causal, any lengths), BatchDecodeWithPagedKVCache for sequences with one row. The host plans
// once per step and copies the plans to where the kernels of all layers read them.
//
// The only file that includes FlashInfer's headers. Its API changes between releases, so the
// version is pinned (scripts/setup.sh) and hidden here (docs/decisions/0043-flashinfer.md).
#include "runtime/gpu/kernels/flashinfer.hpp"

#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/mask.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>

#include <algorithm>
#include <map>
#include <numeric>
#include <type_traits>

namespace baton::gpu {
namespace {

namespace fi = ::flashinfer;
using index = std::int32_t;

constexpr auto no_position_encoding = fi::PosEncodingMode::kNone; // already rotated

template <bool HasWindow, bool HasCap>
using scores = fi::DefaultAttention</*use_custom_mask=*/false, HasWindow, HasCap,
                                    /*use_alibi=*/false>;
template <class Variant>
struct kind_of {
  using type = Variant;
};

void check(cudaError_t e, const char* what) {
  if (e != cudaSuccess)
    throw refused(plugin::status::internal,
                  std::string("FlashInfer, ") + what + ": " + cudaGetErrorString(e));
}

// FlashInfer takes non-const pointers but does not modify this memory.
template <class T>
T* mutable_pointer(const void* memory) {
  return static_cast<T*>(const_cast<void*>(memory));
}

// FlashInfer's window: the number of positions before a row's own; -1: all.
index before_own(std::uint32_t window) {
  return window == 0 ? -1 : static_cast<index>(window) - 1;
}

// The memory of a plan: the host writes it to `host` and copies it to `numbers`. The next plan
// waits for that copy.
class workspace {
public:
  explicit workspace(const attention_memory& memory) : memory_(memory) {
    check(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming), "an event");
  }
  workspace(const workspace&) = delete;
  workspace& operator=(const workspace&) = delete;
  ~workspace() { cudaEventDestroy(copied_); }

  void reserve(std::size_t number_bytes, std::size_t part_bytes) {
    if (number_bytes > number_bytes_) {
      number_bytes_ = 0;
      numbers_ = memory_.take(number_bytes);
      host_ = memory_.take_host(number_bytes);
      number_bytes_ = number_bytes;
    }
    if (part_bytes > part_bytes_) {
      part_bytes_ = 0;
      parts_ = memory_.take(part_bytes);
      part_bytes_ = part_bytes;
    }
  }
  void wait_for_copy() { check(cudaEventSynchronize(copied_), "the plan before"); }
  void mark_copy() {
    check(cudaEventRecord(copied_, static_cast<cudaStream_t>(memory_.stream)), "an event");
  }

  void* numbers() const { return numbers_.as<void>(); }
  void* host() const { return host_.as<void>(); }
  void* parts() const { return parts_.as<void>(); }
  std::size_t number_bytes() const { return number_bytes_; }
  std::size_t part_bytes() const { return part_bytes_; }
  index* number_at(std::int64_t offset) const {
    return fi::GetPtrFromBaseOffset<index>(numbers(), offset);
  }
  template <class T>
  T* part_at(std::int64_t offset) const {
    return fi::GetPtrFromBaseOffset<T>(parts(), offset);
  }

private:
  attention_memory memory_;
  cudaEvent_t copied_ = nullptr;
  buffer numbers_, host_, parts_; // `parts_`: results of parts of contexts
  std::size_t number_bytes_ = 0, part_bytes_ = 0;
};

template <class T, std::uint32_t Head>
class flashinfer_attention final : public paged_attention {
public:
  flashinfer_attention(const attention_shape& shape, const attention_memory& memory)
      : shape_(shape), stream_(static_cast<cudaStream_t>(memory.stream)), single_(memory) {
    for (const auto window : shape.windows)
      prompts_.try_emplace(window, memory).first->second.space.reserve(prompt_number_bytes(),
                                                                       prompt_part_bytes());
    if (flashinfer_use(shape).singles)
      reserve_singles();
  }

  void plan_singles(const query_tables& tables, bool is_recorded) override {
    single_.wait_for_copy();
    with_estimate([&](auto kind, auto estimate) {
      using variant = typename decltype(kind)::type;
      check(fi::DecodePlan<Head, no_position_encoding, variant, single_params>(
                single_.parts(), single_.part_bytes(), single_.numbers(), single_.host(),
                single_.number_bytes(), single_plan_, mutable_pointer<index>(tables.page_begin),
                tables.queries, shape_.heads, shape_.block_positions,
                /*enable_cuda_graph=*/is_recorded, stream_, estimate),
            "a plan of single rows");
    });
    single_.mark_copy();
  }

  void plan_prompts(const query_tables& tables) override {
    for (auto& [window, own] : prompts_) {
      own.space.wait_for_copy();
      check(fi::PrefillPlan<index>(
                own.space.parts(), own.space.part_bytes(), own.space.numbers(), own.space.host(),
                own.space.number_bytes(), own.plan, mutable_pointer<index>(tables.row_begin),
                mutable_pointer<index>(tables.page_begin), tables.rows, tables.queries, shape_.heads,
                shape_.kv_heads, Head, Head, shape_.block_positions, /*enable_cuda_graph=*/false,
                sizeof(T), before_own(window), /*fixed_split_size=*/0, /*disable_split_kv=*/false,
                /*num_colocated_ctas=*/0, /*uniform_q_len=*/0, stream_, sizeof(T)),
            "a plan of prompts");
      own.space.mark_copy();
    }
  }

  void attend_singles(const attend_args& a, const query_tables& tables) override {
    single_params p;
    p.q = mutable_pointer<T>(a.projected);
    p.paged_kv = pages_of(a, tables);
    p.o = static_cast<T*>(a.out);
    p.num_qo_heads = a.heads;
    p.q_stride_n = static_cast<index>(a.row_elements);
    p.q_stride_h = static_cast<index>(Head);
    p.window_left = -1;
    p.logits_soft_cap = a.soft_cap;
    p.sm_scale = 1; // queries are already scaled
    p.request_indices = single_.number_at(single_plan_.request_indices_offset);
    p.kv_tile_indices = single_.number_at(single_plan_.kv_tile_indices_offset);
    p.o_indptr = single_.number_at(single_plan_.o_indptr_offset);
    p.kv_chunk_size_ptr = single_.number_at(single_plan_.kv_chunk_size_ptr_offset);
    p.padded_batch_size = static_cast<std::uint32_t>(single_plan_.padded_batch_size);
    T* values = nullptr;
    float* sums = nullptr;
    if (single_plan_.split_kv) {
      values = single_.part_at<T>(single_plan_.v_offset);
      sums = single_.part_at<float>(single_plan_.s_offset);
      if (single_plan_.enable_cuda_graph)
        p.block_valid_mask =
            fi::GetPtrFromBaseOffset<bool>(single_.numbers(), single_plan_.block_valid_mask_offset);
    }
    with_single_variant([&](auto kind) {
      using variant = typename decltype(kind)::type;
      check(fi::BatchDecodeWithPagedKVCacheDispatched<Head, no_position_encoding, variant>(
                p, values, sums, /*enable_pdl=*/false, stream_),
            "single rows");
    });
  }

  void attend_prompts(const attend_args& a, const query_tables& tables) override {
    // A cap without a window uses the variant with a window that no row reaches.
    if (a.soft_cap > 0)
      run_prompts<scores<true, true>>(a, tables);
    else if (a.window > 0)
      run_prompts<scores<true, false>>(a, tables);
    else
      run_prompts<scores<false, false>>(a, tables);
  }

private:
  using prompt_params = fi::BatchPrefillPagedParams<T, T, T, index>;
  using single_params = fi::BatchDecodeParams<T, T, T, index>;
  struct prompts_of_window {
    explicit prompts_of_window(const attention_memory& memory) : space(memory) {}
    workspace space;
    fi::PrefillPlanInfo plan;
  };

  template <class F>
  void with_single_variant(const F& f) const {
    if (shape_.soft_cap > 0)
      f(kind_of<scores<false, true>>{});
    else
      f(kind_of<scores<false, false>>{});
  }

  // The number of context parts that the device processes at once, by query heads per KV head.
  template <class F>
  void with_estimate(const F& f) const {
    with_single_variant([&](auto kind) {
      using variant = typename decltype(kind)::type;
      DISPATCH_GQA_GROUP_SIZE(shape_.heads / shape_.kv_heads, Group, {
        f(kind, fi::BatchDecodeWithPagedKVCacheWorkEstimationDispatched<
                    Group, Head, no_position_encoding, variant, single_params>);
      });
    });
  }

  // Upper bounds for PrefillPlan; a larger plan throws. Queries and the heads that share a KV head
  // are packed into tiles of 16 to 128. If a step does not fill the device, it is split along its
  // keys up to two blocks per multiprocessor.
  static constexpr std::size_t plan_tile_min = 16, plan_tile_max = 128, plan_alignment = 16;
  static std::size_t blocks_at_once() {
    int device = 0, multiprocessors = 0;
    check(cudaGetDevice(&device), "a device");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
          "its multiprocessors");
    return 2 * static_cast<std::size_t>(multiprocessors);
  }
  std::size_t cut_tiles_max() const { return blocks_at_once() / shape_.kv_heads; }
  std::size_t prompt_number_bytes() const {
    const std::size_t rows = shape_.rows_max, shared = shape_.heads / shape_.kv_heads;
    // Each query starts a new tile.
    const std::size_t tiles = std::max(rows * shared / plan_tile_min + rows, cut_tiles_max());
    constexpr std::size_t lists_of_tiles = 3, ends = 2, lists = 6;
    return (lists_of_tiles * tiles + ends * (rows + 1) + 1) * sizeof(index) +
           lists * plan_alignment;
  }
  std::size_t prompt_part_bytes() const {
    const std::size_t shared = shape_.heads / shape_.kv_heads;
    const std::size_t rows = (cut_tiles_max() * plan_tile_max + shared - 1) / shared;
    return shape_.heads * rows * (Head + 1) * sizeof(float) + 2 * plan_alignment;
  }

  // Reserves for any step, because recorded memory must not move. One sequence has the most parts;
  // the largest number of sequences has the most numbers.
  void reserve_singles() {
    std::vector<index> one_page_each(shape_.rows_max + 1);
    std::iota(one_page_each.begin(), one_page_each.end(), 0);
    for (const std::uint32_t queries : {1U, shape_.rows_max})
      for (const bool is_recorded : {false, true}) {
        std::size_t parts = 0, numbers = 0;
        with_estimate([&](auto kind, auto estimate) {
          using variant = typename decltype(kind)::type;
          check(fi::DecodePlanWorkspaceSize<Head, no_position_encoding, variant, single_params>(
                    parts, numbers, one_page_each.data(), queries, shape_.heads,
                    shape_.block_positions, is_recorded, stream_, estimate),
                "the size of a plan");
        });
        single_.reserve(numbers, parts);
      }
  }

  fi::paged_kv_t<T, index> pages_of(const attend_args& a, const query_tables& t) const {
    return {a.kv.kv_heads,
            a.kv.block_positions,
            Head,
            t.queries,
            fi::QKVLayout::kHND,
            static_cast<T*>(a.kv.keys),
            static_cast<T*>(a.kv.values),
            mutable_pointer<index>(t.pages),
            mutable_pointer<index>(t.page_begin),
            mutable_pointer<index>(t.last_page)};
  }

  template <class Variant>
  void run_prompts(const attend_args& a, const query_tables& tables) {
    const auto& own = prompts_.at(a.window);
    prompt_params p;
    p.q = mutable_pointer<T>(a.projected);
    p.paged_kv = pages_of(a, tables);
    p.q_indptr = mutable_pointer<index>(tables.row_begin);
    p.o = static_cast<T*>(a.out);
    p.group_size = fi::uint_fastdiv(a.heads / a.kv.kv_heads);
    p.num_qo_heads = a.heads;
    p.q_stride_n = static_cast<index>(a.row_elements);
    p.q_stride_h = static_cast<index>(Head);
    p.window_left = before_own(a.window);
    p.logits_soft_cap = a.soft_cap;
    p.sm_scale = 1; // queries are already scaled
    p.request_indices = own.space.number_at(own.plan.request_indices_offset);
    p.qo_tile_indices = own.space.number_at(own.plan.qo_tile_indices_offset);
    p.kv_tile_indices = own.space.number_at(own.plan.kv_tile_indices_offset);
    p.o_indptr = own.space.number_at(own.plan.o_indptr_offset);
    p.kv_chunk_size_ptr = own.space.number_at(own.plan.kv_chunk_size_ptr_offset);
    p.max_total_num_rows = static_cast<std::uint32_t>(own.plan.total_num_rows);
    p.padded_batch_size = static_cast<std::uint32_t>(own.plan.padded_batch_size);
    T* values = nullptr;
    float* sums = nullptr;
    if (own.plan.split_kv) {
      p.merge_indptr = own.space.number_at(own.plan.merge_indptr_offset);
      values = own.space.template part_at<T>(own.plan.v_offset);
      sums = own.space.template part_at<float>(own.plan.s_offset);
    }
    if (own.plan.cta_tile_q == 16)
      launch_prompts<16, Variant>(p, values, sums);
    else if (own.plan.cta_tile_q == 64)
      launch_prompts<64, Variant>(p, values, sums);
    else
      run_largest_tile<Variant>(own.plan.cta_tile_q, p, values, sums);
  }

  template <class Variant>
  void run_largest_tile(std::int64_t tile, const prompt_params& p, T* values, float* sums) {
    if constexpr (Head < 256) // has no larger tile
      if (tile == plan_tile_max)
        return launch_prompts<plan_tile_max, Variant>(p, values, sums);
    throw refused(plugin::status::internal, "FlashInfer plans prompts in tiles of " +
                                                std::to_string(tile) +
                                                ", for which this build has no kernel");
  }

  template <std::uint32_t Tile, class Variant>
  void launch_prompts(const prompt_params& p, T* values, float* sums) {
    check(fi::BatchPrefillWithPagedKVCacheDispatched<
              /*SAME_KV_STRIDES=*/true, Tile, Head, Head, no_position_encoding,
              /*USE_FP16_QK_REDUCTION=*/false, fi::MaskMode::kCausal, Variant>(
              p, values, sums, /*enable_pdl=*/false, stream_),
          "prompts");
  }

  attention_shape shape_;
  cudaStream_t stream_;
  workspace single_;
  fi::DecodePlanInfo single_plan_;
  std::map<std::uint32_t, prompts_of_window> prompts_; // by the layers' windows
};

template <class T>
std::unique_ptr<paged_attention> with_heads(const attention_shape& s, const attention_memory& m) {
  if (s.head_size == 64)
    return std::make_unique<flashinfer_attention<T, 64>>(s, m);
  if (s.head_size == 128)
    return std::make_unique<flashinfer_attention<T, 128>>(s, m);
  return std::make_unique<flashinfer_attention<T, 256>>(s, m);
}

} // namespace

std::unique_ptr<paged_attention> make_flashinfer(const attention_shape& shape,
                                                 const attention_memory& memory) {
  if (shape.kind == element::f16)
    return with_heads<half>(shape, memory);
  return with_heads<nv_bfloat16>(shape, memory);
}

} // namespace baton::gpu
