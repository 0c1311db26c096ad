# find_package(pith 0.1 COMPONENTS cuda nccl): pith::pith always, and pith::<component> for each one asked for.
include("${CMAKE_CURRENT_LIST_DIR}/pith-targets.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/pith-components.cmake")

foreach(component IN LISTS pith_FIND_COMPONENTS)
  if(component IN_LIST pith_components)
    pith_add_component(${component})
  else()
    list(JOIN pith_components ", " known)
    set(pith_${component}_MISSING "another name: pith's components are ${known}")
  endif()

  if(NOT DEFINED pith_${component}_MISSING)
    set(pith_${component}_FOUND TRUE)
  elseif(pith_FIND_REQUIRED_${component})
    set(pith_FOUND FALSE)
    set(pith_NOT_FOUND_MESSAGE "Component ${component} of pith needs ${pith_${component}_MISSING}.")
  endif()
endforeach()
