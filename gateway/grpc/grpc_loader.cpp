#include "gateway/grpc/grpc_loader.hpp"

#include "runtime/plugin/folders.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace baton::gateway {
namespace {

constexpr const char* file_name = "door_grpc.so";

result<std::filesystem::path> find_library() {
  std::string tried;
  for (const auto& folder : plugin::library_folders("BATON_DOORS", "doors")) {
    std::error_code ignored;
    auto file = folder / file_name;
    if (std::filesystem::exists(file, ignored)) {
      return file;
    }
    tried += (tried.empty() ? "" : " and ") + folder.string();
  }
  return fail(errc::not_found, "{}, the library for gRPC, is not in {}", file_name, tried);
}

} // namespace

result<void> find_grpc() {
  const auto file = find_library();
  return file ? result<void>() : file.error();
}

result<grpc_library*> load_grpc() {
  const auto file = find_library();
  if (!file) {
    return file.error();
  }
  // RTLD_LOCAL: its dependencies must not be visible to the rest of the process. RTLD_NOW: a
  // missing symbol shows here and not in a call.
  void* loaded = ::dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* why = ::dlerror();
    return fail(errc::start_failed, "{} cannot be loaded: {}", file->string(),
                why != nullptr ? why : "no reason given");
  }
  void* symbol = ::dlsym(loaded, grpc_entry_point);
  if (symbol == nullptr) {
    return fail(errc::start_failed, "{} is not a library for gRPC: it has no symbol {}",
                file->string(), grpc_entry_point);
  }
  auto* library = reinterpret_cast<grpc_entry*>(symbol)(grpc_wire_version);
  if (library == nullptr) {
    return fail(errc::version_mismatch, "{} is of another build than this program", file->string());
  }
  return library;
}

} // namespace baton::gateway
