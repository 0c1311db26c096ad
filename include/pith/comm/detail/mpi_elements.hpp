// pith/comm/detail/mpi_elements.hpp — MPI data types and reduction operations of the element types.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/element.hpp>
#include <pith/core/error.hpp>

#include <mpi.h>

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The MPI type of an element type. MPI 3.1 has no 16-bit floats, so such floats are sent as MPI_UINT16_T and added by
/// `narrow_operation`.
template <class T>
MPI_Datatype mpi_type() {
  if constexpr (std::same_as<T, float>) return MPI_FLOAT;
  if constexpr (std::same_as<T, double>) return MPI_DOUBLE;
  if constexpr (std::same_as<T, std::int32_t>) return MPI_INT32_T;
  if constexpr (std::same_as<T, std::int8_t>) return MPI_INT8_T;
  return MPI_UINT16_T;
}

template <class T, reduction How>
void reduce_narrow(void* in, void* inout, int* length, MPI_Datatype*) {
  auto const* const a = static_cast<T const*>(in);
  auto* const b = static_cast<T*>(inout);
  for (int i = 0; i < *length; ++i) b[i] = reduced(a[i], b[i], How);
}

/// A reduction operation for 16-bit floats, which is made once and never freed, since abandoned calls may still use it.
template <class T, reduction How>
MPI_Op narrow_operation() {
  static auto const made = [] {
    MPI_Op op = MPI_OP_NULL;
    if (MPI_Op_create(&reduce_narrow<T, How>, 1, &op) != MPI_SUCCESS)
      throw communication_error(sentence("mpi_communicator: MPI_Op_create must make an operation, got an error"));
    return op;
  }();
  return made;
}

template <class T>
MPI_Op mpi_operation(reduction how) {
  if constexpr (std::same_as<T, half> || std::same_as<T, bfloat16>)
    return how == reduction::sum ? narrow_operation<T, reduction::sum>() : narrow_operation<T, reduction::max>();
  return how == reduction::sum ? MPI_SUM : MPI_MAX;
}

}}}  // namespace pith::PITH_ABI::detail
