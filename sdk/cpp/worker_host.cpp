// The process around a worker model in a shared library: baton_worker_host LIBRARY.so [OPTION ...]
// The library is code of the operator's: it is loaded because nodes.toml names it, never because a
// client does.
#include "sdk/cpp/baton/worker.hpp"
#include "sdk/cpp/baton/worker_abi.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>

namespace {

baton::work& of(baton_work* w) {
  return *reinterpret_cast<baton::work*>(w);
}

std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

baton::tensor tensor_of(const baton_tensor& t) {
  baton::tensor made{text_of(t.name), text_of(t.datatype), {}, {}};
  if (t.dimensions > 0)
    made.shape.assign(t.shape, t.shape + t.dimensions);
  made.data.assign(static_cast<const char*>(t.data), t.data_bytes);
  return made;
}

void say_piece(baton_work* w, const baton_piece* piece, int is_last) {
  baton::inferred p;
  if (piece->body_bytes > 0)
    p.body.assign(static_cast<const char*>(piece->body), piece->body_bytes);
  p.content_type = text_of(piece->content_type);
  for (std::size_t i = 0; i < piece->outputs_count; ++i)
    p.outputs.push_back(tensor_of(piece->outputs[i]));
  if (is_last != 0)
    of(w).finish(std::move(p));
  else
    of(w).piece(std::move(p));
}

void say_failure(baton_work* w, const char* why) {
  of(w).fail(baton::fail(baton::errc::handler_failed, "{}", text_of(why)));
}

int ask_cancelled(const baton_work* w) {
  return reinterpret_cast<const baton::work*>(w)->is_cancelled() ? 1 : 0;
}

constexpr baton_worker_calls calls{say_piece, say_failure, ask_cancelled};

class library_handler : public baton::worker_handler {
public:
  library_handler(std::string file, std::vector<const char*> options)
      : file_(std::move(file)), options_(std::move(options)) {}

  baton::result<void> initialize(const baton::worker_place&) override {
    void* library = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL); // for the life of the process
    if (library == nullptr)
      return baton::fail(baton::errc::bad_config, "{}", text_of(dlerror()));
    decltype(&baton_worker_abi) abi = nullptr;
    decltype(&baton_worker_create) create = nullptr;
    if (!find(library, "baton_worker_abi", abi) || !find(library, "baton_worker_create", create) ||
        !find(library, "baton_worker_handle", handle_) ||
        !find(library, "baton_worker_destroy", destroy_))
      return baton::fail(baton::errc::bad_config, "{} does not export all of worker_abi.h", file_);
    if (const auto version = abi(); version != BATON_WORKER_ABI_VERSION)
      return baton::fail(baton::errc::version_mismatch, "{} is made for version {}, not {}", file_,
                         version, BATON_WORKER_ABI_VERSION);
    std::array<char, 1024> why{};
    self_ = create(options_.data(), options_.size(), why.data(), why.size());
    if (self_ == nullptr) {
      why.back() = '\0';
      return baton::fail(baton::errc::start_failed, "{}: {}", file_, why.data());
    }
    return {};
  }

  void handle(std::span<baton::work> batch) override {
    std::vector<std::vector<baton_tensor>> inputs; // of each request: they must stay
    inputs.reserve(batch.size());
    std::vector<baton_request> requests;
    for (auto& one : batch) {
      const auto& asked = one.asked();
      auto& own = inputs.emplace_back();
      for (const auto& t : asked.inputs)
        own.push_back({t.name.c_str(), t.datatype.c_str(), t.shape.data(), t.shape.size(),
                       t.data.data(), t.data.size()});
      requests.push_back({reinterpret_cast<baton_work*>(&one), asked.body.data(), asked.body.size(),
                          asked.content_type.c_str(), own.data(), own.size()});
    }
    handle_(self_, requests.data(), requests.size(), &calls);
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
