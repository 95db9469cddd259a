// The file of API keys, with any content.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/api_key_file.hpp"
#include "schema/ensure.hpp"
#include "tests/fuzz/input.hpp"

using namespace baton;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto keys = cluster::parse_api_keys(fuzz::text_of(data, size), "keys.toml");
  if (!keys) {
    ENSURE(!keys.error().message.empty(), "an error without words");
    return 0;
  }
  // An accepted file is one ring: each of its digests identifies its own name.
  const gateway::key_ring ring(*keys);
  for (std::size_t i = 0; i < keys->size(); ++i) {
    ENSURE(cluster::is_name((*keys)[i].name), "key {} has no name", i);
    ENSURE(!(*keys)[i].digests.empty(), "key {} has no digest", i);
    for (const auto& digest : (*keys)[i].digests)
      ENSURE(ring.find(digest) == i, "the digest of key {} finds another", i);
  }
  return 0;
}
