// tests/emulator/nccl/transfer.hpp — the bytes that calls move, once all ranks are there.
#pragma once

#include "nccl/member.hpp"

#include <cstddef>
#include <vector>

namespace emulator::nccl {

/// 0 for a type that is not served.
std::size_t bytes_of(ncclDataType_t type);

/// Whether elements of a type can be reduced so.
bool can_reduce(ncclDataType_t type, ncclRedOp_t how);

/// A collective call of all ranks, whose arguments agree. Sums run in the order of the ranks, narrow types in float.
void transfer(std::vector<arguments> const& of_ranks);
/// A send and its receive.
void transfer(arguments const& sent, arguments const& received);

}  // namespace emulator::nccl
