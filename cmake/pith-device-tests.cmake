# How families of cases of device code are added; tests/device/family.hpp.
#
#   pith_add_device_tests(signs sums)   tests/device/signs.hpp and sums.hpp, on a device beside seq; label gpu
#   pith_add_device_mutants()           faults in device code that tests/device/team.cu and ties.cu must notice; long.
#                                       The default tier checks that each still has its place
#
# A family is one program. In the emulator its PTX alone is made, of float, and races of all memory are looked for. In the
# long tier it runs again of every element type, for another architecture and in other modes, and ptxas compiles its
# kernels: none may spill registers.

set(pith_mode_fused PITH_EMULATOR_FUSE=1)
set(pith_mode_mixed PITH_EMULATOR_ORDER=7 PITH_EMULATOR_RESIDENT=4 PITH_EMULATOR_QUANTUM=97)
set(pith_mode_late PITH_EMULATOR_ORDER=1 PITH_EMULATOR_LATE=1)
set(pith_mode_racing PITH_EMULATOR_RACES=2 PITH_EMULATOR_ORDER=3 PITH_EMULATOR_RESIDENT=4)

function(pith_add_device_tests)
  foreach(family IN LISTS ARGN)
    pith_device_program(device_${family} ${family})
    add_test(NAME device/${family} COMMAND device_${family})
    pith_run_on_device(device/${family} gpu PITH_EMULATOR_RACES=2)
    pith_build_with(gpu device_${family})
    pith_build_with(device device_${family})
    if(pith_emulates_cuda)
      target_compile_definitions(device_${family} PRIVATE PITH_TEST_FLOAT_ONLY)
      pith_device_program(device_${family}_80 ${family})
      set_target_properties(device_${family}_80 PROPERTIES CUDA_ARCHITECTURES 80-virtual)
      pith_build_with(long device_${family}_80)
      pith_build_with(gpu_long device_${family}_80)
      add_test(NAME device/${family}/compute_80 COMMAND device_${family}_80)
      pith_run_on_device(device/${family}/compute_80 "gpu;long" PITH_EMULATOR_RACES=2)
      pith_run_in_modes(device/${family} device_${family}_80)
    endif()
    pith_add_kernel_test(device/${family} device/on_stream.cu LEAST 20
                         DEFINES -DPITH_TEST_FAMILY=${family} "-DPITH_TEST_FAMILY_HEADER=\"device/${family}.hpp\"")
  endforeach()
endfunction()

function(pith_device_program target family)
  add_executable(${target} device/on_stream.cu device/on_seq.cpp cuda_or_skip.cpp)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(${target} PRIVATE PITH_TEST_FAMILY=${family}
                                               PITH_TEST_FAMILY_HEADER="device/${family}.hpp")
  target_link_libraries(${target} PRIVATE pith::cuda doctest::doctest pith_test_main pith_test_bases)
  pith_build_quickly(${target} -O0)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-O0>)  # kernels are optimised as ever
  if(pith_emulates_cuda)
    set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES 90-virtual)
  else()
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-warn-spills>)
  endif()
endfunction()

function(pith_run_on_device test labels environment)
  set_tests_properties(${test} PROPERTIES LABELS "${labels}" SKIP_RETURN_CODE 77)
  if(pith_emulates_cuda)
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "${environment}")
  endif()
endfunction()

# Once for each mode of the emulator, in the long tier.
function(pith_run_in_modes test target)
  foreach(mode fused mixed late racing)
    add_test(NAME ${test}/${mode} COMMAND ${target})
    pith_run_on_device(${test}/${mode} "gpu;long" "${pith_mode_${mode}}")
  endforeach()
endfunction()

# A test for all of them, which takes minutes.
function(pith_add_device_mutants)
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(NOT Python3_Interpreter_FOUND)
    return()
  endif()
  add_test(NAME static/mutants COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/device/mutants.py --check)
  set_tests_properties(static/mutants PROPERTIES LABELS cpu)
  if(NOT pith_emulates_cuda)
    return()
  endif()
  get_target_property(includes doctest::doctest INTERFACE_INCLUDE_DIRECTORIES)
  list(TRANSFORM includes PREPEND --include=)
  add_test(NAME device/mutants
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/device/mutants.py --nvcc ${CMAKE_CUDA_COMPILER}
                   --runtime $<TARGET_FILE_DIR:pith_emulated_cudart> --main $<TARGET_OBJECTS:pith_test_main> ${includes})
  set_tests_properties(device/mutants PROPERTIES LABELS "gpu;long" TIMEOUT 3600)
endfunction()
