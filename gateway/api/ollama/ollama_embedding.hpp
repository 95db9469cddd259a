// Embeddings in Ollama's JSON: {"model", "embeddings": [[...]], "total_duration", "load_duration",
// "prompt_eval_count"}, or the older {"embedding": [...]}. Pure.
#pragma once

#include "gateway/api/ollama/ollama_request.hpp"
#include "gateway/api/openai/reply/embedding_reply.hpp"
#include "gateway/request/response_writer.hpp"

#include <string>
#include <vector>

namespace baton::gateway {

class ollama_embedding final : public unary_writer {
public:
  explicit ollama_embedding(const ollama_embed& asked)
      : model_(asked.model), is_older_(asked.is_older), inputs_(asked.requests.size()) {}
  void add(chunk c) override;
  bool is_complete() const noexcept override { return inputs_.is_complete(); }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  std::string model_;
  bool is_older_;
  input_embeddings inputs_;
  std::uint64_t wait_micros_ = 0; // before the first step, of the slowest input
};

// The answer to a call without inputs.
http_reply ollama_no_embeddings(const std::string& model);

} // namespace baton::gateway
