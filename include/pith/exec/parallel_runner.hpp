// pith/exec/parallel_runner.hpp — the concept of a runner, which runs chunks of work on several threads.
#pragma once

#include <pith/config.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The type of a function object that is called with the number of a chunk. Pass a plain function as a pointer.
template <class F>
concept chunk_function = std::is_object_v<F> && std::invocable<F const&, std::uint64_t>;

struct any_chunk {
  void operator()(std::uint64_t) const {}
};

static_assert(chunk_function<any_chunk>);

}  // namespace detail

/// run(count, f) calls f(i) once for each i < count, on any threads and in any order. run returns after all calls have
/// returned. If f throws, run must throw the same exception.
///
///   auto const run = [](std::uint64_t count, auto const& f) { tbb::parallel_for(std::uint64_t{0}, count, f); };
template <class R>
concept parallel_runner = requires(R& run, std::uint64_t count, detail::any_chunk const& f) {
  run(count, f);
};

namespace detail {

/// The number of a runner's threads; 0 if the runner has no function threads().
template <class R>
unsigned reported_threads(R const& runner) {
  if constexpr (requires { runner.threads(); }) return static_cast<unsigned>(runner.threads());
  return 0;
}

}  // namespace detail
}}  // namespace pith::PITH_ABI
