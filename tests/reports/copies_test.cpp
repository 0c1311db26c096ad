// tests/reports/copies_test.cpp — copies and moves of wrappers whose constructors take arguments of any type, from
// constant, non-constant and temporary objects. Such a constructor also accepts a non-constant object of the wrapper.
// A report of this kind is jbcoe/value_types#159.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/damped.hpp>
#include <pith/adaptor/rated.hpp>
#include <pith/codec/any_chain.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/codec/compressor.hpp>
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/ring.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/any_communicator.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exec/par.hpp>
#include <pith/exec/parallel_runner.hpp>
#include <pith/feedback.hpp>
#include <pith/feedback/any_feedback.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using pith::seq;

/// A communicator that can be moved but not copied.
struct owning_communicator : pith::self_communicator {
  owning_communicator() = default;
  owning_communicator(owning_communicator&&) = default;
};

template <class T>
constexpr bool copies = std::is_constructible_v<T, T&>&& std::is_constructible_v<T, T const&>&&
    std::is_constructible_v<T, T&&>&& std::is_constructible_v<T, T const>;
template <class T>
constexpr bool only_moves = std::is_constructible_v<T, T&&> && !std::is_constructible_v<T, T&> &&
                            !std::is_constructible_v<T, T const&> && !std::is_constructible_v<T, T const>;

using float_codec = pith::any_codec<float>;
using threads = pith::thread_communicator;

static_assert(copies<pith::pairwise<threads>> && copies<pith::reproducible_sums<threads>>);
static_assert(copies<pith::pairwise<pith::reproducible_sums<threads>>>);
static_assert(copies<pith::reproducible_sums<pith::pairwise<threads>>>);
static_assert(only_moves<pith::pairwise<owning_communicator>>);
static_assert(only_moves<pith::reproducible_sums<owning_communicator>>);
static_assert(only_moves<pith::any_communicator>);
static_assert(copies<float_codec> && copies<pith::any_chain<float, pith::seq_executor>> &&
              copies<pith::any_stage<float, pith::seq_executor>>);
static_assert(copies<pith::any_feedback<float, pith::seq_executor>> && copies<pith::any_runner>);
static_assert(copies<pith::par_executor<pith::thread_pool>> && copies<pith::bypass<float_codec>>);
static_assert(copies<decltype(pith::top_k(0.1) | pith::qsgd<8>())> && copies<pith::damped<pith::qsgd<8>>>);
static_assert(copies<decltype(pith::error_feedback(pith::top_k(0.1)))> && copies<pith::rated<pith::top_k<>>>);
static_assert(copies<pith::ring<pith::qsgd<8>>> && copies<pith::two_shot<pith::qsgd<8>>>);
static_assert(copies<pith::hierarchical<pith::qsgd<8>, float_codec>> && copies<pith::two_sided<pith::qsgd<8>>>);
static_assert(only_moves<pith::compressor<float>>);

/// Checks that a copy has the type and the name of the original.
template <class T>
void check_deduced(T original) {
  auto const constant = original;
  static_assert(std::same_as<decltype(original), std::remove_const_t<decltype(constant)>>);
  CHECK(original.name() == constant.name());
}

template <class Comm>
std::vector<std::int32_t> sum_of(Comm& comm, std::size_t n) {
  auto x = std::vector<std::int32_t>(n, 1);
  comm.all_reduce(seq, pith::span(x), pith::reduction::sum).wait(seq);
  return x;
}

}  // namespace

TEST_CASE("a copy of an adapted communicator makes the same calls as the original") {
  pith::run_ranks(3, [](threads comm) {
    auto sums = pith::reproducible_sums<threads>(comm);
    auto copy = pith::reproducible_sums<threads>(sums);
    auto moved = pith::reproducible_sums<threads>(std::move(copy));
    CHECK(sum_of(sums, 5) == std::vector<std::int32_t>(5, 3));
    CHECK(sum_of(moved, 5) == std::vector<std::int32_t>(5, 3));
    auto swaps = pith::pairwise<threads>(comm);
    pith::pairwise<threads> swapped(swaps);
    auto mine = std::vector<std::byte>(2, std::byte(comm.rank())), all = std::vector<std::byte>(6);
    swapped.all_gather(seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all)).wait(seq);
    CHECK(all[5] == std::byte{2});
  });
}

TEST_CASE("a copy of a wrapper wraps the same codec and not the wrapper") {
  check_deduced(pith::ring(pith::qsgd<8>()));
  check_deduced(pith::two_shot(pith::qsgd<8>()));
  check_deduced(pith::damped(pith::qsgd<8>()));
  check_deduced(pith::rated(pith::top_k(0.1)));
  check_deduced(float_codec(pith::top_k(0.1)));
  check_deduced(pith::any_feedback<float, pith::seq_executor>(pith::residual()));
  auto const codec = pith::bypass(float_codec(pith::top_k(0.1)), 64);
  CHECK(pith::bypass(codec).name() == codec.name());
}
