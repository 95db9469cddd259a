// Heavy: grpc++. Calls of any method, as bytes. Each is a stream both ways; a call that the
// protocol declares unary has one message each way.
#include "gateway/grpc/grpc_wire.hpp"
#include "gateway/grpc/library/codec.hpp"

#include <grpc/support/log.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace baton::gateway {
namespace {

using clock = std::chrono::system_clock; // the clock of gRPC's deadlines

grpc::ByteBuffer buffer_of(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

std::string text_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string all;
  if (!buffer.Dump(&slices).ok()) {
    return all; // not a valid message, and rejected as such
  }
  all.reserve(buffer.Length());
  for (const auto& slice : slices) {
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return all;
}

// The address in "ipv4:127.0.0.1:5001" or "ipv6:%5B::1%5D:5001".
std::string address_of(std::string peer) {
  for (const auto& [from, to] :
       {std::pair("ipv4:", ""), {"ipv6:", ""}, {"%5B", "["}, {"%5D", "]"}}) {
    if (const auto at = peer.find(from); at != peer.npos) {
      peer.replace(at, std::strlen(from), to);
    }
  }
  return peer;
}

grpc_head head_of(const grpc::GenericCallbackServerContext& context, std::size_t listener) {
  grpc_head head;
  head.listener = listener;
  head.method = context.method();
  head.peer = address_of(context.peer());
  for (const auto& [name, value] : context.client_metadata()) {
    head.metadata.emplace_back(std::string(name.data(), name.size()),
                               std::string(value.data(), value.size()));
  }
  const auto deadline = context.deadline();
  if (deadline != clock::time_point::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
    head.time_left = std::max(left, std::chrono::milliseconds(1));
  }
  return head;
}

class call_reactor final : public grpc::ServerGenericBidiReactor, public grpc_call_handle {
public:
  call_reactor(grpc::GenericCallbackServerContext& context, std::uint64_t number,
               std::size_t listener, grpc_listener& to)
      : context_(context), number_(number), to_(to) {
    to_.happened(number_, grpc_began{head_of(context, listener), this});
  }

  void greet(const grpc_metadata& initial) override {
    for (const auto& [name, value] : initial) {
      context_.AddInitialMetadata(name, value);
    }
  }
  void read() override { StartRead(&incoming_); }
  void write(std::string bytes) override {
    outgoing_ = buffer_of(bytes);
    StartWrite(&outgoing_);
  }
  void finish(const grpc_status& with) override {
    for (const auto& [name, value] : with.trailers) {
      context_.AddTrailingMetadata(name, value);
    }
    Finish(grpc::Status(static_cast<grpc::StatusCode>(with.code), with.message));
  }
  void cancel() override { context_.TryCancel(); }

  // gRPC swallows exceptions of a reactor.
  void OnReadDone(bool ok) override {
    grpc_event what = grpc_read{};
    if (ok) {
      try {
        what = grpc_read{text_of(incoming_)};
      } catch (const std::exception&) {
        what = grpc_unread{};
      }
    }
    to_.happened(number_, std::move(what));
  }
  void OnWriteDone(bool /*ok*/) override { to_.happened(number_, grpc_written{}); }
  void OnCancel() override { to_.happened(number_, grpc_cancelled{}); }
  void OnDone() override {
    to_.happened(number_, grpc_ended{});
    delete this;
  }

private:
  ~call_reactor() override = default;

  grpc::GenericCallbackServerContext& context_;
  const std::uint64_t number_;
  grpc_listener& to_;
  grpc::ByteBuffer incoming_, outgoing_;
};

// Serves all methods at one address.
class service final : public grpc::CallbackGenericService {
public:
  service(std::size_t listener, std::atomic<std::uint64_t>& last, grpc_listener& to)
      : listener_(listener), last_(last), to_(to) {}
  grpc::ServerGenericBidiReactor*
  CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return new call_reactor(*context, ++last_, listener_, to_);
  }

private:
  const std::size_t listener_;
  std::atomic<std::uint64_t>& last_;
  grpc_listener& to_;
};

int ms(std::chrono::milliseconds time) {
  return static_cast<int>(time.count());
}

void bound(grpc::ServerBuilder& builder, const grpc_settings& with) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(with.message_bytes_max));
  // No compression: a small message could expand to a huge one.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(with.metadata_bytes_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, with.calls_per_connection_max);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, ms(with.ping_interval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms(with.ping_timeout));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, ms(with.idle_timeout));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, with.shares_ports ? 1 : 0);
}

std::shared_ptr<grpc::ServerCredentials> credentials_of(const grpc_settings& with) {
  if (with.certificate.empty()) {
    return grpc::InsecureServerCredentials();
  }
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({with.key, with.certificate});
  return grpc::SslServerCredentials(options);
}

// One server per address, so that a call's address is known.
class servers final : public grpc_server {
public:
  ~servers() override { stop(); }

  bool listen(const grpc_settings& with, grpc_listener& to, std::size_t& at) {
    grpc::ResourceQuota quota("baton");
    quota.Resize(with.memory_bytes_max);
    for (at = 0; at < with.addresses.size(); ++at) {
      services_.push_back(std::make_unique<service>(at, last_, to));
      grpc::ServerBuilder builder;
      int port = 0;
      builder.AddListeningPort(with.addresses[at], credentials_of(with), &port);
      builder.RegisterCallbackGenericService(services_.back().get());
      builder.SetResourceQuota(quota);
      bound(builder, with);
      auto server = builder.BuildAndStart();
      if (!server || port == 0) {
        return false;
      }
      all_.push_back(std::move(server));
      ports_.push_back(port);
    }
    return true;
  }

  int port(std::size_t listener) const override { return ports_.at(listener); }

  void stop() override {
    for (const auto& server : all_) {
      server->Shutdown(clock::now());
    }
    all_.clear();
  }

private:
  std::atomic<std::uint64_t> last_{0};
  std::vector<std::unique_ptr<service>> services_; // must outlive their servers
  std::vector<std::unique_ptr<grpc::Server>> all_;
  std::vector<int> ports_;
};

class library final : public grpc_library {
public:
  // Any client could fill the log, so gRPC logs only if GRPC_VERBOSITY is set.
  library() {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) {
      gpr_set_log_function([](gpr_log_func_args*) {});
    }
  }

  const grpc_codec& codec() const override { return protobuf_codec(); }

  std::unique_ptr<grpc_server> listen(const grpc_settings& with, grpc_listener& to,
                                      std::optional<std::size_t>& taken,
                                      std::string& why) override {
    try {
      auto all = std::make_unique<servers>();
      std::size_t at = 0;
      if (all->listen(with, to, at)) {
        return all;
      }
      taken = at;
      why = "it is in use, or not an address of this machine";
    } catch (const std::exception& e) {
      why = e.what();
    }
    return nullptr;
  }
};

} // namespace
} // namespace baton::gateway

extern "C" __attribute__((visibility("default"))) baton::gateway::grpc_library*
baton_grpc_library(std::uint32_t version) {
  static baton::gateway::library the_one;
  return version == baton::gateway::grpc_wire_version ? &the_one : nullptr;
}
