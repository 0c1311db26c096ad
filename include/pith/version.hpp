// pith/version.hpp — the version of the library, read by CMake too.
#pragma once

#define PITH_VERSION_MAJOR 0
#define PITH_VERSION_MINOR 1
#define PITH_VERSION_PATCH 0
