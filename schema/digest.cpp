#include "schema/digest.hpp"

#include "schema/codec/codec.hpp"

#include <xxhash.h>

namespace baton {

std::uint64_t digest_of(std::string_view text) noexcept {
  return XXH3_64bits(text.data(), text.size());
}

std::uint64_t digest_behind(std::uint64_t before, std::string_view text) noexcept {
  return XXH3_64bits_withSeed(text.data(), text.size(), before);
}

std::uint64_t digest_of(generate request, bool add_generation_prompt) {
  request.request = 0;
  request.request_id.clear();
  request.terms.deadline = {};
  request.is_resumable = false;
  request.template_options.local_seconds = 0; // a repeated request has another time
  const auto bytes = encode(envelope{}, message(std::move(request))).body;
  return XXH3_64bits_withSeed(bytes.data, bytes.size_bytes, add_generation_prompt ? 1 : 0);
}

} // namespace baton
