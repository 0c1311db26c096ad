# An overlay port, which installs the checkout that it lies in.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../../.." ABSOLUTE)

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/pith)
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug")

# The CMake files of the package, in share/pith; tests/packages/files.py compares them with an installation.
set(installed_files
    FindNCCL.cmake
    pith-components.cmake
    pith-config-version.cmake
    pith-config.cmake
    pith-cuda-toolkit.cmake
    pith-targets.cmake
    runtime)
foreach(file IN LISTS installed_files)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/share/pith/${file}")
    message(FATAL_ERROR "pith: share/pith/${file} was not installed")
  endif()
endforeach()
