# Passes if a program prints what a page has between `<!-- NAME -->` and `<!-- end -->`.
#
#   cmake -DPAGE=page.md -DNAME=table -P expect-section.cmake -- command argument...
include(${CMAKE_CURRENT_LIST_DIR}/trailing-command.cmake)

file(READ ${PAGE} text)
if(NOT text MATCHES "<!-- ${NAME} -->\n(.*)<!-- end -->")
  message(FATAL_ERROR "${PAGE} has no section <!-- ${NAME} -->")
endif()
set(expected "${CMAKE_MATCH_1}")

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output)
if(NOT status EQUAL 0 OR NOT output STREQUAL expected)
  message(FATAL_ERROR "The program ended with ${status}. ${PAGE} has:\n${expected}\nand must have:\n${output}")
endif()
