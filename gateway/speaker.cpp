#include "gateway/speaker.hpp"

#include "gateway/refusal.hpp"
#include "gateway/tgi_error.hpp"

namespace baton::gateway {

const error_words& errors_of(api_family api) noexcept {
  static constexpr error_words openai{refusal_reply, [](const error& e) { return error_reply(e); }};
  static constexpr error_words tgi{tgi_refusal, [](const error& e) { return tgi_failure(e); }};
  return api == api_family::tgi ? tgi : openai;
}

} // namespace baton::gateway
