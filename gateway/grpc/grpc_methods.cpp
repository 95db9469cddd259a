#include "gateway/grpc/grpc_methods.hpp"

#include <algorithm>
#include <array>

namespace baton::gateway {
namespace {

using enum grpc_service;
using enum route_access;

constexpr std::string_view no_memory = "memory shared with clients is not supported: send tensors";
constexpr std::string_view no_settings = "traces and logs are set in nodes.toml";
constexpr std::string_view no_sequences =
    "there are no models with sequences: StreamPredictions answers in pieces";

constexpr grpc_method missing(grpc_service service, std::string_view name, std::string_view why) {
  return {service, name, user, {}, {}, grpc_shape::unary, why};
}

constexpr std::array known_methods{
    grpc_method{kserve, "ServerLive", open, "inference.ServerLiveRequest",
                "inference.ServerLiveResponse"},
    grpc_method{kserve, "ServerReady", open, "inference.ServerReadyRequest",
                "inference.ServerReadyResponse"},
    grpc_method{kserve, "ModelReady", user, "inference.ModelReadyRequest",
                "inference.ModelReadyResponse"},
    grpc_method{kserve, "ServerMetadata", user, "inference.ServerMetadataRequest",
                "inference.ServerMetadataResponse"},
    grpc_method{kserve, "ModelMetadata", user, "inference.ModelMetadataRequest",
                "inference.ModelMetadataResponse"},
    grpc_method{kserve, "ModelConfig", user, "inference.ModelConfigRequest",
                "inference.ModelConfigResponse"},
    grpc_method{kserve, "ModelStatistics", user, "inference.ModelStatisticsRequest",
                "inference.ModelStatisticsResponse"},
    grpc_method{kserve, "RepositoryIndex", user, "inference.RepositoryIndexRequest",
                "inference.RepositoryIndexResponse"},
    grpc_method{kserve, "RepositoryModelLoad", admin, "inference.RepositoryModelLoadRequest",
                "inference.RepositoryModelLoadResponse"},
    grpc_method{kserve, "RepositoryModelUnload", admin, "inference.RepositoryModelUnloadRequest",
                "inference.RepositoryModelUnloadResponse"},
    grpc_method{kserve, "ModelInfer", user, {}, {}},
    grpc_method{kserve, "ModelStreamInfer", user, {}, {}, grpc_shape::both_streams},
    missing(kserve, "SystemSharedMemoryStatus", no_memory),
    missing(kserve, "SystemSharedMemoryRegister", no_memory),
    missing(kserve, "SystemSharedMemoryUnregister", no_memory),
    missing(kserve, "CudaSharedMemoryStatus", no_memory),
    missing(kserve, "CudaSharedMemoryRegister", no_memory),
    missing(kserve, "CudaSharedMemoryUnregister", no_memory),
    missing(kserve, "TraceSetting", no_settings),
    missing(kserve, "LogSettings", no_settings),
    grpc_method{torchserve_inference, "Ping", open, "google.protobuf.Empty",
                "org.pytorch.serve.grpc.inference.TorchServeHealthResponse"},
    grpc_method{torchserve_inference, "Predictions", user, {}, {}},
    grpc_method{torchserve_inference, "StreamPredictions", user, {}, {}, grpc_shape::server_stream},
    missing(torchserve_inference, "StreamPredictions2", no_sequences),
    grpc_method{torchserve_management, "DescribeModel", admin,
                "org.pytorch.serve.grpc.management.DescribeModelRequest",
                "org.pytorch.serve.grpc.management.ManagementResponse"},
    grpc_method{torchserve_management, "ListModels", admin,
                "org.pytorch.serve.grpc.management.ListModelsRequest",
                "org.pytorch.serve.grpc.management.ManagementResponse"},
    grpc_method{torchserve_management, "RegisterModel", admin,
                "org.pytorch.serve.grpc.management.RegisterModelRequest",
                "org.pytorch.serve.grpc.management.ManagementResponse"},
    grpc_method{torchserve_management, "ScaleWorker", admin,
                "org.pytorch.serve.grpc.management.ScaleWorkerRequest",
                "org.pytorch.serve.grpc.management.ManagementResponse"},
    grpc_method{torchserve_management, "SetDefault", admin,
                "org.pytorch.serve.grpc.management.SetDefaultRequest",
                "org.pytorch.serve.grpc.management.ManagementResponse"},
    grpc_method{torchserve_management, "UnregisterModel", admin,
                "org.pytorch.serve.grpc.management.UnregisterModelRequest",
                "org.pytorch.serve.grpc.management.ManagementResponse"},
    grpc_method{health, "Check", open, "grpc.health.v1.HealthCheckRequest",
                "grpc.health.v1.HealthCheckResponse"},
    grpc_method{health, "List", open, "grpc.health.v1.HealthListRequest",
                "grpc.health.v1.HealthListResponse"},
    grpc_method{health, "Watch", open, "grpc.health.v1.HealthCheckRequest",
                "grpc.health.v1.HealthCheckResponse", grpc_shape::server_stream},
};

} // namespace

std::span<const grpc_method> grpc_methods() noexcept {
  return known_methods;
}

std::string_view name_of(grpc_service service) noexcept {
  constexpr std::array<std::string_view, 4> names{
      "inference.GRPCInferenceService", "org.pytorch.serve.grpc.inference.InferenceAPIsService",
      "org.pytorch.serve.grpc.management.ManagementAPIsService", "grpc.health.v1.Health"};
  return names[static_cast<std::size_t>(service)];
}

const grpc_method* find_grpc_method(grpc_service service, std::string_view path) noexcept {
  const auto* at =
      std::find_if(known_methods.begin(), known_methods.end(), [&](const grpc_method& m) {
        const auto prefix = name_of(m.service);
        return (m.service == service || m.service == health) && path.starts_with('/') &&
               path.substr(1).starts_with(prefix) &&
               path.substr(prefix.size() + 1).starts_with('/') &&
               path.substr(prefix.size() + 2) == m.name;
      });
  return at == known_methods.end() ? nullptr : at;
}

} // namespace baton::gateway
