# nvcc for the kernels of the GPU engine (runtime/gpu/device/kernels/*.cu), which compile without torch and without a GPU.
# Sets BATON_NVCC if there is one. BATON_TORCH=cuda requires nvcc, BATON_KERNELS=AUTO uses it if it is there.
# scripts/setup_gpu.sh fetches one where the machine has none, and names what it found with CUDACXX.
set(BATON_KERNELS OFF CACHE STRING "target gpu_kernels, the GPU engine's kernels without torch: OFF, or AUTO: where there is nvcc")
set(BATON_NVCC FALSE)
if(NOT BATON_TORCH STREQUAL cuda AND NOT BATON_KERNELS STREQUAL AUTO)
  return()
endif()

if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES 90-real CACHE STRING "of the GPUs that the engine is for: 80-real, 89-real, 90-real, ...")
endif()
# Ends this file: an error where the kernels must be compiled.
macro(baton_goes_without_nvcc why)
  if(BATON_TORCH STREQUAL cuda)
    message(FATAL_ERROR "BATON_TORCH=cuda needs nvcc of CUDA 13: ${why} (CUDACXX names another)")
  endif()
  message(STATUS "${why}: the GPU engine's kernels are not compiled")
  return()
endmacro()

include(CheckLanguage)
foreach(nvcc "$ENV{CUDACXX}" /usr/local/cuda/bin/nvcc "${CMAKE_SOURCE_DIR}/build/cuda/toolkit/bin/nvcc")
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS "${nvcc}")
    set(CMAKE_CUDA_COMPILER "${nvcc}")
  endif()
endforeach()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  baton_goes_without_nvcc("nvcc is neither in PATH nor in /usr/local/cuda/bin nor in build/cuda")
endif()
set(CMAKE_CUDA_STANDARD 17) # CMake 3.25 has no later one for nvcc
# As they are shipped, in every kind of build: one entry of the compiler cache.
set(CMAKE_CUDA_FLAGS_DEV "-O3 -DNDEBUG")
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${BATON_LAUNCHER})
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  baton_goes_without_nvcc("${CMAKE_CUDA_COMPILER} is of ${CMAKE_CUDA_COMPILER_VERSION}")
endif()
# Not find_package(CUDAToolkit): Debian's CMake 3.25 stumbles there over a library that CUDA 13 has no more.
if(BATON_TORCH STREQUAL cuda)
  find_library(BATON_CUDART cudart HINTS "${CMAKE_CUDA_COMPILER_TOOLKIT_ROOT}" PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib REQUIRED)
  add_library(cuda::cudart SHARED IMPORTED GLOBAL)
  set_target_properties(cuda::cudart PROPERTIES IMPORTED_LOCATION "${BATON_CUDART}"
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}")
endif()
set(BATON_NVCC TRUE)
