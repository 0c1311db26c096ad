# Sets command to what follows -- on the command line of cmake -P.
set(command)
foreach(i RANGE 1 ${CMAKE_ARGC})
  if(DEFINED separator)
    list(APPEND command ${CMAKE_ARGV${i}})
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(separator ${i})
  endif()
endforeach()
