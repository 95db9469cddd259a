// Converts the request bodies of text-generation-inference (its v3, router/src/lib.rs) to typed
// requests. Pure. Unsupported fields are refused by name; docs/apis/tgi.md lists them.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/config/config.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace baton::gateway {

// `root` is POST /: a stream if the body requests it, else a list with one answer. That answer
// includes the prompt by default.
enum class tgi_route : std::uint8_t { root, generate, generate_stream };

// The format of the answer.
struct tgi_shape {
  bool is_stream = false;
  bool is_list = false;
  bool has_details = false;
  bool has_stops = false;
  std::string lead;                  // prefix of the generated text: the prompt or nothing
  std::size_t prompt_characters = 0; // Unicode characters
  std::optional<std::uint64_t> seed; // set if sampled; of the first of several answers
  std::uint32_t best_of = 1;         // answers drawn; the likeliest is returned
  std::uint32_t top_n_tokens = 0;
};

struct tgi_generate {
  generate request;
  tgi_shape shape;
};

// TGI's names of the request's fields.
field_names tgi_field_names();

// A missing seed is random. Errors: invalid_request, invalid_value, unsupported_parameter, with
// param ("parameters.top_p").
result<tgi_generate> parse_tgi(tgi_route route, std::string_view body,
                               const gateway_config& config);

// Names of the body's fields and of its "parameters".
struct tgi_fields {
  std::set<std::string, std::less<>> body, parameters;
};
tgi_fields tgi_fields_of(const gateway_config& config);

// TGI's /tokenize: {"inputs", "model"}. Nothing if the body has no `inputs`: it is vLLM's then.
std::optional<result<tokenize_call>> parse_tgi_tokenize(std::string_view body,
                                                        const request_limits& limits);

} // namespace baton::gateway
