// A worker model that calls another model from its handler. Its input becomes the prompt of a
// language model; each piece of the answer is passed on at once. In nodes.toml:
//   [[workers]]
//   name = "relay"
//   command = ["build/dev/sdk/cpp/baton_relay_worker", "smollm2"]
// and then: curl -N --data "Once upon a time" http://127.0.0.1:8000/v1/workers/relay
#include "sdk/cpp/baton/worker.hpp"

#include <cstdio>
#include <optional>

namespace {

using namespace std::chrono_literals;

constexpr auto silence_max = 60s; // limit for the next piece
constexpr std::uint32_t max_tokens = 32;

class relay : public baton::worker_handler {
public:
  explicit relay(std::string model) : model_(std::move(model)) {}

  // The gateway may not be reachable yet, so the first request connects.
  baton::result<void> initialize(const baton::worker_place& place) override {
    place_ = place;
    return {};
  }

  void handle(std::span<baton::work> batch) override {
    for (auto& one : batch)
      if (auto ok = answer(one); !ok)
        one.fail(ok.error());
  }

private:
  // Returning early destroys `generated`, which cancels the request.
  baton::result<void> answer(baton::work& one) {
    if (!others_) {
      auto made = place_.connect();
      if (!made)
        return made.error();
      others_.emplace(std::move(*made));
    }
    baton::generate question;
    question.model = model_;
    question.input = one.asked().body;
    question.terms.sampling.temperature = 0;
    question.terms.stop.max_tokens = max_tokens;
    question.terms.max_tokens_given = true;
    auto generated = others_->generate(std::move(question));
    if (!generated)
      return generated.error();
    while (!one.is_cancelled()) {
      auto next = generated->next(silence_max);
      if (!next)
        return next.error();
      if (!*next)
        break;
      if ((*next)->failure)
        return *(*next)->failure;
      baton::inferred piece;
      piece.body = std::move((*next)->text);
      piece.content_type = "text/plain; charset=utf-8";
      one.piece(std::move(piece));
    }
    one.finish();
    return {};
  }

  std::string model_;
  baton::worker_place place_;
  std::optional<baton::client> others_;
};

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "baton_worker error usage: %s MODEL\n", argv[0]);
    return 78;
  }
  relay handler(argv[1]);
  return baton::serve_worker(handler);
}
