# Finds the CUDA Toolkit. Where a project requires CMake 3.25, FindCUDAToolkit of CMake 3.25 fails with CUDA 13: it deprecates
# a target that CUDA 13 does not have.
macro(pith_find_cuda_toolkit)
  set(pith_cmake_minimum ${CMAKE_MINIMUM_REQUIRED_VERSION})
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit ${ARGN})
  set(CMAKE_MINIMUM_REQUIRED_VERSION ${pith_cmake_minimum})
endmacro()
