// pith/version.hpp — the library's version; CMake reads it too.
#pragma once

#define PITH_VERSION_MAJOR 0
#define PITH_VERSION_MINOR 1
#define PITH_VERSION_PATCH 0
