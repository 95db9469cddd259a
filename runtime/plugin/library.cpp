#include "runtime/plugin/library.hpp"

#include "runtime/plugin/folders.hpp"

#include <dlfcn.h>

#include <cstring>

namespace baton::plugin {
namespace {

errc code_of(status s) {
  switch (s) {
  case status::invalid_value:
    return errc::invalid_value;
  case status::unsupported_model:
    return errc::unsupported_model;
  case status::does_not_fit:
    return errc::does_not_fit;
  case status::io_failed:
    return errc::io_failed;
  case status::no_device:
    return errc::start_failed;
  case status::group_failed:
    return errc::link_down;
  case status::ok:
  case status::device_lost: // plugin_engine reports it
  case status::internal:
    break;
  }
  return errc::internal; // also for unknown numbers
}

// The function table of a loaded library.
result<const table*> table_in(void* loaded, const std::filesystem::path& file) {
  void* symbol = ::dlsym(loaded, entry_point);
  if (symbol == nullptr)
    return fail(errc::start_failed, "{} is no engine: it has no symbol {}", file.string(),
                entry_point);
  const table* calls = reinterpret_cast<entry*>(symbol)();
  if (calls == nullptr)
    return fail(errc::start_failed, "{} returns no engine", file.string());
  if (calls->abi != abi_version)
    return fail(errc::version_mismatch,
                "{} was built for version {} of the engine interface, this program has {}: build "
                "both from one tree",
                file.string(), calls->abi, abi_version);
  if (calls->check == nullptr || calls->create == nullptr || calls->run == nullptr ||
      calls->destroy == nullptr || calls->name == nullptr)
    return fail(errc::start_failed, "{} lacks a function of the engine interface", file.string());
  return calls;
}

} // namespace

std::string file_name_of(std::string_view engine) {
  return fmt::format("engine_{}.so", engine);
}

result<std::filesystem::path> find_library(std::string_view engine) {
  std::string tried;
  for (const auto& folder : library_folders("BATON_ENGINES", "engines")) {
    std::error_code ignored;
    auto file = folder / file_name_of(engine);
    if (std::filesystem::exists(file, ignored))
      return file;
    tried += (tried.empty() ? "" : " and ") + folder.string();
  }
  return fail(errc::not_found, "{} is not in {}", file_name_of(engine), tried);
}

result<library> library::open(const std::filesystem::path& file) {
  // RTLD_LOCAL hides the library's dependencies from other libraries. RTLD_NOW reports missing
  // symbols here and not during a step.
  void* loaded = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* why = ::dlerror();
    return fail(errc::start_failed, "{} cannot be loaded: {}", file.string(),
                why != nullptr ? why : "no reason given");
  }
  const auto calls = table_in(loaded, file);
  if (!calls)
    return calls.error();
  return library(file, *calls);
}

result<void> outcome_of(status s, const failure& why, std::string_view engine) {
  if (s == status::ok)
    return {};
  const std::string_view text(why.message, ::strnlen(why.message, message_bytes_max));
  return fail(code_of(s), "engine {}: {}", engine, text.empty() ? "gives no reason" : text);
}

result<std::string> examine(const std::filesystem::path& file, const std::string& device,
                            std::uint32_t width, std::uint32_t ranks_on_device) {
  const auto opened = library::open(file);
  if (!opened)
    return opened.error();
  settings with;
  with.device = device.c_str();
  with.width = width;
  with.ranks_on_device = ranks_on_device;
  facts found;
  failure why;
  if (auto ok = outcome_of(opened->calls().check(&with, &found, &why), why, opened->calls().name);
      !ok)
    return ok.error();
  std::string description(found.device, ::strnlen(found.device, sizeof found.device));
  if (const auto size = ::strnlen(found.collective_library, sizeof found.collective_library);
      size > 0)
    description += "; ranks connected by " + std::string(found.collective_library, size);
  return description;
}

} // namespace baton::plugin
