// pith/comm/reproducible_sums.hpp — a communicator whose sums are added in the order of the ranks.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/comm/lent.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace pith::inline v0 {

namespace detail {

/// values[i] = that of all ranks' pieces of n values, in the order of the ranks.
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

/// `Comm`, made of the same arguments, but for its sums: of each part of a tensor one rank adds up the pieces of all, in
/// the order of the ranks, and sends the sum to all. So the bits do not depend on the transport, on its version and
/// settings, or on where in a tensor an element lies: they are those of thread_communicator.
///
///   auto comm = pith::reproducible_sums<pith::mpi_communicator>(MPI_COMM_WORLD);
///
///   needs    host memory; a communicator with all_to_all_v and all_gather_v
///   keeps    room for the parts that this rank adds up, of as many sums as are under way
///   cost     2 (N - 1) / N of the bytes through each rank. all_reduce returns once this rank's part is added up, so
///            ranks call all of their communicators in one order
template <class Comm>
class reproducible_sums {
 public:
  template <class... Arguments>
  explicit reproducible_sums(Arguments&&... arguments) : comm_(std::forward<Arguments>(arguments)...) {}

  unsigned rank() const { return comm_.rank(); }
  unsigned size() const { return comm_.size(); }

  template <executor E>
  auto all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    return comm_.all_gather(exec, mine, all);
  }
  template <executor E>
  auto all_gather_v(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all,
                    span<std::size_t const> sizes) {
    return comm_.all_gather_v(exec, mine, all, sizes);
  }
  template <executor E>
  auto all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    return comm_.all_to_all(exec, mine, all);
  }
  template <executor E>
  auto all_to_all_v(E const& exec, span_on<E, std::byte const> mine, span<std::size_t const> sizes_to,
                    span_on<E, std::byte> all, span<std::size_t const> sizes_from) {
    return comm_.all_to_all_v(exec, mine, sizes_to, all, sizes_from);
  }
  template <executor E>
  auto send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                 unsigned from) {
    return comm_.send_recv(exec, mine, to, theirs, from);
  }
  template <executor E>
  auto broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    return comm_.broadcast(exec, x, root);
  }
  reproducible_sums split(unsigned color) { return reproducible_sums(part_of{}, comm_, color); }

  template <host_executor E, class T>
  auto all_reduce(E const& exec, span<T, host_space> x, reduction how) {
    auto const begin = [&](std::size_t r) { return r * x.size() / size(); };
    for (unsigned r = 0; r < size(); ++r) sizes_[r] = (begin(r + 1) - begin(r)) * sizeof(T);
    auto sum = add_up<T>(exec, bytes_of(x), how);
    auto const mine = span<std::byte const>(sum.data(), sizes_[rank()]);
    auto gathered = comm_.all_gather_v(exec, mine, bytes_of(x), span<std::size_t const>(sizes_));
    return request<decltype(gathered)>{*this, std::move(sum), std::move(gathered)};
  }

  template <host_executor E, class T>
  completed reduce_scatter(E const& exec, span<std::type_identity_t<T> const, host_space> mine,
                           span<T, host_space> part, reduction how) {
    std::fill(sizes_.begin(), sizes_.end(), part.size() * sizeof(T));
    auto sum = add_up<T>(exec, bytes_of(mine), how);
    exec.copy(reinterpret_cast<std::byte*>(part.data()), sum.data(), part.size_bytes());
    idle_.push_back(std::move(sum));
    return {};
  }

 private:
  struct part_of {};
  reproducible_sums(part_of, Comm& whole, unsigned color) : comm_(whole.split(color)) {}

  /// An all-gather of the sums. The request owns the memory of the sums, which stays where it does not end.
  template <class R>
  class request {
   public:
    request(reproducible_sums& whose, std::vector<std::byte> sum, R gathered)
        : whose_(&whose), sum_(std::move(sum)), gathered_(std::move(gathered)) {}
    request(request&&) noexcept = default;
    request& operator=(request&&) = delete;
    ~request() {
      gathered_.reset();
      if (sum_.capacity() == 0) return;
      if (has_ended_) {
        whose_->idle_.push_back(std::move(sum_));
      } else {
        detail::keep(std::make_shared<std::vector<std::byte>>(std::move(sum_)));
      }
    }

    template <class E>
    void wait(E const& exec) {
      gathered_->wait(exec);
      has_ended_ = true;
    }
    template <class E>
    bool test(E const& exec) {
      return has_ended_ = gathered_->test(exec);
    }

   private:
    reproducible_sums* whose_;
    std::vector<std::byte> sum_;
    std::optional<R> gathered_;
    bool has_ended_ = false;
  };

  template <class T>
  static auto bytes_of(span<T> x) {
    using byte = std::conditional_t<std::is_const_v<T>, std::byte const, std::byte>;
    return span<byte>(reinterpret_cast<byte*>(x.data()), x.size_bytes());
  }

  /// What this rank adds up of pieces of sizes_, at the beginning of memory that request or caller gives back.
  template <class T, class E>
  std::vector<std::byte> add_up(E const& exec, span<std::byte const> x, reduction how) {
    auto const piece = sizes_[rank()];
    auto came = detail::lent(take(piece * size()));
    std::fill(from_.begin(), from_.end(), piece);
    came.wait(exec, [&] {
      return comm_.all_to_all_v(exec, x, span<std::size_t const>(sizes_), span<std::byte>(*came),
                                span<std::size_t const>(from_));
    });
    auto const n = piece / sizeof(T);
    exec.for_each_index(n, detail::reduce_pieces<T>{reinterpret_cast<T*>((*came).data()), n, size(), how});
    return std::move(*came);
  }
  std::vector<std::byte> take(std::size_t bytes) {
    auto memory = std::vector<std::byte>();
    if (!idle_.empty()) memory = std::move(idle_.back()), idle_.pop_back();
    memory.resize(bytes);
    return memory;
  }

  Comm comm_;
  std::vector<std::size_t> sizes_ = std::vector<std::size_t>(comm_.size()), from_ = sizes_;
  std::vector<std::vector<std::byte>> idle_;
};

}  // namespace pith::inline v0
