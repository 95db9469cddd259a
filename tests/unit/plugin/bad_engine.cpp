// Libraries that a host rejects, or one with only the required functions, one per definition: built
// by CMakeLists.txt.
#include "runtime/plugin/abi.hpp"

#if defined(BATON_BAD_NONE)
extern "C" int not_an_engine() {
  return 0;
}
#else
namespace {
using namespace baton::plugin;
#ifdef BATON_BAD_OLD
constexpr table calls{.abi = abi_version + 1, .name = "old"};
#elif defined(BATON_BAD_MODEST)
constexpr table calls{
    abi_version,
    "modest",
    [](const settings*, facts*, failure*) { return status::ok; },
    [](const decoder*, const settings*, const host*, engine_handle** out, failure*) {
      static int handle = 0;
      *out = &handle;
      return status::ok;
    },
    [](engine_handle*, const batch*, outcome*, failure*) { return status::ok; },
    [](engine_handle*) {}};
#else
constexpr table calls{.name = "gap"};
#endif
} // namespace

extern "C" const table* baton_engine() {
  return &calls;
}
#endif
