# FlashInfer's headers for runtime/gpu/kernels/flashinfer.cu, where there is nvcc; without them its own
# kernels do all attention. Only that file may see them. BATON_FLASHINFER_VERSION is empty where there are none.
set(BATON_FLASHINFER AUTO CACHE STRING
  "the folder flashinfer/data of an unpacked flashinfer-python; AUTO: where scripts/setup.sh puts it, if it is there; OFF")
set(BATON_FLASHINFER_WANTED 0.7.2.post1)
set(BATON_FLASHINFER_VERSION "")
if(NOT BATON_NVCC OR NOT BATON_FLASHINFER)
  return()
endif()

set(root "${BATON_FLASHINFER}")
if(BATON_FLASHINFER STREQUAL AUTO)
  set(root "${CMAKE_SOURCE_DIR}/build/flashinfer/flashinfer/data")
  if(NOT EXISTS "${root}")
    message(STATUS "no FlashInfer in build/flashinfer: attention by own kernels alone")
    return()
  endif()
endif()
# Its API moves between releases: a wheel says in the folder beside it which one it is.
file(GLOB described "${root}/../../flashinfer_python-*.dist-info")
if(NOT described MATCHES "flashinfer_python-${BATON_FLASHINFER_WANTED}\\.dist-info$" OR NOT EXISTS "${root}/include/flashinfer/attention/prefill.cuh")
  message(FATAL_ERROR "BATON_FLASHINFER: ${root} is not flashinfer/data of flashinfer-python ${BATON_FLASHINFER_WANTED}, unpacked (pip download --no-deps); "
    "OFF builds without it")
endif()
set(BATON_FLASHINFER_VERSION ${BATON_FLASHINFER_WANTED})

add_library(flashinfer INTERFACE)
# Its own CCCL, before the toolkit's, which has not all that it uses.
target_compile_options(flashinfer INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--expt-relaxed-constexpr -static-global-template-stub=false \
-I${root}/cccl/libcudacxx/include -I${root}/cccl/cub -I${root}/cccl/thrust>")
target_include_directories(flashinfer SYSTEM INTERFACE "${root}/include")
