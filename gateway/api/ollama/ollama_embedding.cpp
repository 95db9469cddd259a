#include "gateway/api/ollama/ollama_embedding.hpp"

#include "gateway/base/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace baton::gateway {

void ollama_embedding::add(chunk c) {
  if (c.finish != finish::none) {
    wait_micros_ = std::max(wait_micros_, c.prepare_micros + c.queue_micros);
  }
  inputs_.add(std::move(c));
}

http_reply ollama_embedding::reply(const reply_identity& /*who*/, const reply_times& when) const {
  std::string out;
  if (is_older_) {
    out = R"({"embedding":)";
    append_numbers(out, inputs_.all().front());
    return json_reply(out + "}");
  }
  out = R"({"model":)";
  append_json_string(out, model_);
  out += R"(,"embeddings":[)";
  for (std::size_t i = 0; i < inputs_.all().size(); ++i) {
    out += i == 0 ? "" : ",";
    append_numbers(out, inputs_.all()[i]);
  }
  const auto nanoseconds = [](auto d) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
  };
  const auto waited = std::min<reply_times::clock::duration>(
      when.granted - when.read + std::chrono::microseconds(wait_micros_), when.ended - when.read);
  return json_reply(out + fmt::format(R"(],"total_duration":{},"load_duration":{},)"
                                      R"("prompt_eval_count":{}}})",
                                      nanoseconds(when.ended - when.read), nanoseconds(waited),
                                      inputs_.prompt_tokens()));
}

http_reply ollama_no_embeddings(const std::string& model) {
  std::string out = R"({"model":)";
  append_json_string(out, model);
  return json_reply(out + R"(,"embeddings":[]})");
}

} // namespace baton::gateway
