// pith/exec/parallel_runner.hpp — runners, which run chunks of work on several threads.
#pragma once

#include <pith/config.hpp>
#include <pith/core/facets.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
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

struct runner_members {
  int threads;
};
template <class R>
concept reports_threads = requires(R const& r) {
  { r.threads() } -> std::convertible_to<unsigned>;
};
template <class C>
struct runner_check {
  PITH_CHECK_MEMBER("runner", runner_members, threads, reports_threads<C>, "unsigned threads() const");
};

/// The number of a runner's threads; 0 if the runner has no function threads().
template <class R>
unsigned reported_threads(R const& runner) {
  if constexpr (std::is_class_v<R>) static_cast<void>(runner_check<R>());  // a runner may be a pointer to a function
  if constexpr (reports_threads<R>) return static_cast<unsigned>(runner.threads());
  return 0;
}

}  // namespace detail

/// A reference to a runner of any type.
///
///   requires    the runner outlives this object
///   complexity  one indirect call per run, and one per chunk. Nothing is allocated
class any_runner {
  /// A reference to a chunk function of any type, which is valid during a run.
  struct chunk {
    void const* f;
    void (*call)(void const*, std::uint64_t);
    void operator()(std::uint64_t i) const { call(f, i); }
  };

 public:
  template <parallel_runner R>
    requires(!std::same_as<R const, any_runner const>)
  explicit any_runner(R& runner)
      : runner_(const_cast<void*>(static_cast<void const*>(std::addressof(runner)))),
        threads_(detail::reported_threads(runner)),
        run_([](void* r, std::uint64_t count, chunk const& f) { (*static_cast<R*>(r))(count, f); }) {}

  unsigned threads() const { return threads_; }

  template <class F>
  void operator()(std::uint64_t count, F const& f) const {
    run_(runner_, count, {&f, [](void const* g, std::uint64_t i) { (*static_cast<F const*>(g))(i); }});
  }

 private:
  void* runner_;
  unsigned threads_;
  void (*run_)(void*, std::uint64_t, chunk const&);
};

static_assert(parallel_runner<any_runner>);

}}  // namespace pith::PITH_ABI
