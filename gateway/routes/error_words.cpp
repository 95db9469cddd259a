#include "gateway/routes/error_words.hpp"

#include "gateway/api/kserve/kserve_error.hpp"
#include "gateway/api/tgi/tgi_error.hpp"
#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/state/refusal.hpp"

namespace baton::gateway {

const error_words& errors_of(api_family api) noexcept {
  static constexpr error_words openai{refusal_reply, [](const error& e) { return error_reply(e); }};
  static constexpr error_words tgi{tgi_refusal, [](const error& e) { return tgi_failure(e); }};
  static constexpr error_words torchserve{torchserve_refusal,
                                          [](const error& e) { return torchserve_failure(e); }};
  static constexpr error_words kserve{kserve_refusal,
                                      [](const error& e) { return kserve_failure(e); }};
  switch (api) {
  case api_family::tgi:
    return tgi;
  case api_family::torchserve:
    return torchserve;
  case api_family::kserve:
    return kserve;
  case api_family::openai:
    break;
  }
  return openai;
}

} // namespace baton::gateway
