// pith/comm/reproducible_sums.hpp — a communicator that adds the ranks' values in rank order.
#pragma once

#include <pith/comm/detail/adaptor.hpp>
#include <pith/comm/detail/arguments.hpp>
#include <pith/comm/detail/lent.hpp>
#include <pith/core/error.hpp>
#include <pith/exec/seq.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Sets values[i] to the sum or the maximum of values[r n + i] over the ranks r, in rank order.
template <class T>
struct reduce_pieces {
  using A = std::conditional_t<std::floating_point<T> || std::integral<T>, T, float>;

  T* values;
  std::size_t n;
  unsigned ranks;
  reduction how;

  void operator()(std::uint64_t i) const {
    auto total = element(i);
    for (unsigned r = 1; r < ranks; ++r) {
      auto const more = element(r * n + i);
      total = how == reduction::sum ? static_cast<A>(total + more) : std::max(total, more);
    }
    values[i] = T(total);
  }

 private:
  A element(std::size_t i) const { return static_cast<A>(values[i]); }
};

}  // namespace detail

/// Adapts a `Comm` so that its reductions are reproducible. The constructor has the parameters of `Comm`'s constructor.
/// Each rank adds all ranks' values of one part of the tensor, in rank order. An all-gather then sends the sums to all
/// ranks. So the result does not depend on the transport, the transport's version and settings, or an element's
/// position in the tensor. The result is bitwise equal to that of `thread_communicator`.
///
///   auto comm = pith::reproducible_sums<pith::mpi_communicator>(MPI_COMM_WORLD);
///
///   requires    host memory; a communicator with all_to_all and all_gather; one thread at a time; all requests must
///               end before the destructor
///   state       two copies of each tensor with a pending reduction
///   complexity  each of the N ranks sends and receives 2 (N - 1) / N times the bytes of the tensor, and copies the
///               tensor three times. all_reduce blocks until this rank has added its part. So all ranks must make the
///               calls of all their communicators in the same order. Memory is reused, so repeated equal calls allocate
///               only in the first call
///   errors      the errors of Comm. The memory of a call that throws is never freed
///   owns        the Comm
template <class Comm>
class reproducible_sums : public detail::communicator_adaptor<Comm> {
  using base = detail::communicator_adaptor<Comm>;

 public:
  using base::rank;
  using base::size;

  template <class... Arguments>
    requires(detail::constructs<reproducible_sums, Arguments...>)
  explicit reproducible_sums(Arguments&&... arguments) : base(std::forward<Arguments>(arguments)...) {}
  /// A copy has a copy of the Comm, and its own memory.
  reproducible_sums(reproducible_sums const& other) requires std::copy_constructible<Comm> : base(other) {}
  reproducible_sums(reproducible_sums&&) = default;
  reproducible_sums& operator=(reproducible_sums&&) = default;

  pith::optional_calls optional_calls() const requires detail::has_optional_calls<Comm> {
    auto calls = base::optional_calls();
    calls.reduce_scatter = true;
    return calls;
  }
  reproducible_sums split(unsigned color) requires detail::has_split<Comm> {
    return reproducible_sums(part_of{}, comm_, color);
  }

  template <detail::host_executor E, class T>
  auto all_reduce(E const& exec, span<T, host_space> x, reduction how) {
    auto const part = (x.size() + size() - 1) / size() * sizeof(T);
    auto memory = detail::lent(take(part * size()));
    auto& pieces = (*memory)->pieces;
    auto& sums = (*memory)->sums;
    exec.copy(sums.data(), x.data(), x.size_bytes());
    exec.fill(sums.data() + x.size_bytes(), std::byte{}, sums.size() - x.size_bytes());
    add_up<T>(exec, sums, memory, how);
    auto gathered = memory.start(
        [&] { return comm_.all_gather(exec, span<std::byte const>(pieces.data(), part), span<std::byte>(sums)); });
    return request<decltype(gathered)>(*this, bytes_of(x), std::move(*memory), std::move(gathered));
  }

