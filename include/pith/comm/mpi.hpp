// pith/comm/mpi.hpp — ranks of an MPI communicator, host memory.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/error.hpp>

#include <mpi.h>

#include <climits>
#include <concepts>
#include <cstdint>
#include <utility>

namespace pith::inline v0 {

namespace detail {

inline void check_mpi(int code, char const* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw communication_error(sentence("mpi: ", what, ": ", text));
}

inline int mpi_count(std::size_t n, char const* what) {
  require(n <= INT_MAX, "mpi: ", what, " moves at most 2^31 - 1 elements a call, got ", n, ": split the tensor");
  return static_cast<int>(n);
}

/// MPI 3.1 has no 16-bit floats: an operation on MPI_UINT16_T adds them.
template <class T, reduction How>
void reduce_narrow(void* in, void* inout, int* length, MPI_Datatype*) {
  auto const* const a = static_cast<T const*>(in);
  auto* const b = static_cast<T*>(inout);
  for (int i = 0; i < *length; ++i) {
    auto const x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
    b[i] = T(How == reduction::sum ? x + y : (x > y ? x : y));
  }
}

template <class T>
MPI_Datatype mpi_type() {
  if constexpr (std::same_as<T, float>) return MPI_FLOAT;
  if constexpr (std::same_as<T, double>) return MPI_DOUBLE;
  if constexpr (std::same_as<T, std::int32_t>) return MPI_INT32_T;
  if constexpr (std::same_as<T, std::int8_t>) return MPI_INT8_T;
  return MPI_UINT16_T;
}

}  // namespace detail

/// A nonblocking MPI call. wait() ends it; so does the end of the request.
class mpi_request {
 public:
  explicit mpi_request(MPI_Request request) : request_(request) {}
  mpi_request(mpi_request&& other) noexcept : request_(std::exchange(other.request_, MPI_REQUEST_NULL)) {}
  mpi_request& operator=(mpi_request&&) = delete;
  ~mpi_request() { MPI_Wait(&request_, MPI_STATUS_IGNORE); }

  template <class E>
  void wait(E const&) {
    detail::check_mpi(MPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_Wait");
  }

 private:
  MPI_Request request_;
};

/// The ranks of a duplicate of `comm`, whose errors are thrown as communication_error. Needs MPI_Init before and
/// MPI_Finalize after its life; executors of host memory.
class mpi_communicator {
 public:
  explicit mpi_communicator(MPI_Comm comm) {
    detail::check_mpi(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
    detail::check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    detail::check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    detail::check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    narrow<half>(half_);
    narrow<bfloat16>(bfloat16_);
  }
  mpi_communicator(mpi_communicator const&) = delete;
  mpi_communicator& operator=(mpi_communicator const&) = delete;
  ~mpi_communicator() {
    for (auto* op : {&half_.sum, &half_.max, &bfloat16_.sum, &bfloat16_.max}) MPI_Op_free(op);
    MPI_Comm_free(&comm_);
  }

  unsigned rank() const { return static_cast<unsigned>(rank_); }
  unsigned size() const { return static_cast<unsigned>(size_); }

  template <host_executor E>
  mpi_request all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    detail::require(all.size() == mine.size() * size(), "mpi: all_gather needs room for ", mine.size() * size(),
                    " bytes, got ", all.size());
    auto const n = detail::mpi_count(mine.size(), "all_gather");
    auto request = begin(exec);
    detail::check_mpi(MPI_Iallgather(mine.data(), n, MPI_BYTE, all.data(), n, MPI_BYTE, comm_, &request),
                      "MPI_Iallgather");
    return mpi_request(request);
  }

  template <host_executor E>
  mpi_request all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    detail::require(all.size() == mine.size() && mine.size() % size() == 0, "mpi: all_to_all needs room for ",
                    mine.size(), " bytes in ", size(), " equal pieces, got ", all.size());
    auto const n = detail::mpi_count(mine.size() / size(), "all_to_all");
    auto request = begin(exec);
    detail::check_mpi(MPI_Ialltoall(mine.data(), n, MPI_BYTE, all.data(), n, MPI_BYTE, comm_, &request),
                      "MPI_Ialltoall");
    return mpi_request(request);
  }

  template <host_executor E, class T>
  mpi_request all_reduce(E const& exec, span<T, host_space> x, reduction how) {
    auto const n = detail::mpi_count(x.size(), "all_reduce");
    auto request = begin(exec);
    detail::check_mpi(
        MPI_Iallreduce(MPI_IN_PLACE, x.data(), n, detail::mpi_type<T>(), operation<T>(how), comm_, &request),
        "MPI_Iallreduce");
    return mpi_request(request);
  }

  template <host_executor E>
  mpi_request broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    auto const n = detail::mpi_count(x.size(), "broadcast");
    auto request = begin(exec);
    detail::check_mpi(MPI_Ibcast(x.data(), n, MPI_BYTE, static_cast<int>(root), comm_, &request), "MPI_Ibcast");
    return mpi_request(request);
  }

 private:
  /// MPI reads host memory at once, so what the executor was asked for must be done.
  template <class E>
  static MPI_Request begin(E const& exec) {
    exec.wait();
    return MPI_REQUEST_NULL;
  }

  struct operations {
    MPI_Op sum = MPI_SUM, max = MPI_MAX;
  };
  template <class T>
  static void narrow(operations& ops) {
    detail::check_mpi(MPI_Op_create(&detail::reduce_narrow<T, reduction::sum>, 1, &ops.sum), "MPI_Op_create");
    detail::check_mpi(MPI_Op_create(&detail::reduce_narrow<T, reduction::max>, 1, &ops.max), "MPI_Op_create");
  }
  template <class T>
  MPI_Op operation(reduction how) const {
    auto const ops = std::same_as<T, half> ? half_ : std::same_as<T, bfloat16> ? bfloat16_ : operations();
    return how == reduction::sum ? ops.sum : ops.max;
  }

  operations half_, bfloat16_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 0;
};

static_assert(exchanges<mpi_communicator, detail::archetype> && exchanges_pieces<mpi_communicator, detail::archetype>);

}  // namespace pith::inline v0
