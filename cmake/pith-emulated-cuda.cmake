# Runs CUDA code on an emulated device where there is no GPU. Sets pith_emulates_cuda: whether this build does.
#
# The build's CUDA runtime is then the one that tests/emulator builds, for tests, examples and benchmarks. It reads the
# PTX that nvcc puts into a program, as text and with source lines. docs/emulator.md describes it.
set(PITH_EMULATE_CUDA AUTO CACHE STRING "Run CUDA code in the emulator: ON, OFF, or AUTO for tests where no GPU is found")
set_property(CACHE PITH_EMULATE_CUDA PROPERTY STRINGS AUTO ON OFF)

# Sets found to whether this machine has a GPU of NVIDIA.
function(pith_find_gpu found)
  set(${found} OFF PARENT_SCOPE)
  if(EXISTS /dev/nvidia0)
    set(${found} ON PARENT_SCOPE)
    return()
  endif()
  find_program(PITH_NVIDIA_SMI nvidia-smi)
  if(PITH_NVIDIA_SMI)
    execute_process(COMMAND ${PITH_NVIDIA_SMI} -L OUTPUT_VARIABLE gpus ERROR_QUIET)
    if(gpus MATCHES "GPU [0-9]+:")
      set(${found} ON PARENT_SCOPE)
    endif()
  endif()
endfunction()

set(pith_emulates_cuda ${PITH_EMULATE_CUDA})
if(PITH_EMULATE_CUDA STREQUAL "AUTO")
  set(pith_emulates_cuda OFF)
  pith_find_gpu(pith_gpu)
  if(PITH_BUILD_TESTS AND pith_nvcc AND NOT pith_gpu)
    set(pith_emulates_cuda ON)
    message(STATUS "pith: found no GPU, so CUDA code runs in the emulator (PITH_EMULATE_CUDA=AUTO)")
  endif()
elseif(PITH_EMULATE_CUDA AND NOT (PITH_BUILD_TESTS AND pith_nvcc))
  message(FATAL_ERROR "pith: PITH_EMULATE_CUDA=ON needs PITH_BUILD_TESTS=ON and a working nvcc on PATH")
endif()

if(pith_emulates_cuda)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 90)  # PTX, which is executed, and machine code, so that ptxas checks it
  endif()
  string(APPEND CMAKE_CUDA_FLAGS " --no-compress -lineinfo")
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)

  # The loader must find it before NVIDIA's, which other libraries of CUDA lie beside.
  list(PREPEND CMAKE_BUILD_RPATH ${PROJECT_BINARY_DIR}/tests/emulator)

  # FindCUDAToolkit leaves a target alone that is there already.
  add_library(CUDA::cudart_static INTERFACE IMPORTED GLOBAL)
  target_link_libraries(CUDA::cudart_static INTERFACE pith_emulated_cudart)

  # So does FindNCCL. The header alone is needed.
  include(${CMAKE_CURRENT_LIST_DIR}/pith-cuda-toolkit.cmake)
  pith_find_cuda_toolkit(QUIET)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT} ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_BIN_DIR}/../include
                                          PATH_SUFFIXES include)
  if(NCCL_INCLUDE_DIR)
    add_library(NCCL::NCCL INTERFACE IMPORTED GLOBAL)
    target_link_libraries(NCCL::NCCL INTERFACE pith_emulated_nccl CUDA::toolkit)
    target_include_directories(NCCL::NCCL INTERFACE ${NCCL_INCLUDE_DIR})
  endif()
endif()
