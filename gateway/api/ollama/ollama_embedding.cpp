#include "gateway/api/ollama/ollama_embedding.hpp"

#include "gateway/api/openai/embedding_reply.hpp"
#include "gateway/base/json_text.hpp"
#include "schema/ensure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace baton::gateway {

void ollama_embedding::add(chunk c) {
  ENSURE(c.choice < all_.size(), "an embedding of input {} of {}", c.choice, all_.size());
  if (c.finish == finish::none) {
    return;
  }
  ENSURE(left_ > 0 && all_[c.choice].empty(), "input {} has two embeddings", c.choice);
  all_[c.choice] = std::move(c.embedding);
  prompt_tokens_ += c.prompt_tokens;
  wait_micros_ = std::max(wait_micros_, c.prepare_micros + c.queue_micros);
  --left_;
}

http_reply ollama_embedding::reply(const reply_identity& /*who*/, const reply_times& when) const {
  std::string out;
  if (is_older_) {
    out = R"({"embedding":)";
    append_numbers(out, all_.front());
    return json_reply(out + "}");
  }
  out = R"({"model":)";
  append_json_string(out, model_);
  out += R"(,"embeddings":[)";
  for (std::size_t i = 0; i < all_.size(); ++i) {
    out += i == 0 ? "" : ",";
    append_numbers(out, all_[i]);
  }
  const auto nanoseconds = [](auto d) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
  };
  const auto waited = std::min<reply_times::clock::duration>(
      when.granted - when.read + std::chrono::microseconds(wait_micros_), when.ended - when.read);
  return json_reply(out + fmt::format(R"(],"total_duration":{},"load_duration":{},)"
                                      R"("prompt_eval_count":{}}})",
                                      nanoseconds(when.ended - when.read), nanoseconds(waited),
                                      prompt_tokens_));
}

http_reply ollama_no_embeddings(const std::string& model) {
  std::string out = R"({"model":)";
  append_json_string(out, model);
  return json_reply(out + R"(,"embeddings":[]})");
}

} // namespace baton::gateway
