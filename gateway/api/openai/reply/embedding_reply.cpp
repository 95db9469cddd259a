#include "gateway/api/openai/reply/embedding_reply.hpp"

#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/base/json_text.hpp"
#include "runtime/text/unicode/base64.hpp"
#include "schema/ensure.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <iterator>

namespace baton::gateway {
namespace {

void append_base64(std::string& out, const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little, "values are encoded in memory order");
  out += '"';
  out += text::base64_of(
      {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  out += '"';
}

} // namespace

void append_numbers(std::string& out, const std::vector<float>& values) {
  const char* before = "[";
  for (const float v : values) {
    out += before;
    if (v == 0) {
      out += std::signbit(v) ? "-0.0" : "0.0";
    } else {
      fmt::format_to(std::back_inserter(out), "{}", v);
    }
    before = ",";
  }
  out += ']';
}

void input_embeddings::add(chunk&& c) {
  ENSURE(c.choice < all_.size(), "an embedding of input {} of {}", c.choice, all_.size());
  if (c.finish == finish::none) {
    return;
  }
  ENSURE(left_ > 0 && all_[c.choice].empty(), "input {} has two embeddings", c.choice);
  all_[c.choice] = std::move(c.embedding);
  prompt_tokens_ += c.prompt_tokens;
  --left_;
}

std::string embedding_reply::body() const {
  std::string out = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < inputs_.all().size(); ++i) {
    out += i == 0 ? "" : ",";
    out += fmt::format(R"({{"object":"embedding","index":{},"embedding":)", i);
    if (format_ == embedding_format::base64) {
      append_base64(out, inputs_.all()[i]);
    } else {
      append_numbers(out, inputs_.all()[i]);
    }
    out += '}';
  }
  out += R"(],"model":)";
  append_json_string(out, model_);
  return out + fmt::format(R"(,"usage":{{"prompt_tokens":{0},"total_tokens":{0}}}}})",
                           inputs_.prompt_tokens());
}

http_reply embedding_reply::reply(const reply_identity& /*who*/,
                                  const reply_times& /*when*/) const {
  http_reply r;
  r.body = body();
  return r;
}

} // namespace baton::gateway
