// Streams one answer from a running cluster: baton_stream tcp://127.0.0.1:8002 "Why is the sky
// blue?"
#include "sdk/cpp/baton/client.hpp"

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: %s ENDPOINT QUESTION [TOKENS_MAX]\n", argv[0]);
    return 2;
  }
  const auto fails = [](const baton::error& e) {
    std::fprintf(stderr, "%s: %s\n", std::string(baton::row_of(e.code).name).c_str(),
                 e.message.c_str());
    return 1;
  };

  auto client = baton::client::connect(argv[1]);
  if (!client)
    return fails(client.error());
  auto models = client->models();
  if (!models)
    return fails(models.error());
  if (models->empty())
    return fails({baton::errc::model_not_found, "the gateway serves no model", {}});

  baton::generate request;
  request.model = models->front().name;
  request.input = baton::chat_prompt{{.role = "user", .content = argv[2], .name = {}}};
  if (argc == 4) {
    request.terms.max_tokens_given = true;
    request.terms.stop.max_tokens = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
  }
  auto stream = client->generate(std::move(request));
  if (!stream)
    return fails(stream.error());
  for (;;) {
    auto chunk = stream->next(60s);
    if (!chunk)
      return fails(chunk.error());
    if (!*chunk)
      break;
    std::fwrite((*chunk)->text.data(), 1, (*chunk)->text.size(), stdout);
    std::fflush(stdout);
    if ((*chunk)->failure)
      return fails(*(*chunk)->failure);
  }
  std::puts("");
  return 0;
}