  template <detail::host_executor E, class T>
  completed reduce_scatter(E const& exec, span<std::type_identity_t<T> const, host_space> mine,
                           span<T, host_space> part, reduction how) {
    detail::collective_arguments{"reproducible_sums", rank(), size()}.reduce_scatter(mine.size(), part.size());
    auto memory = detail::lent(take(mine.size_bytes()));
    add_up<T>(exec, bytes_of(mine), memory, how);
    exec.copy(part.data(), (*memory)->pieces.data(), part.size_bytes());
    idle_.push_back(std::move(*memory));
    return {};
  }

 private:
  using base::comm_;
  using typename base::part_of;

  reproducible_sums(part_of part, Comm& whole, unsigned color) : base(part, whole, color) {}

  /// The memory of one reduction. Both buffers have the size of the tensor, padded so that every rank sums an equal
  /// part. `pieces` receives all ranks' values of this rank's part; `sums` receives the sums of all parts.
  struct parts {
    std::vector<std::byte> pieces, sums;
  };

  /// The request of the all-gather that sends the sums of all parts. After the all-gather, copies the sums to the
  /// tensor.
  template <class R>
  class request {
   public:
    request(reproducible_sums& owner, span<std::byte> x, std::unique_ptr<parts> memory, R gathered)
        : owner_(&owner), x_(x), memory_(std::move(memory)), gathered_(std::move(gathered)) {}
    request(request&&) noexcept = default;
    request& operator=(request&&) = delete;
    ~request() {
      try {
        if (memory_) wait(seq_executor());
      } catch (...) {  // after a communication_error, the communicator's next call throws again
      }
    }

    template <class E>
    void wait(E const& exec) {
      if (memory_) finish([&] { return gathered_.wait(exec), true; });
    }
    template <class E>
    bool test(E const& exec) {
      return !memory_ || finish([&] { return gathered_.test(exec); });
    }

   private:
    /// If a transfer throws, its memory is never freed, since MPI may write to this memory until the program ends.
    template <class F>
    bool finish(F const& is_done) try {
      if (!is_done()) return false;
      if (!x_.empty()) std::memcpy(x_.data(), memory_->sums.data(), x_.size());
      owner_->idle_.push_back(std::move(memory_));
      return true;
    } catch (...) {
      detail::keep(memory_.release());
      throw;
    }

    reproducible_sums* owner_;
    span<std::byte> x_;
    std::unique_ptr<parts> memory_;
    R gathered_;
  };

  template <class T>
  static auto bytes_of(span<T> x) {
    using byte = std::conditional_t<std::is_const_v<T>, std::byte const, std::byte>;
    return span<byte>(reinterpret_cast<byte*>(x.data()), x.size_bytes());
  }

  /// Adds all ranks' values of this rank's part, and writes the sums to the start of `memory->pieces`.
  template <class T, class E>
  void add_up(E const& exec, span<std::byte const> x, detail::lent<std::unique_ptr<parts>>& memory, reduction how) {
    static_assert(calls_of<Comm, E>.all_to_all,
                  "pith: reproducible_sums<Comm> needs a Comm with all_to_all(exec, span<std::byte const>, "
                  "span<std::byte>)");
    auto& pieces = (*memory)->pieces;
    memory.wait(exec, [&] { return comm_.all_to_all(exec, x, span<std::byte>(pieces)); });
    auto const n = pieces.size() / size() / sizeof(T);
    exec.for_each_index(n, detail::reduce_pieces<T>{reinterpret_cast<T*>(pieces.data()), n, size(), how});
  }
  std::unique_ptr<parts> take(std::size_t bytes) {
    if (idle_.empty()) idle_.push_back(std::make_unique<parts>());
    auto memory = std::move(idle_.back());
    idle_.pop_back();
    memory->pieces.resize(bytes);
    memory->sums.resize(bytes);
    return memory;
  }

  std::vector<std::unique_ptr<parts>> idle_;
};

}}  // namespace pith::PITH_ABI
