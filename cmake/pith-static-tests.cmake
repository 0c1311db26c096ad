# How compilers are asked what compiles and what does not, without making anything; label static.
#
#   pith_add_compile_fail_tests(compile_fail/chain.cpp)     each section is refused, in the expected words; by other
#                                                           compilers than the project's: long
#   pith_add_header_tests(mpi pith/comm/mpi.hpp)            each header compiles alone, and twice, and all in both orders
#   pith_add_c_header_tests(mpi pith/runtime_mpi.h)         each C header compiles alone in C99, C11 and C++98
#   pith_add_cxx17_tests(pith/pith.hpp)                     a compiler for C++17 stops after one sentence
#   pith_add_compile_tests(fuzz/fuzz_state.cpp)             sources compile that the default tier does not build
#   pith_add_kernel_test(device/signs device/on_stream.cu LEAST 60 DEFINES -DX)   for sm_80 and sm_90 so many kernels
#                                                           are made, none spills registers; long
#
# The project's compiler is asked, clang++ if it is another one and there, and nvcc in CUDA builds.

set(pith_cxx_check -std=c++20 ${pith_warnings} -Werror -fsyntax-only -x c++)
set(pith_check_c++ ${CMAKE_CXX_COMPILER} ${pith_cxx_check})
set(pith_checkers c++)
find_program(PITH_CLANGXX NAMES clang++ clang++-14)
if(PITH_CLANGXX AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(pith_check_clang++ ${PITH_CLANGXX} ${pith_cxx_check})
  list(APPEND pith_checkers clang++)
endif()
if(pith_nvcc)
  set(pith_check_nvcc ${CMAKE_CUDA_COMPILER} -std=c++20 -Werror all-warnings -c -o /dev/null -x cu)
  list(APPEND pith_checkers nvcc)
endif()

# What a file says to no macro must compile. What it says to each macro must not, and the section begins with why:
#
#   #if defined(ORDER)
#     // expected-error {{pith: these stages do not fit}}
#     auto codec = pith::qsgd<4>() | pith::top_k(0.01);
#   #elif defined(...)
function(pith_add_compile_fail_tests file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  string(REGEX MATCHALL "#(el)?if defined\\([A-Za-z0-9_]+\\)" sections "${text}")
  list(TRANSFORM sections REPLACE ".*\\((.*)\\)" "\\1")
  foreach(checker IN LISTS pith_checkers)
    set(check ${pith_check_${checker}} -I${PROJECT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    add_test(NAME ${file}/${checker} COMMAND ${check})
    set_tests_properties(${file}/${checker} PROPERTIES LABELS static)
    if(checker STREQUAL "nvcc")  # takes 5 to 45 seconds
      set_tests_properties(${file}/${checker} PROPERTIES LABELS "static;long")
    endif()
    foreach(section IN LISTS sections)
      if(NOT text MATCHES "defined\\(${section}\\)[^#]*// expected-error {{([^\n]+)}}")
        message(FATAL_ERROR "${file}: section ${section} has no comment // expected-error {{text}}")
      endif()
      pith_add_compile_fail_test(${file}/${section}/${checker} "${CMAKE_MATCH_1}" ${check} -D${section})
      if(NOT checker STREQUAL "c++")
        set_tests_properties(${file}/${section}/${checker} PROPERTIES LABELS "static;long")
      endif()
    endforeach()
  endforeach()
endfunction()

function(pith_add_compile_fail_test name expected)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} "-DEXPECTED=${expected}"
                                -P ${PROJECT_SOURCE_DIR}/cmake/expect-compile-error.cmake -- ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS static)
endfunction()

function(pith_add_compile_tests)
  foreach(file IN LISTS ARGN)
    add_test(NAME static/${file}
             COMMAND ${pith_check_c++} -DPITH_NO_ISA_DISPATCH -I${PROJECT_SOURCE_DIR}/include -I${CMAKE_CURRENT_SOURCE_DIR}
                     ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    set_tests_properties(static/${file} PROPERTIES LABELS static)
  endforeach()
endfunction()

# ptxas says how many kernels a .cu file makes. Kernels are laid out for sm_90. On sm_80, ptxas spills 8 to 24 bytes in a
# few of them.
function(pith_add_kernel_test name file)
  if(NOT pith_nvcc)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "LEAST" "DEFINES")
  foreach(architecture 80 90)
    set(test ${name}/kernels_${architecture})
    set(spills OFF)
    if(architecture EQUAL 80)
      set(spills ON)
    endif()
    add_test(NAME ${test}
             COMMAND ${CMAKE_COMMAND} -DLEAST=${arg_LEAST} -DSPILLS=${spills}
                     -P ${PROJECT_SOURCE_DIR}/cmake/expect-kernels.cmake --
                     ${pith_check_nvcc} -arch=sm_${architecture} -Xptxas=-v -DPITH_NO_ISA_DISPATCH ${arg_DEFINES}
                     -I${PROJECT_SOURCE_DIR}/include -I${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    set_tests_properties(${test} PROPERTIES LABELS "static;long")
  endforeach()
endfunction()

# Headers listed after blas, cublas, cuda, eigen, mpi, nccl or thrust need that part of pith, those after host are not
# for nvcc, a .cuh is for nvcc alone; which sees all of its headers in one translation unit.
function(pith_add_header_tests)
  cmake_parse_arguments(PARSE_ARGV 0 for "" "" "blas;cublas;cuda;eigen;mpi;nccl;thrust;host")
  foreach(part blas cublas cuda eigen mpi nccl thrust)
    if(NOT TARGET pith::${part})
      list(APPEND left_out ${for_${part}})
    endif()
  endforeach()

  set(root ${PROJECT_SOURCE_DIR}/include)
  file(GLOB_RECURSE headers RELATIVE ${root} CONFIGURE_DEPENDS ${root}/*.hpp ${root}/*.cuh)
  list(REMOVE_ITEM headers ${left_out})
  foreach(checker IN LISTS pith_checkers)
    if(checker STREQUAL "nvcc")
      list(REMOVE_ITEM headers ${for_host})
      pith_add_header_test(headers/nvcc nvcc ${headers})
    else()
      foreach(header IN LISTS headers)
        if(header MATCHES "hpp$")
          pith_add_header_test(headers/${header}/${checker} ${checker} ${header})
          if(checker MATCHES "clang" OR header MATCHES "/detail/")
            set_tests_properties(headers/${header}/${checker} PROPERTIES LABELS "static;long")
          endif()
        endif()
      endforeach()
      list(FILTER headers INCLUDE REGEX "hpp$")
      foreach(order IN ITEMS forwards backwards)
        pith_add_header_test(headers/${order}/${checker} ${checker} ${headers})
        list(REVERSE headers)
      endforeach()
    endif()
  endforeach()
endfunction()

function(pith_add_header_test name checker)
  foreach(header IN LISTS ARGN ARGN)
    list(APPEND includes -include ${header})
  endforeach()
  add_test(NAME ${name} COMMAND ${pith_check_${checker}} -I${PROJECT_SOURCE_DIR}/include "${pith_system_includes}"
                                ${includes} /dev/null COMMAND_EXPAND_LISTS)
  set_tests_properties(${name} PROPERTIES LABELS static)
endfunction()

# Headers listed after mpi need MPI.
function(pith_add_c_header_tests)
  cmake_parse_arguments(PARSE_ARGV 0 for "" "" "mpi")
  set(headers ${for_UNPARSED_ARGUMENTS})
  if(TARGET pith::mpi)
    list(APPEND headers ${for_mpi})
  endif()
  set(check -pedantic -Wall -Wextra -Werror -fsyntax-only)
  foreach(header IN LISTS headers)
    foreach(standard c99 c11 c++98)
      set(compiler ${CMAKE_C_COMPILER} -x c)
      if(standard STREQUAL "c++98")
        set(compiler ${CMAKE_CXX_COMPILER} -x c++ -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX)
      endif()
      add_test(NAME headers/${header}/${standard}
               COMMAND ${compiler} -std=${standard} ${check} -I${PROJECT_SOURCE_DIR}/include "${pith_system_includes}"
                       -include ${header} -include ${header} /dev/null COMMAND_EXPAND_LISTS)
      set_tests_properties(headers/${header}/${standard} PROPERTIES LABELS static)
    endforeach()
  endforeach()
endfunction()

function(pith_add_cxx17_tests)
  foreach(header IN LISTS ARGN)
    foreach(checker IN LISTS pith_checkers)
      if(NOT checker STREQUAL "nvcc")
        add_test(NAME cxx17/${header}/${checker}
                 COMMAND ${CMAKE_COMMAND} "-DEXPECTED=pith needs C++20: compile with -std=c++20" -DLINES=20
                         -P ${PROJECT_SOURCE_DIR}/cmake/expect-compile-error.cmake -- ${pith_check_${checker}} -std=c++17
                         -I${PROJECT_SOURCE_DIR}/include -include ${header} /dev/null)
        set_tests_properties(cxx17/${header}/${checker} PROPERTIES LABELS static)
      endif()
    endforeach()
  endforeach()
endfunction()

# What the optional parts of pith include; not what compilers search by themselves, whose order -isystem would change.
string(REPLACE "+" "[+]" pith_implicit_includes "${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES}")
list(JOIN pith_implicit_includes "|" pith_implicit_includes)
foreach(library MPI::MPI_CXX NCCL::NCCL CUDA::toolkit Eigen3::Eigen pith::cblas pith::thrust_headers)
  if(TARGET ${library})
    set(directories $<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>)
    set(directories "$<FILTER:${directories},EXCLUDE,^(${pith_implicit_includes})$>")
    list(APPEND pith_system_includes "$<$<BOOL:${directories}>:-isystem;$<JOIN:${directories},;-isystem;>>")
  endif()
endforeach()
