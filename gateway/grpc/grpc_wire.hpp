// The wall between the gateway and its library for gRPC (gateway/grpc): on this side what calls
// mean, on the other their bytes on the wire and in protobuf. The library is loaded only where a
// gRPC door is configured: it brings 50 others along, which no other process should start with.
// Plain data and two interfaces; both sides are built from one tree.
//
// The library's threads tell what happens to a call; one thread of the gateway answers.
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

// How a call ends; codes are gRPC's (grpc_status.hpp).
struct grpc_status {
  int code = 0;
  std::string message;
  grpc_metadata trailers;
};

struct grpc_head {
  std::size_t listener = 0; // which of the addresses it came to
  std::string method;       // "/package.Service/Method"
  grpc_metadata metadata;
  std::string peer{};                     // "127.0.0.1:5001"
  std::chrono::milliseconds time_left{0}; // as the client's deadline says; 0: there is none
};

// One call as the library has it; the gateway's thread alone uses it.
class grpc_line {
public:
  // Initial metadata: once, before all that goes out.
  virtual void greet(const grpc_metadata& initial) = 0;
  // Asks for the client's next message; grpc_read answers. One at a time.
  virtual void read() = 0;
  // grpc_written answers. One at a time.
  virtual void write(std::string bytes) = 0;
  // Once, while nothing is written; nothing may be asked of the line afterwards.
  virtual void finish(const grpc_status& with) = 0;
  // Gives up on a client that does not read: what is under way fails.
  virtual void cancel() = 0;

protected:
  ~grpc_line() = default; // the library's own
};

struct grpc_began {
  grpc_head head;
  grpc_line* line = nullptr; // until grpc_ended
};
struct grpc_read {
  std::optional<std::string> message; // none: the client has said all, or is gone
};
struct grpc_unread {}; // in place of grpc_read: memory did not suffice for the message
struct grpc_written {};
struct grpc_cancelled {}; // by the client, its deadline or the connection's end; finish is due
struct grpc_ended {};     // the last of each call, behind finish
using grpc_event =
    std::variant<grpc_began, grpc_read, grpc_unread, grpc_written, grpc_cancelled, grpc_ended>;

class grpc_listener {
public:
  // From any thread; returns at once. `call`: a number that no other call has. Throws nothing: an
  // event that is lost would leave its call open for ever.
  virtual void happened(std::uint64_t call, grpc_event what) noexcept = 0;

protected:
  ~grpc_listener() = default;
};

// -- What is said, without protobuf --

using grpc_value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;
using grpc_parameters = std::vector<std::pair<std::string, std::optional<grpc_value>>>;

struct grpc_tensor {
  std::string name, datatype;
  std::vector<std::int64_t> shape;
  grpc_parameters parameters;
  std::optional<std::string> bytes; // as the protocol's binary data has them
  std::string contents;             // the field that they came in, "int_contents"; empty: raw
};

struct grpc_infer { // ModelInferRequest
  std::string model, version, id;
  grpc_parameters parameters;
  std::vector<grpc_tensor> inputs;
  std::vector<std::pair<std::string, grpc_parameters>> outputs;
  std::size_t raw_spare = 0; // raw_input_contents that are of no input
};

struct grpc_inferred { // ModelInferResponse
  std::string model, version, id;
  std::optional<bool> is_final; // triton_final_response
  std::vector<grpc_tensor> outputs;
  grpc_parameters parameters = {}; // further ones
};

struct grpc_prediction { // PredictionsRequest
  std::string model, version;
  std::vector<std::pair<std::string, std::string>> input;
};

// Protobuf to values and back. Any thread. False: the bytes are no such message.
class grpc_codec {
public:
  virtual bool read(std::string_view bytes, grpc_infer& out) const = 0;
  virtual bool read(std::string_view bytes, grpc_prediction& out) const = 0;
  virtual std::string infer_response(const grpc_inferred& told) const = 0;
  virtual std::string stream_response(const grpc_inferred& told,
                                      const std::string& error_message) const = 0;
  virtual std::string prediction(std::string_view content) const = 0;
  // Small messages are JSON on this side, by their full names, with all their fields.
  virtual bool json_of(std::string_view type, std::string_view bytes, std::string& out) const = 0;
  // Requires: the JSON is one of the type.
  virtual std::string message_of(std::string_view type, std::string_view json) const = 0;

protected:
  ~grpc_codec() = default;
};

// -- The library --

struct grpc_settings {
  std::vector<std::string> addresses; // IP:PORT; port 0 takes a free one
  bool shares_ports = false;          // other gateways listen there as well
  std::string certificate, key;       // PEM; empty: in clear
  std::size_t message_bytes_max = 0;  // of one that comes in
  std::size_t metadata_bytes_max = 0; // of a call
  std::size_t memory_bytes_max = 0;   // of all connections together
  int calls_per_connection_max = 0;   // further ones wait at the client
  std::chrono::milliseconds ping_interval{0}, ping_timeout{0}; // a peer that is gone is found
  std::chrono::milliseconds idle_timeout{0};                   // of a connection without calls
};

// Listens from its birth.
class grpc_server {
public:
  virtual ~grpc_server() = default;
  virtual int port(std::size_t listener) const = 0;
  // No new calls; open ones are cancelled. Returns when all have ended: `to` must go on finishing
  // them meanwhile.
  virtual void stop() = 0;
};

class grpc_library {
public:
  virtual const grpc_codec& codec() const = 0;
  // Null, with the reason; `taken`: which address cannot be had.
  virtual std::unique_ptr<grpc_server> listen(const grpc_settings& with, grpc_listener& to,
                                              std::optional<std::size_t>& taken,
                                              std::string& why) = 0;

protected:
  ~grpc_library() = default;
};

// What the library gives: a grpc_library of this very version, or null.
inline constexpr std::uint32_t grpc_wire_version = 4;
inline constexpr const char* grpc_entry_point = "baton_grpc_library";
using grpc_entry = grpc_library*(std::uint32_t version);

} // namespace baton::gateway
