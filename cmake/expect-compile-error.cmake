# Passes if a compiler refuses a source and says the expected text, in at most LINES lines.
#
#   cmake -DEXPECTED=text [-DLINES=most] -P expect-compile-error.cmake -- compiler argument...
include(${CMAKE_CURRENT_LIST_DIR}/trailing-command.cmake)

set(ENV{LC_ALL} C)
execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(FIND "${output}" "${EXPECTED}" position)

if(status EQUAL 0)
  message(FATAL_ERROR "This compiled, but must not:\n${command}")
elseif(position EQUAL -1)
  message(FATAL_ERROR "The compiler failed (${status}) without saying \"${EXPECTED}\":\n${output}")
endif()

string(REGEX MATCHALL "\n" lines "${output}")
list(LENGTH lines count)
if(DEFINED LINES AND count GREATER LINES)
  message(FATAL_ERROR "The compiler's text must have at most ${LINES} lines, got ${count}:\n${output}")
endif()
