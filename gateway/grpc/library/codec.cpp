// Heavy: protobuf.
#include "gateway/grpc/library/codec.hpp"

#include "health.pb.h"
#include "kserve.pb.h"
#include "torchserve_inference.pb.h"
#include "torchserve_management.pb.h"
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/json_util.h>

#include <cstring>

namespace baton::gateway {
namespace {

namespace predict = org::pytorch::serve::grpc::inference;
using google::protobuf::Message;

bool parse(Message& message, std::string_view bytes) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

std::optional<grpc_value> value_of(const inference::InferParameter& p) {
  switch (p.parameter_choice_case()) {
  case inference::InferParameter::kBoolParam:
    return p.bool_param();
  case inference::InferParameter::kInt64Param:
    return p.int64_param();
  case inference::InferParameter::kUint64Param:
    return p.uint64_param();
  case inference::InferParameter::kDoubleParam:
    return p.double_param();
  case inference::InferParameter::kStringParam:
    return p.string_param();
  case inference::InferParameter::PARAMETER_CHOICE_NOT_SET:
    break;
  }
  return std::nullopt;
}

template <class Map>
grpc_parameters parameters_of(const Map& all) {
  grpc_parameters out;
  for (const auto& [name, value] : all) {
    out.emplace_back(name, value_of(value));
  }
  return out;
}

template <class Number>
void append(std::string& out, Number number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof number);
}

// The bytes of the one field that is set, and its name. If several are set: the bytes of the last,
// and all names joined by ",", which matches no field.
void take_contents(const inference::InferTensorContents& c, grpc_tensor& out) {
  const auto take = [&out](const char* name, const auto& values, auto write) {
    if (values.empty()) {
      return;
    }
    out.contents += out.contents.empty() ? name : std::string(",") + name;
    std::string bytes;
    for (const auto& value : values) {
      write(bytes, value);
    }
    out.bytes = std::move(bytes);
  };
  const auto number = [](std::string& to, auto value) { append(to, value); };
  take("bool_contents", c.bool_contents(), [](std::string& to, bool b) { to += b ? '\1' : '\0'; });
  take("int_contents", c.int_contents(), number);
  take("int64_contents", c.int64_contents(), number);
  take("uint_contents", c.uint_contents(), number);
  take("uint64_contents", c.uint64_contents(), number);
  take("fp32_contents", c.fp32_contents(), number);
  take("fp64_contents", c.fp64_contents(), number);
  take("bytes_contents", c.bytes_contents(), [](std::string& to, const std::string& text) {
    append(to, static_cast<std::uint32_t>(text.size()));
    to += text;
  });
}

void fill(inference::InferParameter& to, const grpc_value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) {
    to.set_bool_param(*flag);
  } else if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    to.set_int64_param(*whole);
  } else if (const auto* large = std::get_if<std::uint64_t>(&value)) {
    to.set_uint64_param(*large);
  } else if (const auto* real = std::get_if<double>(&value)) {
    to.set_double_param(*real);
  } else {
    to.set_string_param(std::get<std::string>(value));
  }
}

void fill(inference::ModelInferResponse& to, const grpc_inferred& reply) {
  to.set_model_name(reply.model);
  to.set_model_version(reply.version);
  to.set_id(reply.id);
  for (const auto& [name, value] : reply.parameters) {
    if (value) {
      fill((*to.mutable_parameters())[name], *value);
    }
  }
  if (reply.is_final) {
    (*to.mutable_parameters())["triton_final_response"].set_bool_param(*reply.is_final);
  }
  for (const auto& tensor : reply.outputs) {
    auto& one = *to.add_outputs();
    one.set_name(tensor.name);
    one.set_datatype(tensor.datatype);
    for (const auto n : tensor.shape) {
      one.add_shape(n);
    }
    to.add_raw_output_contents(tensor.bytes.value_or(std::string()));
  }
}

std::unique_ptr<Message> message_named(std::string_view type) {
  const auto* known =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(std::string(type));
  return std::unique_ptr<Message>(
      known ? google::protobuf::MessageFactory::generated_factory()->GetPrototype(known)->New()
            : nullptr);
}

class codec final : public grpc_codec {
public:
  bool read(std::string_view bytes, grpc_infer& out) const override {
    inference::ModelInferRequest received;
    if (!parse(received, bytes)) {
      return false;
    }
    out.model = received.model_name();
    out.version = received.model_version();
    out.id = received.id();
    out.parameters = parameters_of(received.parameters());
    const auto raw = static_cast<std::size_t>(received.raw_input_contents_size());
    std::size_t next = 0;
    for (const auto& input : received.inputs()) {
      auto& one = out.inputs.emplace_back();
      one.name = input.name();
      one.datatype = input.datatype();
      one.shape.assign(input.shape().begin(), input.shape().end());
      one.parameters = parameters_of(input.parameters());
      take_contents(input.contents(), one);
      if (next < raw && !one.bytes) {
        one.bytes = received.raw_input_contents(static_cast<int>(next++));
      }
    }
    for (const auto& output : received.outputs()) {
      out.outputs.emplace_back(output.name(), parameters_of(output.parameters()));
    }
    out.raw_spare = raw - next;
    return true;
  }

  bool read(std::string_view bytes, grpc_prediction& out) const override {
    predict::PredictionsRequest received;
    if (!parse(received, bytes)) {
      return false;
    }
    out.model = received.model_name();
    out.version = received.model_version();
    for (const auto& [name, value] : received.input()) {
      out.input.emplace_back(name, value);
    }
    return true;
  }

  std::string infer_response(const grpc_inferred& reply) const override {
    inference::ModelInferResponse to;
    fill(to, reply);
    return to.SerializeAsString();
  }

  std::string stream_response(const grpc_inferred& reply,
                              const std::string& error_message) const override {
    inference::ModelStreamInferResponse to;
    to.set_error_message(error_message);
    fill(*to.mutable_infer_response(), reply);
    return to.SerializeAsString();
  }

  std::string prediction(std::string_view content) const override {
    predict::PredictionResponse to;
    to.set_prediction(content.data(), content.size());
    return to.SerializeAsString();
  }

  bool json_of(std::string_view type, std::string_view bytes, std::string& out) const override {
    const auto message = message_named(type);
    if (!message || !parse(*message, bytes)) {
      return false;
    }
    google::protobuf::util::JsonPrintOptions options;
    options.always_print_primitive_fields = true;
    options.preserve_proto_field_names = true;
    return google::protobuf::util::MessageToJsonString(*message, &out, options).ok();
  }

  std::string message_of(std::string_view type, std::string_view json) const override {
    const auto message = message_named(type);
    if (!message || !google::protobuf::util::JsonStringToMessage(
                         google::protobuf::StringPiece(json.data(), json.size()), message.get())
                         .ok()) {
      return {};
    }
    return message->SerializeAsString();
  }
};

} // namespace

const grpc_codec& protobuf_codec() {
  // Messages are looked up by name only: the linker must not drop them.
  google::protobuf::LinkMessageReflection<
      org::pytorch::serve::grpc::management::ManagementResponse>();
  google::protobuf::LinkMessageReflection<grpc::health::v1::HealthCheckResponse>();
  static const codec the_one = [] {
    google::protobuf::SetLogHandler(nullptr); // else any client could fill the log
    return codec();
  }();
  return the_one;
}

} // namespace baton::gateway
