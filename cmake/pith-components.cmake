# The optional parts of pith. The build and the installed package make them here, in the same way.
set(pith_components cuda mpi nccl)

# Makes pith::<name>; or sets pith_<name>_MISSING to what that needs, in words.
function(pith_add_component name)
  if(TARGET pith::${name})
    return()
  endif()
  list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

  if(name STREQUAL "cuda")
    set(needs "the CUDA Toolkit, 12.0 or newer: put nvcc on PATH or set CUDAToolkit_ROOT")
    find_package(CUDAToolkit 12.0 QUIET)
    set(links CUDA::cudart_static)
  elseif(name STREQUAL "mpi")
    set(needs "MPI for C++: put mpicxx on PATH or set MPI_HOME")
    find_package(MPI QUIET COMPONENTS CXX)
    set(links MPI::MPI_CXX)
  elseif(name STREQUAL "nccl")
    set(needs "NCCL and the CUDA Toolkit: set NCCL_ROOT to where include/nccl.h is")
    find_package(NCCL QUIET)
    pith_add_component(cuda)
    set(links NCCL::NCCL pith::cuda)
  endif()

  foreach(library IN LISTS links)
    if(NOT TARGET ${library})
      set(pith_${name}_MISSING ${needs} PARENT_SCOPE)
      return()
    endif()
  endforeach()

  add_library(pith::${name} INTERFACE IMPORTED GLOBAL)
  set_target_properties(pith::${name} PROPERTIES SYSTEM OFF)
  target_link_libraries(pith::${name} INTERFACE pith::pith ${links})
  if(name STREQUAL "cuda")
    # Older CMake takes cxx_std_20 for C++17 in .cu files.
    target_compile_options(pith::cuda INTERFACE $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-std=c++20>)
  elseif(name STREQUAL "mpi")
    # mpi.h would pull in the C++ bindings that MPI 3 removed.
    target_compile_definitions(pith::mpi INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  endif()
endfunction()
