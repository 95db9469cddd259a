// Embeddings to OpenAI's JSON: {"object": "list", "data": [{"object": "embedding", "index",
// "embedding"}], "model", "usage"}. Pure.
#pragma once

#include "gateway/api/openai/embedding_request.hpp"
#include "gateway/request/response_writer.hpp"

#include <string>
#include <vector>

namespace baton::gateway {

// A list of numbers: the shortest digits that parse to the same float32. "-0" would parse as an
// integer and lose its sign. Requires: at least one value, all finite.
void append_numbers(std::string& out, const std::vector<float>& values);

class embedding_reply final : public unary_writer {
public:
  // `inputs`: of the call; a chunk's choice is the index of its input.
  embedding_reply(std::string model, embedding_format format, std::size_t inputs)
      : model_(std::move(model)), format_(format), all_(inputs), left_(inputs) {}
  void add(chunk c) override;
  bool is_complete() const noexcept override { return left_ == 0; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;
  std::string body() const;

private:
  std::string model_;
  embedding_format format_;
  std::vector<std::vector<float>> all_;
  std::size_t left_;
  std::uint64_t prompt_tokens_ = 0;
};

} // namespace baton::gateway
