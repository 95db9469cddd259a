// A worker model that echoes its input, one word at a time. Built with the tree, or alone:
// docs/apis/workers/libraries-and-other-languages.md, "C++, and libraries". In nodes.toml:
//   [[workers]]
//   name = "echo"
//   command = ["build/dev/sdk/cpp/baton_echo_worker"]
// and then: curl -N --data "hello there" http://127.0.0.1:8000/v1/workers/echo
#include "sdk/cpp/baton/worker.hpp"

#include <string_view>

namespace {

class echo : public baton::worker_handler {
public:
  void handle(std::span<baton::work> batch) override {
    for (auto& one : batch) {
      std::string_view rest = one.asked().body;
      while (!rest.empty() && !one.is_cancelled()) {
        const auto end = std::min(rest.find(' '), rest.size() - 1) + 1;
        baton::inferred word;
        word.body = rest.substr(0, end);
        word.content_type = "text/plain; charset=utf-8";
        one.piece(std::move(word));
        rest.remove_prefix(end);
      }
      one.finish();
    }
  }
};

} // namespace

int main() {
  echo handler;
  return baton::serve_worker(handler);
}
