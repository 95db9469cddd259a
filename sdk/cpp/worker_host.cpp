// Runs a worker model in a shared library: baton_worker_host LIBRARY.so [OPTION ...].
// The library is the operator's code: nodes.toml names it, never a client.
#include "sdk/cpp/abi_values.hpp"
#include "sdk/cpp/library_calls.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <deque>

namespace {

using baton::sdk::library_work;
using baton::sdk::text_of;

class library_handler : public baton::worker_handler {
public:
  library_handler(std::string file, std::vector<const char*> options)
      : file_(std::move(file)), options_(std::move(options)) {}

  baton::result<void> initialize(const baton::worker_place& place) override {
    void* library = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL); // for the life of the process
    if (library == nullptr)
      return baton::fail(baton::errc::bad_config, "{}", text_of(dlerror()));
    decltype(&baton_worker_abi) abi = nullptr;
    decltype(&baton_worker_create) create = nullptr;
    if (!find(library, "baton_worker_abi", abi) || !find(library, "baton_worker_create", create) ||
        !find(library, "baton_worker_handle", handle_) ||
        !find(library, "baton_worker_destroy", destroy_))
      return baton::fail(baton::errc::bad_config, "{} does not export all of worker_abi.h", file_);
    const auto version = abi();
    if (version < 1 || version > BATON_WORKER_ABI_VERSION)
      return baton::fail(baton::errc::version_mismatch,
                         "{} is made for version {}, not for 1 to {}", file_, version,
                         BATON_WORKER_ABI_VERSION);
    calls_ = &baton::sdk::library_calls(place, version);
    std::array<char, 1024> why{};
    self_ = create(options_.data(), options_.size(), why.data(), why.size());
    if (self_ == nullptr) {
      why.back() = '\0';
      return baton::fail(baton::errc::start_failed, "{}: {}", file_, why.data());
    }
    return {};
  }

  void handle(std::span<baton::work> batch) override {
    std::deque<library_work> works; // addresses must stay valid
    std::vector<baton_request> requests;
    for (auto& one : batch)
      requests.push_back(works.emplace_back(one).request());
    handle_(self_, requests.data(), requests.size(), calls_);
  }

  void finalize() override { destroy_(self_); }

private:
  template <class Function>
  static bool find(void* library, const char* name, Function& to) {
    to = reinterpret_cast<Function>(dlsym(library, name));
    return to != nullptr;
  }

  std::string file_;
  std::vector<const char*> options_;
  void* self_ = nullptr;
  const baton_worker_calls* calls_ = nullptr;
  decltype(&baton_worker_handle) handle_ = nullptr;
  decltype(&baton_worker_destroy) destroy_ = nullptr;
};

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "baton_worker error usage: %s LIBRARY.so [OPTION ...]\n", argv[0]);
    return 78;
  }
  library_handler handler(argv[1], {argv + 2, argv + argc});
  return baton::serve_worker(handler);
}
