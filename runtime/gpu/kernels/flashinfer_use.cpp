#include "runtime/gpu/kernels/flashinfer.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace baton::gpu {

attention_use flashinfer_use(const attention_shape& s, attention_wanted wanted) {
  // DISPATCH_GQA_GROUP_SIZE in FlashInfer's utils.cuh; prompts support any number.
  constexpr std::array<std::uint32_t, 7> groups{1, 2, 3, 4, 6, 8, 16};
  constexpr std::array<std::uint32_t, 3> head_sizes{64, 128, 256}; // as in flashinfer.cu
  const auto is_in = [](const auto& list, std::uint32_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  };
  attention_use use;
  if (wanted == attention_wanted::nothing)
    use.why_not = "disabled by BATON_GPU_ATTENTION";
  else if (s.kind == element::f32)
    use.why_not = "rows of float32";
  else if (s.kv != s.kind)
    use.why_not = "keys and values of another type than the rows";
  else if (!is_in(head_sizes, s.head_size))
    use.why_not = "heads of " + std::to_string(s.head_size);
  if (!use.why_not.empty())
    return use;
  use.prompts = true;
  const std::uint32_t shared = s.heads / s.kv_heads;
  if (wanted == attention_wanted::prompts)
    use.why_not = "disabled by BATON_GPU_ATTENTION";
  else if (!is_in(groups, shared))
    use.why_not = std::to_string(shared) + " query heads share a KV head";
  else if (!is_in(s.windows, 0))
    use.why_not = "every layer has a window";
  use.singles = use.why_not.empty();
  return use;
}

attention_wanted attention_wanted_of(const char* value) {
  const std::string_view wanted = value == nullptr ? "all" : value;
  if (wanted == "all")
    return attention_wanted::all;
  if (wanted == "prompts")
    return attention_wanted::prompts;
  if (wanted == "own")
    return attention_wanted::nothing;
  throw refused(plugin::status::invalid_value, "BATON_GPU_ATTENTION is '" + std::string(wanted) +
                                                   "': all, prompts and own are possible");
}

} // namespace baton::gpu
