# Adds pith from an archive of its sources, by CMake alone. Set PITH_ARCHIVE to the path or address of the archive, and
# PITH_ARCHIVE_SHA256 to its SHA-256.
include(FetchContent)
if(POLICY CMP0135)
  cmake_policy(SET CMP0135 NEW)  # another archive is unpacked again
endif()
FetchContent_Declare(pith URL ${PITH_ARCHIVE} URL_HASH SHA256=${PITH_ARCHIVE_SHA256})
FetchContent_MakeAvailable(pith)
