# How test programs are added. A name is a path below tests/ without its ending; more sources may follow it.
#
#   pith_add_tests(quantize cast natural)            quantize/cast_test.cpp and quantize/natural_test.cpp in one doctest
#                                                    program; one test per file, quantize/cast_test and so on; label cpu
#   pith_add_tests(comm ring LABELS threads)         ... with more labels, in a program of their own
#   pith_add_tests(exec par SOURCES support/x.cpp LIBRARIES pith::mpi)   ... with more sources and libraries
#   pith_add_test(core/random_test)                  a doctest program of tests/core/random_test.cpp; label cpu
#   pith_add_test(laws/unbiased_test LABELS long)    ... which only the long tier builds and runs
#   pith_add_test(laws/laws_test PLAIN)              ... of arithmetic: without sanitizers
#   pith_add_test(laws/laws_test OPTIMISED)          ... that runs longer without optimisation than that takes
#   pith_add_cuda_test(exec/cuda_test)               of a .cu file; label gpu; skipped without a device
#   pith_add_cuda_test(exec/cuda_dispatch KERNELS)   ... with many kernels, which must not spill registers unless SPILLS
#                                                    is given; for one architecture only, unless PITH_CUDA is ON
#   pith_add_cuda_test(vector_quantize/cublas_product_test HARDWARE)   ... with a library that the emulator lacks
#   pith_add_cuda_test(comm/nccl_test MODES)         ... in all modes of the emulator as well; label long
#   pith_add_mpi_test(comm/mpi_test RANKS 2 4)       run once for each number of ranks; labels mpi and, of more than four
#                                                    ranks, long. Built with MPICH too, where mpicxx.mpich is found
#                                                    beside another MPI; label long
#   pith_add_mpi_test(comm/loss_test RANKS 4 HEARS text)   ... in a job that outlives the loss of a rank; passes if
#                                                    each other rank prints the text
#   pith_add_loss_test(exchange/lost_rank)               a program of MPI and a Python script that runs it, 8 trials, and 200
#                                                    with either MPI; labels mpi and, of 200, long
#   pith_add_mpi_test(comm/x_test RANKS 2 FUNNELED)  ... with MPI that other threads may not call
#   pith_add_python_test(wire/decode "data/*.frame") a Python script on the files that match; label cpu
#   pith_add_python_test(x/y "" LABELS long ARGUMENTS cc)   ... with more labels, and with arguments before the files
#   pith_add_c_test(runtime/c_test pith::runtime RUN mpiexec -n 3)   a C program; labels cpu and long
#
# Labels: threads and ranks run under the thread sanitizer, ranks in --long only; long is left out of the default tier.
# Compiling takes most of a test run. So test programs have the loops of host executors for one instruction set, and are
# not optimised; DISPATCH compiles for all instruction sets, fully optimised. Files of one program share translation
# units, PITH_TEST_BATCH files each; sanitizers compile each file alone.
# Targets <folder>_tests and <label>_tests build the programs of a folder and of a label. Without nvcc and MPI the tests
# for them are left out; a Python test is skipped without an interpreter.
set(PITH_TEST_BATCH 4 CACHE STRING "Files per translation unit of a test program")

function(pith_add_tests folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPTIMISED" "" "LABELS;LIBRARIES;SOURCES")
  string(JOIN _ target test ${folder} ${arg_LABELS})
  list(TRANSFORM arg_UNPARSED_ARGUMENTS REPLACE "(.+)" "${folder}/\\1_test" OUTPUT_VARIABLE names)
  list(TRANSFORM names APPEND .cpp OUTPUT_VARIABLE sources)
  add_executable(${target} ${sources} ${arg_SOURCES})
  pith_make_test_program(${target})
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${PITH_TEST_BATCH})
    target_compile_options(${target} PRIVATE -Wno-shadow)  # names of one file are in scope in the next
  endif()
  foreach(label IN LISTS folder arg_LABELS)
    pith_build_with(${label} ${target})
  endforeach()
  foreach(name IN LISTS names)
    add_test(NAME ${name} COMMAND ${target} --source-file=*${name}.cpp)
    set_tests_properties(${name} PROPERTIES LABELS "cpu;${arg_LABELS}" FAIL_REGULAR_EXPRESSION "test cases: +0 ")
  endforeach()
endfunction()

