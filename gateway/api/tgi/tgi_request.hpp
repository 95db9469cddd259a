// The request bodies of text-generation-inference (its v3, router/src/lib.rs) to typed requests.
// Pure: bytes in, values out. What is not supported is refused by name; docs/compatibility.md has
// the list.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
#include "gateway/config/config.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace baton::gateway {

// `root` is POST /: a stream if the body says so, and else a list of one answer, in which the
// prompt is unless the body says otherwise.
enum class tgi_route : std::uint8_t { root, generate, generate_stream };

// How the answer is to look.
struct tgi_shape {
  bool is_stream = false;
  bool is_list = false;
  bool has_details = false;
  bool has_stops = false;
  std::string lead;                  // stands before the generated text: the prompt, or nothing
  std::size_t prompt_characters = 0; // Unicode's
  std::optional<std::uint64_t> seed; // of one that is sampled; of the first of several answers
  std::uint32_t best_of = 1;         // answers that are drawn; the likeliest is given
  std::uint32_t top_n_tokens = 0;
};

struct tgi_generate {
  generate request;
  tgi_shape shape;
};

// What TGI calls the fields of a request.
field_words tgi_words();

// A missing seed is drawn at random. Errors: invalid_request, invalid_value, unsupported_parameter,
// with param ("parameters.top_p").
result<tgi_generate> parse_tgi(tgi_route route, std::string_view body,
                               const gateway_config& config);

// The names that a body may have, and those of its "parameters".
struct tgi_fields {
  std::set<std::string, std::less<>> body, parameters;
};
tgi_fields tgi_fields_of(const gateway_config& config);

// TGI's /tokenize: {"inputs", "model"}. Nothing if the body has no `inputs`: then it is vLLM's.
std::optional<result<tokenize_call>> parse_tgi_tokenize(std::string_view body,
                                                        const request_limits& limits);

} // namespace baton::gateway
