// The library's entry point: runtime/plugin/abi.hpp's table over a stage. Catches every exception.
#include "runtime/gpu/device/packed_format.hpp"
#include "runtime/gpu/stage/stage.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace baton::gpu {
namespace {

using plugin::failure;
using plugin::status;

template <std::size_t N>
void put(char (&to)[N], std::string_view text) {
  const auto count = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), count);
  to[count] = 0;
}

// Runs f; converts exceptions to a status and a message.
template <class F>
status guarded(failure* why, const F& f) noexcept {
  try {
    f();
    return status::ok;
  } catch (const refused& e) {
    put(why->message, e.what());
    return e.why();
  } catch (const std::bad_alloc&) {
    put(why->message, "the machine has too little memory");
    return status::does_not_fit;
  } catch (const std::exception& e) {
    const auto means = meaning_of(e);
    put(why->message, means.text);
    return means.why;
  } catch (...) {
    put(why->message, "unknown exception");
    return status::internal;
  }
}

// Any failure on a lost device is reported as device_lost, because later steps would fail too.
status checked_for_loss(status ended, device* on, failure* why) noexcept {
  if (ended == status::ok || on == nullptr)
    return ended;
  std::string lost;
  failure ignored;
  if (guarded(&ignored, [&] { lost = on->why_lost(); }) != status::ok || lost.empty())
    return ended;
  guarded(&ignored,
          [&] { put(why->message, "the device is lost: " + lost + "; " + why->message); });
  return status::device_lost;
}

std::string_view name_of(element e) {
  return e == element::f32 ? "float32" : e == element::f16 ? "float16" : "bfloat16";
}

status check(const plugin::settings* with, plugin::facts* out, failure* why) {
  return guarded(why, [&] {
    const auto on = open_device(*with);
    if (with->width > 1)
      put(out->collective_library, on->check_ranks(with->ranks_on_device));
    std::string text = on->name() + ", ";
    text += name_of(with->weights);
    text += ", ";
    text += name_of(with->kv);
    text += " KV";
    if (with->quantized != plugin::quantization::none)
      text += std::string(", ") + quantization_name(with->quantized) + " weights";
    put(out->device, text);
    out->gives_states = true;
    out->begun_max = begun_max_of(*on, *with);
    // With quantised weights, few rows and many rows use different products.
    out->is_exact = on->is_exact() && with->quantized == plugin::quantization::none;
  });
}

status create(const plugin::decoder* what, const plugin::settings* with, const plugin::host* shard,
              plugin::engine_handle** out, failure* why) {
  std::shared_ptr<device> on;
  const auto ended = guarded(why, [&] {
    on = open_device(*with);
    *out = new stage(on, *what, *with, *shard);
  });
  return checked_for_loss(ended, on.get(), why);
}

status run(plugin::engine_handle* self, const plugin::batch* what, plugin::outcome* out,
           failure* why) {
  auto& own = *static_cast<stage*>(self);
  return checked_for_loss(guarded(why, [&] { *out = own.run(*what); }), &own.on(), why);
}

void destroy(plugin::engine_handle* self) {
  delete static_cast<stage*>(self);
}

void give_back(plugin::engine_handle* self, float* activations) {
  static_cast<stage*>(self)->give_back(activations);
}

bool begin(plugin::engine_handle* self, const plugin::batch* what) {
  return static_cast<stage*>(self)->begin(*what);
}

bool is_busy(plugin::engine_handle* self) {
  return static_cast<stage*>(self)->is_busy();
}

constexpr plugin::table calls{
    plugin::abi_version, BATON_ENGINE_NAME, check, create, run, destroy, give_back, begin, is_busy};

} // namespace
} // namespace baton::gpu

extern "C" __attribute__((visibility("default"))) const baton::plugin::table* baton_engine() {
  return &baton::gpu::calls;
}