function(pith_add_test name)
  if("PLAIN" IN_LIST ARGN AND CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    return()
  endif()
  pith_test_program(${name} .cpp ${ARGN})
  add_test(NAME ${name} COMMAND ${target})
  set_tests_properties(${name} PROPERTIES LABELS "cpu;${labels}")
endfunction()

function(pith_add_cuda_test name)
  if(NOT pith_nvcc)
    return()
  endif()
  pith_test_program(${name} .cu ${ARGN})
  target_sources(${target} PRIVATE cuda_or_skip.cpp)
  target_link_libraries(${target} PRIVATE pith::cuda)
  pith_build_with(gpu ${target})
  if(arg_DISPATCH)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-O2>)  # after the -O1 of tests
  endif()
  if(arg_KERNELS AND NOT arg_SPILLS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-warn-spills>)
  endif()
  if(arg_KERNELS AND NOT PITH_CUDA STREQUAL "ON" AND NOT pith_emulates_cuda)
    set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES 90-real)
  endif()
  add_test(NAME ${name} COMMAND ${target})
  set_tests_properties(${name} PROPERTIES LABELS "gpu;${labels}" SKIP_RETURN_CODE 77)
  if(pith_emulates_cuda AND arg_HARDWARE)
    set_tests_properties(${name} PROPERTIES DISABLED ON)
    pith_build_with(long ${target})
  elseif(pith_emulates_cuda AND arg_MODES)
    pith_run_in_modes(${name} ${target})
  endif()
endfunction()

function(pith_add_mpi_test name)
  if(TARGET pith::mpi)
    pith_add_runs_of_mpi(${name} ${MPIEXEC_EXECUTABLE} pith::mpi ${ARGN})
    pith_find_mpich()
    if(TARGET pith_test_mpich)
      pith_add_runs_of_mpi(${name} ${PITH_MPICH_EXECUTABLE} pith_test_mpich ${ARGN} VARIANT mpich LABELS long)
    endif()
  endif()
endfunction()

function(pith_add_runs_of_mpi name launcher library)
  pith_test_program(${name} .cpp ${ARGN})
  target_sources(${target} PRIVATE mpi_scope.cpp)
  if(arg_FUNNELED)
    target_compile_definitions(${target} PRIVATE PITH_TEST_FUNNELED)
  endif()
  target_link_libraries(${target} PRIVATE ${library})
  foreach(n IN LISTS ranks)
    string(JOIN / test ${name} ${arg_VARIANT} ${n})
    set(flags ${MPIEXEC_NUMPROC_FLAG} ${n})
    if(NOT arg_VARIANT)
      list(APPEND flags ${MPIEXEC_PREFLAGS})
    endif()
    if(arg_HEARS)
      pith_find_recovery_flag(${launcher})
      list(PREPEND flags ${recovery_flag})
    endif()
    add_test(NAME ${test} COMMAND ${launcher} ${flags} $<TARGET_FILE:${target}>)
    set(size)
    if(n GREATER 4)
      set(size long)
      pith_also_build_with(long ${target})
    endif()
    set_tests_properties(${test} PROPERTIES LABELS "mpi;${labels};${size}" PROCESSORS ${n} TIMEOUT 300
                                            ENVIRONMENT "${pith_mpi_environment}")
    if(arg_HEARS)
      math(EXPR others "${n} - 1")
      string(REPEAT "${arg_HEARS}.*" ${others} heard)
      set_tests_properties(${test} PROPERTIES PASS_REGULAR_EXPRESSION "${heard}")
    endif()
  endforeach()
endfunction()

function(pith_add_loss_test name)
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(TARGET pith::mpi AND Python3_Interpreter_FOUND)
    pith_add_runs_of_loss(${name} ${MPIEXEC_EXECUTABLE} pith::mpi "8;200")
    pith_find_mpich()
    if(TARGET pith_test_mpich)
      pith_add_runs_of_loss(${name} ${PITH_MPICH_EXECUTABLE} pith_test_mpich 200 mpich)
    endif()
  endif()
endfunction()

# UCX ends a rank that reads the memory of one that is gone, so MPICH moves bytes otherwise; Open MPI is told so below.
function(pith_add_runs_of_loss name launcher library trials)
  string(JOIN _ target ${name} ${ARGN})
  string(REPLACE / _ target ${target})
  add_executable(${target} ${name}.cpp)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${library} pith::pith pith_test_parse)
  pith_build_quickly(${target} -O0)
  pith_find_recovery_flag(${launcher})
  foreach(n IN LISTS trials)
    string(JOIN / test ${name} ${ARGN} ${n})
    add_test(NAME ${test} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.py $<TARGET_FILE:${target}>
                                  ${n} ${launcher} ${recovery_flag} ${MPIEXEC_NUMPROC_FLAG} 4)
    set_tests_properties(${test} PROPERTIES LABELS mpi PROCESSORS 4 TIMEOUT 1800
                                            ENVIRONMENT "${pith_mpi_environment};UCX_TLS=^cma")
    if(n GREATER 8)
      set_tests_properties(${test} PROPERTIES LABELS "mpi;long")
      pith_also_build_with(long ${target})
    endif()
  endforeach()
  if(ARGN)
    pith_build_with(long ${target})
  endif()
endfunction()

