// Models of several GGUF files, as llama-gguf-split writes them: the first part has split.no 0 and
// all metadata, the others have their number, the count and their tensors.
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/model/part_name.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace baton::model {
namespace {

constexpr std::string_view number_key = "split.no";
constexpr std::string_view count_key = "split.count";
constexpr std::string_view tensors_key = "split.tensors.count";

} // namespace

result<std::uint32_t> gguf_file::part_count() const {
  const auto count = get_u32(count_key, 1);
  if (!count) {
    return count;
  }
  if (*count > part_count_max) {
    return fail(errc::bad_model_file, "metadata key '{}' is {}, the limit is {}", count_key, *count,
                part_count_max);
  }
  return std::max(1U, *count);
}

result<void> gguf_file::add_part(gguf_file part) {
  const auto count = part_count();
  const auto own = part.get_u32(number_key);
  const auto of = part.part_count();
  for (const auto& number : {count, own, of}) {
    if (!number) {
      return number.error();
    }
  }
  const auto next = static_cast<std::uint32_t>(later_parts_.size() + 1);
  if (*own != next || *of != *count) {
    return fail(errc::bad_model_file, "part {} of {} is needed, and this is part {} of {}",
                next + 1, *count, std::uint64_t{*own} + 1, *of);
  }
  const std::size_t first = tensors_.size();
  for (auto& tensor : part.tensors_) {
    if (!index_by_name_.emplace(tensor.name, tensors_.size()).second) {
      return fail(errc::bad_model_file, "tensor '{}' is in an earlier part as well", tensor.name);
    }
    tensors_.push_back(std::move(tensor));
  }
  size_bytes_ += part.size_bytes_;
  std::array<std::byte, sizeof part.fingerprint_> print;
  std::memcpy(print.data(), &part.fingerprint_, sizeof part.fingerprint_);
  fingerprint_ = mixed(fingerprint_, print);
  later_parts_.push_back({std::move(part.data_), first});
  return {};
}

result<void> gguf_file::check_parts() const {
  const auto count = part_count();
  const auto stated = get_u64(tensors_key, tensors_.size());
  if (!count || !stated) {
    return count ? stated.error() : count.error();
  }
  if (*count != later_parts_.size() + 1) {
    return fail(errc::bad_model_file, "{} parts of {} are there", later_parts_.size() + 1, *count);
  }
  if (*count > 1 && *stated != tensors_.size()) {
    return fail(errc::bad_model_file, "metadata key '{}' is {}, and the {} parts have {} tensors",
                tensors_key, *stated, *count, tensors_.size());
  }
  return {};
}

// Opens the files beside this one whose names have the other numbers.
result<void> gguf_file::open_parts() {
  const auto in_first = [&](const error& e) {
    return fail(e.code, "{}: {}", path().string(), e.message);
  };
  const auto count = part_count();
  const auto own = get_u32(number_key, 0);
  if (!count || !own) {
    return in_first(count ? own.error() : count.error());
  }
  if (*count == 1) {
    return {};
  }
  const auto name = parse_part_name(path().filename().string());
  if (*own != 0) {
    return fail(errc::bad_model_file, "{}: it is part {} of {} of a model: give the first, {}",
                path().string(), std::uint64_t{*own} + 1, *count,
                name ? name->of(1) : fmt::format("NAME-00001-of-{:05}.gguf", *count));
  }
  if (!name || name->number != 1 || name->count != *count) {
    return fail(errc::bad_model_file,
                "{}: it is the first of {} parts, so its name should end in -00001-of-{:05}.gguf: "
                "the other parts are found by their names",
                path().string(), *count, *count);
  }
  for (std::uint32_t number = 2; number <= *count; ++number) {
    const auto at = path().parent_path() / name->of(number);
    auto part = open_one(at);
    if (!part) {
      return fail(part.error().code, "part {} of {} of the model: {}", number, *count,
                  part.error().message);
    }
    if (auto r = add_part(*std::move(part)); !r) {
      return fail(r.error().code, "{}: {}", at.string(), r.error().message);
    }
  }
  const auto complete = check_parts();
  return complete ? result<void>() : in_first(complete.error());
}

const mapped_file& gguf_file::file_with(std::size_t tensor) const noexcept {
  const auto next = std::ranges::upper_bound(later_parts_, tensor, {}, &later_part::first_tensor);
  return next == later_parts_.begin() ? data_ : std::prev(next)->data;
}

} // namespace baton::model
