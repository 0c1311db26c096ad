# Passes if a program prints what the lines `//   ...` at the head of its source say.
#
#   cmake -DSOURCE=example.cpp -P expect-output.cmake -- command argument...
file(STRINGS ${SOURCE} lines REGEX "^//   ")
list(TRANSFORM lines REPLACE "^//   " "")
list(FILTER lines EXCLUDE REGEX "^mpirun")
list(JOIN lines "\n" expected)

include(${CMAKE_CURRENT_LIST_DIR}/trailing-command.cmake)

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0 OR NOT output STREQUAL expected)
  message(FATAL_ERROR "The program ended with ${status}. Expected:\n${expected}\nGot:\n${output}")
endif()
