// pith/version.hpp — the library's version, which CMake also reads.
#pragma once

#define PITH_VERSION_MAJOR 0
#define PITH_VERSION_MINOR 1
#define PITH_VERSION_PATCH 0

#define PITH_WIRE_VERSION 1  // of frames and payloads (wire/header.hpp)
