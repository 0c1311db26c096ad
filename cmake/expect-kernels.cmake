# Passes if a compilation succeeds in which ptxas -v reports at least so many kernels, and none that spills registers
# unless SPILLS is ON.
#
#   cmake -DLEAST=10 -DSPILLS=OFF -P expect-kernels.cmake -- nvcc -Xptxas=-v file.cu
include(${CMAKE_CURRENT_LIST_DIR}/trailing-command.cmake)

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX MATCHALL "Compiling entry function" kernels "${output}")
list(LENGTH kernels count)
string(REGEX MATCHALL "[^\n]*[1-9][0-9]* bytes spill[^\n]*" spills "${output}")
list(LENGTH spills spilling)
if(NOT status EQUAL 0 OR count LESS LEAST OR (spilling GREATER 0 AND NOT SPILLS))
  message(FATAL_ERROR "The compiler ended with ${status}; ${count} kernels, of at least ${LEAST}; spills: ${spills}\n"
                      "${output}")
endif()
message(STATUS "${count} kernels, ${spilling} of them spill: ${spills}")
