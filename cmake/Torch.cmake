# torch and CUDA for the GPU engine (runtime/gpu), as imported targets. The CMake files of libtorch want a GPU to
# find an architecture, choose the standard of CUDA sources and leave definitions behind. Only the engine's library may
# link these targets, because torch's include folder has other versions of headers that the tree uses.
set(BATON_TORCH OFF CACHE STRING "the GPU engine: OFF, cpu (CPU tensors alone, for its tests) or cuda")
set(BATON_TORCH_PYTHON python3 CACHE STRING "a Python that has torch installed")
set(BATON_TORCH_VERSION 2.11.0)
if(NOT BATON_TORCH)
  return()
endif()
if(NOT BATON_TORCH MATCHES "^(cpu|cuda)$")
  message(FATAL_ERROR "BATON_TORCH is '${BATON_TORCH}': OFF, cpu and cuda are possible")
endif()

# Where it lies and which version, without importing it.
execute_process(
  COMMAND "${BATON_TORCH_PYTHON}" -c "
import importlib.metadata, importlib.util
spec = importlib.util.find_spec('torch')
print(spec.submodule_search_locations[0] + ';' + importlib.metadata.version('torch') if spec else '', end='')"
  OUTPUT_VARIABLE found ERROR_VARIABLE why RESULT_VARIABLE status)
if(status OR NOT found)
  message(FATAL_ERROR "BATON_TORCH=${BATON_TORCH} needs torch ${BATON_TORCH_VERSION}: ${BATON_TORCH_PYTHON} has none.\n"
    "Install it (pip install torch==${BATON_TORCH_VERSION}) and name its Python with BATON_TORCH_PYTHON; "
    "./up --gpu and ./check gpu do both. ${why}")
endif()
list(GET found 0 BATON_TORCH_ROOT)
list(GET found 1 version)
if(NOT version MATCHES "^2\\.11\\.0(\\+.*)?$")
  message(FATAL_ERROR "torch ${version} is installed in ${BATON_TORCH_ROOT}; the GPU engine is written for ${BATON_TORCH_VERSION}")
endif()

set(libraries c10 torch_cpu)
if(BATON_TORCH STREQUAL cuda)
  list(APPEND libraries c10_cuda torch_cuda)
  find_path(BATON_NCCL_INCLUDE nccl.h HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} "${BATON_TORCH_ROOT}/../nvidia/nccl/include")
  if(NOT BATON_NCCL_INCLUDE)
    message(FATAL_ERROR "BATON_TORCH=cuda needs nccl.h (NCCL 2.28 or later; it comes with the toolkit, as libnccl-dev or as the PyPI package nvidia-nccl-cu13)")
  endif()
endif()

foreach(library ${libraries})
  if(NOT EXISTS "${BATON_TORCH_ROOT}/lib/lib${library}.so")
    message(FATAL_ERROR "torch in ${BATON_TORCH_ROOT} has no lib${library}.so: another build of it")
  endif()
  add_library(torch::${library} SHARED IMPORTED GLOBAL)
  set_target_properties(torch::${library} PROPERTIES IMPORTED_LOCATION "${BATON_TORCH_ROOT}/lib/lib${library}.so"
    INTERFACE_INCLUDE_DIRECTORIES "${BATON_TORCH_ROOT}/include")
endforeach()
target_link_libraries(torch::torch_cpu INTERFACE torch::c10)
if(BATON_TORCH STREQUAL cuda)
  target_link_libraries(torch::c10_cuda INTERFACE torch::c10 cuda::cudart)
  # Headers of cuBLAS and others that torch's headers include: in the toolkit, or in the packages beside torch.
  if(EXISTS "${BATON_TORCH_ROOT}/../nvidia/cu13/include")
    target_include_directories(torch::c10_cuda INTERFACE "${BATON_TORCH_ROOT}/../nvidia/cu13/include")
  endif()
  target_link_libraries(torch::torch_cuda INTERFACE torch::torch_cpu torch::c10_cuda)
endif()
