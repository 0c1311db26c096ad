// tests/find_package/consumer/main.cpp — prints the version of the pith that was found.
#include <pith/pith.hpp>

#include <cstdio>

int main() { std::printf("pith %d.%d.%d\n", PITH_VERSION_MAJOR, PITH_VERSION_MINOR, PITH_VERSION_PATCH); }