# What tells a launcher to let the other ranks live.
function(pith_find_recovery_flag launcher)
  execute_process(COMMAND ${launcher} --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(version MATCHES "HYDRA")
    set(recovery_flag -disable-auto-cleanup PARENT_SCOPE)
  else()
    set(recovery_flag --enable-recovery PARENT_SCOPE)
  endif()
endfunction()

# Makes pith_test_mpich of what mpicxx.mpich, Debian's name for it, says of itself.
function(pith_find_mpich)
  find_program(PITH_MPICH_CXX mpicxx.mpich)
  find_program(PITH_MPICH_EXECUTABLE mpiexec.mpich)
  if(TARGET pith_test_mpich OR NOT PITH_MPICH_CXX OR NOT PITH_MPICH_EXECUTABLE)
    return()
  endif()
  execute_process(COMMAND ${PITH_MPICH_CXX} -show OUTPUT_VARIABLE words)
  separate_arguments(words UNIX_COMMAND "${words}")
  set(includes ${words})
  list(FILTER includes INCLUDE REGEX "^-I")
  list(TRANSFORM includes REPLACE "^-I" "")
  list(FILTER words INCLUDE REGEX "^-[lL]")
  add_library(pith_test_mpich INTERFACE)
  target_include_directories(pith_test_mpich SYSTEM INTERFACE ${includes})
  target_compile_definitions(pith_test_mpich INTERFACE MPICH_SKIP_MPICXX)
  target_link_libraries(pith_test_mpich INTERFACE ${words})
endfunction()

function(pith_add_c_test name library)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "RUN")
  string(REPLACE / _ target ${name})
  add_executable(${target} ${name}.c)
  target_link_libraries(${target} PRIVATE ${library})
  pith_build_with(long ${target})
  add_test(NAME ${name} COMMAND ${arg_RUN} $<TARGET_FILE:${target}>)
  set_tests_properties(${name} PROPERTIES LABELS "cpu;long" ENVIRONMENT "${pith_mpi_environment}")
endfunction()

function(pith_add_python_test name files)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "ARGUMENTS;LABELS")
  find_package(Python3 COMPONENTS Interpreter QUIET)
  file(GLOB found CONFIGURE_DEPENDS ${files})
  if(Python3_Interpreter_FOUND)
    add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py ${arg_ARGUMENTS} ${found})
  else()
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: Python 3 was not found")
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "cpu;${arg_LABELS}")
endfunction()

# Open MPI as root, with more ranks than cores, on one machine that may forbid ptrace and has no ssh; MPICH without
# warnings of what ranks that gave up left undone.
set(pith_mpi_environment
    OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_btl=self,vader
    OMPI_MCA_btl_vader_single_copy_mechanism=none
    OMPI_MCA_hwloc_base_binding_policy=none
    OMPI_MCA_mpi_yield_when_idle=1
    OMPI_MCA_plm_rsh_agent=false
    OMPI_MCA_rmaps_base_oversubscribe=1
    UCX_LOG_LEVEL=error)

# For one instruction set, with assertions of the standard library, at a level of optimisation.
function(pith_build_quickly target level)
  target_compile_definitions(${target} PRIVATE PITH_NO_ISA_DISPATCH _GLIBCXX_ASSERTIONS)
  # g++ 12 takes empty classes for uninitialised at -O1.
  target_compile_options(
    ${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:${level}>
                      $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-Wno-maybe-uninitialized>)
endfunction()

# What a doctest program needs beside its sources; takes the arg_ options of its caller.
macro(pith_make_test_program target)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(${target} PRIVATE PITH_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")
  target_link_libraries(${target} PRIVATE pith::pith doctest::doctest pith_test_main ${arg_LIBRARIES})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
    target_link_options(${target} PRIVATE -Wl,--allow-multiple-definition)  # its new and delete give way to a test's
  endif()
  if(NOT arg_DISPATCH)
    if(arg_OPTIMISED)
      pith_build_quickly(${target} -O1)
    else()
      pith_build_quickly(${target} -O0)
    endif()
    target_link_libraries(${target} PRIVATE pith_test_parse)
  endif()
endmacro()

# Makes a program that the target <label>_tests builds, too.
function(pith_also_build_with label target)
  if(NOT TARGET ${label}_tests)
    add_custom_target(${label}_tests)
  endif()
  add_dependencies(${label}_tests ${target})
endfunction()

# Makes a program that the target <label>_tests builds; one of label long only that.
function(pith_build_with label target)
  pith_also_build_with(${label} ${target})
  if(label STREQUAL long)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# A doctest program of one file; sets target, labels and ranks for the caller.
macro(pith_test_program name ending)
  cmake_parse_arguments(arg "DISPATCH;FUNNELED;HARDWARE;KERNELS;MODES;OPTIMISED;PLAIN;SPILLS" "HEARS;VARIANT"
                        "LABELS;LIBRARIES;RANKS" ${ARGN})
  string(JOIN _ target ${name} ${arg_VARIANT})
  string(REPLACE / _ target ${target})
  set(labels ${arg_LABELS})
  set(ranks ${arg_RANKS})
  add_executable(${target} ${name}${ending} ${arg_UNPARSED_ARGUMENTS})
  pith_make_test_program(${target})
  foreach(label IN LISTS labels)
    pith_build_with(${label} ${target})
  endforeach()
  get_filename_component(folder ${name} DIRECTORY)
  if(folder AND NOT "long" IN_LIST labels)
    pith_build_with(${folder} ${target})
  endif()
endmacro()
