// The interface between the gateway and its gRPC library (gateway/grpc). The gateway handles what
// calls mean, the library their bytes and protobuf. The library has 50 dependencies, so a process
// loads it only if gRPC is configured. Plain data and two interfaces; both sides are built from one
// tree.
//
// The library's threads report a call's events; one thread of the gateway answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace baton::gateway {

using grpc_metadata = std::vector<std::pair<std::string, std::string>>;

// The final status of a call; codes are gRPC's (grpc_status.hpp).
struct grpc_status {
  int code = 0;
  std::string message;
  grpc_metadata trailers;
};

struct grpc_head {
  std::size_t listener = 0; // index of the address it arrived at
  std::string method;       // "/package.Service/Method"
  grpc_metadata metadata;
  std::string peer{};                     // "127.0.0.1:5001"
  std::chrono::milliseconds time_left{0}; // until the client's deadline; 0: none
};

// The library's side of one call; only the gateway's thread uses it.
class grpc_call_handle {
public:
  // Sends the initial metadata: once, before all other output.
  virtual void greet(const grpc_metadata& initial) = 0;
  // Requests the client's next message; grpc_read follows. One at a time.
  virtual void read() = 0;
  // grpc_written follows. One at a time.
  virtual void write(std::string bytes) = 0;
  // Call it once, while no write is under way; the stream must not be used afterwards.
  virtual void finish(const grpc_status& with) = 0;
  // Aborts a call whose client does not read: operations under way fail.
  virtual void cancel() = 0;

protected:
  ~grpc_call_handle() = default; // the library owns it
};

struct grpc_began {
  grpc_head head;
  grpc_call_handle* handle = nullptr; // valid until grpc_ended
};
struct grpc_read {
  std::optional<std::string> message; // none: the client has finished sending, or is gone
};
struct grpc_unread {}; // in place of grpc_read: out of memory for the message
struct grpc_written {};
struct grpc_cancelled {}; // by the client, its deadline or a lost connection; finish must follow
struct grpc_ended {};     // the last event of each call, after finish
using grpc_event =
    std::variant<grpc_began, grpc_read, grpc_unread, grpc_written, grpc_cancelled, grpc_ended>;

class grpc_listener {
public:
  // Called from any thread; returns at once. `call` is unique. It does not throw: a lost event
  // would leave its call open without end.
  virtual void happened(std::uint64_t call, grpc_event what) noexcept = 0;

protected:
  ~grpc_listener() = default;
};

// -- Messages without protobuf --

using grpc_value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;
using grpc_parameters = std::vector<std::pair<std::string, std::optional<grpc_value>>>;

struct grpc_tensor {
  std::string name, datatype;
  std::vector<std::int64_t> shape;
  grpc_parameters parameters;
  std::optional<std::string> bytes; // in the layout of the protocol's binary data
  std::string contents;             // the field with the values, "int_contents"; empty: raw
};

struct grpc_infer { // ModelInferRequest
  std::string model, version, id;
  grpc_parameters parameters;
  std::vector<grpc_tensor> inputs;
  std::vector<std::pair<std::string, grpc_parameters>> outputs;
  std::size_t raw_spare = 0; // raw_input_contents without an input
};

struct grpc_inferred { // ModelInferResponse
  std::string model, version, id;
  std::optional<bool> is_final; // triton_final_response
  std::vector<grpc_tensor> outputs;
  grpc_parameters parameters = {}; // additional ones
};

struct grpc_prediction { // PredictionsRequest
  std::string model, version;
  std::vector<std::pair<std::string, std::string>> input;
};

// Converts protobuf to values and back. Any thread. False: the bytes are not such a message.
class grpc_codec {
public:
  virtual bool read(std::string_view bytes, grpc_infer& out) const = 0;
  virtual bool read(std::string_view bytes, grpc_prediction& out) const = 0;
  virtual std::string infer_response(const grpc_inferred& reply) const = 0;
  virtual std::string stream_response(const grpc_inferred& reply,
                                      const std::string& error_message) const = 0;
  virtual std::string prediction(std::string_view content) const = 0;
  // Small messages are JSON on this side; the type is the full name; all fields are included.
  virtual bool json_of(std::string_view type, std::string_view bytes, std::string& out) const = 0;
  // Requires: the JSON is valid for the type.
  virtual std::string message_of(std::string_view type, std::string_view json) const = 0;

protected:
  ~grpc_codec() = default;
};

// -- The library --

struct grpc_settings {
  std::vector<std::string> addresses;                          // IP:PORT; port 0 takes a free one
  bool shares_ports = false;                                   // with other gateways (SO_REUSEPORT)
  std::string certificate, key;                                // PEM; empty: no TLS
  std::size_t message_bytes_max = 0;                           // of an incoming message
  std::size_t metadata_bytes_max = 0;                          // of a call
  std::size_t memory_bytes_max = 0;                            // of all connections together
  int calls_per_connection_max = 0;                            // further calls wait at the client
  std::chrono::milliseconds ping_interval{0}, ping_timeout{0}; // detect a dead peer
  std::chrono::milliseconds idle_timeout{0};                   // of a connection without calls
};

// Listens as soon as it is created.
class grpc_server {
public:
  virtual ~grpc_server() = default;
  virtual int port(std::size_t listener) const = 0;
  // Refuses new calls and cancels open ones. Returns when all have ended: `to` must finish them
  // meanwhile.
  virtual void stop() = 0;
};

class grpc_library {
public:
  virtual const grpc_codec& codec() const = 0;
  // Null: failed, with the reason; `taken` is the index of an address in use.
  virtual std::unique_ptr<grpc_server> listen(const grpc_settings& with, grpc_listener& to,
                                              std::optional<std::size_t>& taken,
                                              std::string& why) = 0;

protected:
  ~grpc_library() = default;
};

// The library's entry point returns a grpc_library of exactly this version, or null.
inline constexpr std::uint32_t grpc_wire_version = 4;
inline constexpr const char* grpc_entry_point = "baton_grpc_library";
using grpc_entry = grpc_library*(std::uint32_t version);

} // namespace baton::gateway
