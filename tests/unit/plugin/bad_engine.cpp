// Libraries that a host refuses, one by each definition: built by CMakeLists.txt.
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
#else
constexpr table calls{.name = "gap"};
#endif
} // namespace

extern "C" const table* baton_engine() {
  return &calls;
}
#endif
