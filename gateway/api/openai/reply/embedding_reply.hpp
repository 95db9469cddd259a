// Embeddings to OpenAI's JSON: {"object": "list", "data": [{"object": "embedding", "index",
// "embedding"}], "model", "usage"}. Pure.
#pragma once

#include "gateway/api/openai/request/embedding_request.hpp"
#include "gateway/request/response_writer.hpp"

#include <string>
#include <vector>

namespace baton::gateway {

// A list of numbers: the shortest digits that parse to the same float32. "-0" would parse as an
// integer and lose its sign. Requires: at least one value, all finite.
void append_numbers(std::string& out, const std::vector<float>& values);

// Collects the embeddings of a call's inputs: a chunk's choice is the index of its input.
class input_embeddings {
public:
  explicit input_embeddings(std::size_t inputs) : all_(inputs), left_(inputs) {}
  // Requires: an input of the call; its embedding comes once.
  void add(chunk&& c);
  bool is_complete() const noexcept { return left_ == 0; }
  const std::vector<std::vector<float>>& all() const noexcept { return all_; } // [input]
  std::uint64_t prompt_tokens() const noexcept { return prompt_tokens_; }

private:
  std::vector<std::vector<float>> all_;
  std::size_t left_;
  std::uint64_t prompt_tokens_ = 0;
};

class embedding_reply final : public unary_writer {
public:
  embedding_reply(std::string model, embedding_format format, std::size_t inputs)
      : model_(std::move(model)), format_(format), inputs_(inputs) {}
  void add(chunk c) override { inputs_.add(std::move(c)); }
  bool is_complete() const noexcept override { return inputs_.is_complete(); }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;
  std::string body() const;

private:
  std::string model_;
  embedding_format format_;
  input_embeddings inputs_;
};

} // namespace baton::gateway
