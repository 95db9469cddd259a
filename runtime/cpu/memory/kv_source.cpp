#include "runtime/cpu/memory/kv_source.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace baton::cpu {
namespace {

// Reads all of `to`, or returns an error.
result<void> read_at(int fd, std::span<std::byte> to, std::uint64_t offset) {
  while (!to.empty()) {
    const auto got = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return fail(errc::io_failed, "KV memory of another shard: {}",
                  got < 0 ? std::strerror(errno) : "it ends before its blocks do");
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

result<kv_label> label_in(int fd) {
  kv_label found;
  if (auto ok = read_at(fd, std::as_writable_bytes(std::span(&found, 1)), 0); !ok)
    return ok.error();
  return found;
}

// The shape in the label, if it is valid.
std::optional<kv_shape> shape_of(const kv_label& l) {
  constexpr std::uint64_t most = 1U << 20U; // per field: far above any model, no overflow
  for (const auto part : {l.first_layer, l.layers, l.first_kv_head, l.kv_heads, l.head_size,
                          l.first_state_layer, l.state_layers, l.state_slots})
    if (part > most)
      return std::nullopt;
  if (l.format >= kv_format_count || l.blocks > UINT32_MAX)
    return std::nullopt;
  return kv_shape{
      static_cast<std::uint32_t>(l.layers),       static_cast<std::uint32_t>(l.kv_heads),
      static_cast<std::uint32_t>(l.head_size),    static_cast<kv_format>(l.format),
      static_cast<std::uint32_t>(l.state_layers), l.state_layer_bytes,
      static_cast<std::uint32_t>(l.state_slots)};
}

// Whether the other shard's blocks have our layout, except for the layers.
bool has_same_layout(const kv_label& theirs, const kv_part& own, const kv_shape& shape) {
  return theirs.model == own.model && theirs.first_kv_head == own.first_kv_head &&
         theirs.kv_heads == shape.kv_heads && theirs.head_size == shape.head_size &&
         theirs.format == static_cast<std::uint64_t>(shape.format);
}

// The sources of layers [first, end). `end_of(source, layer)` is the end of its layers from `layer`
// on; 0: it has not this one.
template <class EndOf>
result<std::vector<kv_run>> runs_between(std::uint32_t first, std::uint32_t end,
                                         std::string_view what, std::span<const kv_source> from,
                                         EndOf end_of) {
  std::vector<kv_run> runs;
  for (auto layer = first; layer < end;) {
    const auto who = std::find_if(from.begin(), from.end(),
                                  [&](const kv_source& s) { return end_of(s, layer) != 0; });
    if (who == from.end())
      return fail(errc::invalid_value, "no shard on this machine has the {} of layer {}", what,
                  layer);
    const auto count = std::min(end, end_of(*who, layer)) - layer;
    runs.push_back({&*who, layer, count});
    layer += count;
  }
  return runs;
}

} // namespace

result<kv_source> kv_source::open(int fd) {
  const auto label = label_in(fd);
  if (!label)
    return label.error();
  if (label->magic != kv_label::kv_label_magic || label->block_positions != kv_block_positions ||
      label->incarnation == 0 || !shape_of(*label))
    return fail(errc::invalid_value, "the file is not a KV memory of this version");
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0)
    return fail(errc::io_failed, "KV memory of another shard: {}", std::strerror(errno));
  return kv_source(own, *label);
}

kv_source::~kv_source() {
  if (fd_ >= 0)
    ::close(fd_);
}

result<void> kv_source::read(block_index block, std::uint32_t layer,
                             std::span<std::byte> to) const {
  const auto shape = *shape_of(label_);
  const auto layer_bytes = shape.block_bytes() / shape.layers;
  ENSURE(block < label_.blocks && layer >= first_layer() &&
             layer + to.size() / layer_bytes <= end_layer() && to.size() % layer_bytes == 0,
         "block {}, {} bytes from layer {} on, of layers {} to {}", block, to.size(), layer,
         first_layer(), end_layer());
  return read_at(fd_, to,
                 kv_label_bytes + std::uint64_t{block} * shape.block_bytes() +
                     std::uint64_t{layer - first_layer()} * layer_bytes);
}

result<void> kv_source::read_state(std::uint32_t slot, std::uint32_t layer,
                                   std::span<std::byte> to) const {
  const auto shape = *shape_of(label_);
  ENSURE(slot >= 1 && slot <= shape.state_slots && layer >= first_state_layer() &&
             layer + to.size() / shape.state_layer_bytes <= end_state_layer() &&
             to.size() % shape.state_layer_bytes == 0,
         "state slot {}, {} bytes from layer {} on, of layers {} to {}", slot, to.size(), layer,
         first_state_layer(), end_state_layer());
  return read_at(fd_, to,
                 kv_label_bytes + label_.blocks * shape.block_bytes() +
                     std::uint64_t{slot - 1} * shape.slot_bytes() +
                     (layer - first_state_layer()) * shape.state_layer_bytes);
}

bool kv_source::is_same() const {
  const auto now = label_in(fd_);
  return now && *now == label_;
}

result<std::vector<kv_run>> runs_of(const kv_part& own, const kv_shape& shape,
                                    std::span<const kv_source> from) {
  return runs_between(own.first_layer, own.first_layer + shape.layers, "keys and values", from,
                      [&](const kv_source& s, std::uint32_t layer) {
                        return has_same_layout(s.label(), own, shape) && s.first_layer() <= layer &&
                                       layer < s.end_layer()
                                   ? s.end_layer()
                                   : 0;
                      });
}

result<std::vector<kv_run>> state_runs_of(const kv_part& own, const kv_shape& shape,
                                          std::span<const kv_source> from) {
  return runs_between(own.first_state_layer, own.first_state_layer + shape.state_layers, "states",
                      from, [&](const kv_source& s, std::uint32_t layer) {
                        const auto& theirs = s.label();
                        return theirs.model == own.model &&
                                       theirs.state_layer_bytes == shape.state_layer_bytes &&
                                       s.first_state_layer() <= layer && layer < s.end_state_layer()
                                   ? s.end_state_layer()
                                   : 0;
                      });
}

} // namespace baton::cpu
