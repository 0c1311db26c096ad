# Finds NCCL, NVIDIA's collective communication library: NCCL_ROOT first, then beside the CUDA Toolkit, then the system.
#
#   sets     NCCL_FOUND, NCCL_VERSION
#   makes    NCCL::NCCL
include(${CMAKE_CURRENT_LIST_DIR}/pith-cuda-toolkit.cmake)
pith_find_cuda_toolkit(QUIET)

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_BIN_DIR}/../include)
# Wheels have the versioned file alone.
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_BIN_DIR}/../lib)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

if(NCCL_INCLUDE_DIR)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h NCCL_VERSION REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL "[0-9]+" NCCL_VERSION "${NCCL_VERSION}")
  list(JOIN NCCL_VERSION . NCCL_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR CUDAToolkit_FOUND
                                  VERSION_VAR NCCL_VERSION)

if(NCCL_FOUND AND NOT TARGET NCCL::NCCL)
  add_library(NCCL::NCCL SHARED IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                                              INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
  target_link_libraries(NCCL::NCCL INTERFACE CUDA::toolkit) # nccl.h includes cuda_runtime.h
endif()
