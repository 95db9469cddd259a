// Libraries that pretend to be NCCL but lack something, one per definition: built by
// CMakeLists.txt.
#if defined(BATON_FAKE_OLD)
#define FAKE(name)                                                                                 \
  extern "C" int name() {                                                                          \
    return 0;                                                                                      \
  }
FAKE(ncclGetErrorString)
FAKE(ncclGetLastError)
FAKE(ncclGetUniqueId)
FAKE(ncclCommInitRankConfig)
FAKE(ncclCommGetAsyncError)
FAKE(ncclCommAbort)
FAKE(ncclAllReduce)
#endif

extern "C" int ncclGetVersion(int* version) {
  *version = 22605;
  return 0;
}
