#include "tests/bench/programs/doors_grpc_client.hpp"

#include "schema/ensure.hpp"

#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace baton::bench {
namespace {

constexpr const char* method = "/inference.GRPCInferenceService/ModelStreamInfer";

// The few bytes of protobuf that a request needs, written by hand: the gateway's library has the
// generated messages, and a process can register them once.
void add_field(std::string& to, int number, std::string_view bytes) {
  ENSURE(bytes.size() < 128, "a length of one byte");
  to += static_cast<char>(number << 3 | 2);
  to += static_cast<char>(bytes.size());
  to += bytes;
}

template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string request_of(std::uint32_t tokens) {
  constexpr std::string_view prompt = "x";
  const struct {
    const char *name, *datatype;
    std::string bytes;
  } inputs[] = {
      {"text_input", "BYTES",
       little_endian(static_cast<std::uint32_t>(prompt.size())) + std::string(prompt)},
      {"stream", "BOOL", std::string(1, '\1')},
      {"max_tokens", "INT32", little_endian(tokens)},
  };
  std::string request;
  add_field(request, 1, "bench");
  for (const auto& input : inputs) {
    std::string tensor;
    add_field(tensor, 1, input.name);
    add_field(tensor, 2, input.datatype);
    add_field(tensor, 3, "\1"); // the shape [1]
    add_field(request, 5, tensor);
  }
  for (const auto& input : inputs) {
    add_field(request, 7, input.bytes);
  }
  return request;
}

// Counts the pieces in a response, which holds everything since the previous one.
std::uint64_t pieces_of(const grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  ENSURE(response.Dump(&slices).ok(), "a response that is none");
  std::string bytes;
  for (const auto& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  std::uint64_t count = 0;
  for (auto at = bytes.find(piece_text); at != std::string::npos;
       at = bytes.find(piece_text, at + piece_text.size())) {
    ++count;
  }
  return count;
}

// One stream: sends its request, half-closes, reads to the end, and receives the status.
class grpc_reader {
public:
  grpc_reader(grpc::CompletionQueue& queue, const grpc_load& load) {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1); // otherwise all share a connection
    stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
        fmt::format("127.0.0.1:{}", load.port), grpc::InsecureChannelCredentials(), own));
    call_ = stub_->PrepareCall(&context_, method, &queue);
    const grpc::Slice slice(request_of(load.tokens));
    request_ = grpc::ByteBuffer(&slice, 1);
    call_->StartCall(this);
  }

  // Handles a completed operation (`ok`: its result). Returns how many pieces have arrived.
  std::uint64_t go_on(bool ok) {
    switch (phase_) {
    case phase::starting:
      ENSURE(ok, "no connection");
      phase_ = phase::asking;
      call_->WriteLast(request_, grpc::WriteOptions(), this);
      return 0;
    case phase::asking:
      ENSURE(ok, "the request was not taken");
      phase_ = phase::reading;
      call_->Read(&response_, this);
      return 0;
    case phase::reading:
      if (ok) {
        const auto pieces = pieces_of(response_);
        pieces_ += pieces;
        call_->Read(&response_, this);
        return pieces;
      }
      phase_ = phase::ending;
      call_->Finish(&status_, this);
      return 0;
    case phase::ending:
      ENSURE(status_.ok(), "a stream ended with {}: {}", static_cast<int>(status_.error_code()),
             status_.error_message());
      phase_ = phase::ended;
      return 0;
    case phase::ended:
      break;
    }
    return 0;
  }
  bool has_ended() const noexcept { return phase_ == phase::ended; }
  std::uint64_t pieces() const noexcept { return pieces_; }

private:
  enum class phase { starting, asking, reading, ending, ended };

  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer request_, response_;
  grpc::Status status_;
  std::uint64_t pieces_ = 0;
  phase phase_ = phase::starting;
};

} // namespace

void read_grpc_streams(const grpc_load& load, std::atomic<std::uint64_t>& read,
                       std::atomic<std::uint64_t>& ended) {
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<grpc_reader>> all;
  for (std::size_t i = 0; i < load.streams; ++i) {
    all.push_back(std::make_unique<grpc_reader>(queue, load));
  }
  for (std::size_t left = load.streams; left > 0;) {
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + load.silence_max;
    ENSURE(queue.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT,
           "nothing came for {} s", load.silence_max.count());
    auto& one = *static_cast<grpc_reader*>(tag);
    read += one.go_on(ok);
    if (one.has_ended()) {
      ENSURE(one.pieces() == load.tokens, "{} pieces of {} tokens", one.pieces(), load.tokens);
      --left;
      ++ended;
    }
  }
  queue.Shutdown();
}

} // namespace baton::bench
