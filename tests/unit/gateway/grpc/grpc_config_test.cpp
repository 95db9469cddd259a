// Triton's model configuration as its messages: the field list equals theirs, and values survive.
#include "gateway/api/kserve/models/kserve_config_fields.hpp"
#include "gateway/grpc/grpc_api.hpp"
#include "gateway/grpc/library/codec.hpp"
#include "tests/unit/gateway/dispatch/request_router_world.hpp"

#include "kserve.pb.h"
#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

namespace {

using google::protobuf::FieldDescriptor;

config_type type_of(const FieldDescriptor& f) {
  switch (f.cpp_type()) {
  case FieldDescriptor::CPPTYPE_STRING:
    return config_type::text;
  case FieldDescriptor::CPPTYPE_BOOL:
    return config_type::flag;
  case FieldDescriptor::CPPTYPE_FLOAT:
  case FieldDescriptor::CPPTYPE_DOUBLE:
    return config_type::real;
  case FieldDescriptor::CPPTYPE_ENUM:
    return config_type::enumeration;
  case FieldDescriptor::CPPTYPE_MESSAGE:
    return config_type::message;
  default:
    return config_type::whole;
  }
}

std::string words_of(const google::protobuf::EnumDescriptor& all) {
  std::string words;
  for (int i = 0; i < all.value_count(); ++i) {
    CHECK(all.value(i)->number() == i);
    words += (i > 0 ? " " : "") + all.value(i)->name();
  }
  return words;
}

// The fields of `of` equal those of the message `name`, recursively.
void check_fields(const google::protobuf::Descriptor& of, std::string_view name) {
  std::size_t listed = 0;
  for (const auto& f : config_fields) {
    listed += f.of == name ? 1 : 0;
  }
  CHECK_MESSAGE(listed == static_cast<std::size_t>(of.field_count()), of.full_name());
  for (int i = 0; i < of.field_count(); ++i) {
    const auto& field = *of.field(i);
    CAPTURE(field.full_name());
    const auto* known = find_config_field(name, field.name());
    REQUIRE(known != nullptr);
    const auto& value = field.is_map() ? *field.message_type()->FindFieldByName("value") : field;
    CHECK(known->type == type_of(value));
    CHECK((known->count == config_count::map) == field.is_map());
    CHECK((known->count == config_count::many) == (field.is_repeated() && !field.is_map()));
    CHECK((known->count == config_count::choice) == (field.real_containing_oneof() != nullptr));
    if (known->type == config_type::message) {
      check_fields(*value.message_type(), known->target);
    } else if (known->type == config_type::enumeration) {
      CHECK(known->target == words_of(*value.enum_type()));
    }
  }
}

} // namespace

TEST_CASE("the fields of a configuration are those of Triton's message") {
  check_fields(*inference::ModelConfig::descriptor(), "");
}

TEST_CASE("a configuration of Triton is the same over gRPC and HTTP") {
  at_pipeline_client::request_router_world world({"m"});
  auto& facts = world.facts;
  worker_facts reported;
  reported.config = R"({"platform": "tensorflow_graphdef",
                    "sequence_batching": {"oldest": {"max_candidate_sequences": 4}},
                    "model_warmup": [{"inputs": {"IN": {"random_data": true}}}],
                    "instance_group": [{"secondary_devices": [{"device_id": 1}]}]})";
  reported.max_batch_size = 3;
  facts->set_workers(
      nullptr,
      {{"w", "1", std::make_shared<worker_load>(), std::make_shared<const worker_facts>(reported)}},
      {});
  inference::ModelConfigRequest asked;
  asked.set_name("w");
  const auto* method = find_grpc_method(
      grpc_service::kserve, fmt::format("/{}/ModelConfig", name_of(grpc_service::kserve)));
  REQUIRE(method != nullptr);
  const auto made = plan_grpc(*method, asked.SerializeAsString(), protobuf_codec(), *facts);
  REQUIRE(std::holds_alternative<grpc_reply>(made));
  inference::ModelConfigResponse answer;
  REQUIRE(answer.ParseFromString(std::get<grpc_reply>(made).bytes));
  const auto& config = answer.config();
  CHECK(config.platform() == "tensorflow_graphdef");
  CHECK(config.backend() == "tensorflow");
  CHECK(config.default_model_filename() == "model.graphdef");
  CHECK(config.sequence_batching().oldest().preferred_batch_size(0) == 3);
  CHECK(config.sequence_batching().max_sequence_idle_microseconds() == 1'000'000);
  CHECK(config.model_warmup(0).inputs().at("IN").random_data());
  CHECK(config.instance_group(0).secondary_devices(0).device_id() == 1);
  CHECK(config.instance_group(0).kind() == inference::ModelInstanceGroup::KIND_CPU);
}
