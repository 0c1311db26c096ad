// pith/exec/any_runner.hpp — a type-erased runner, so that code can be compiled once for all runners.
#pragma once

#include <pith/exec/parallel_runner.hpp>

#include <concepts>
#include <cstdint>
#include <memory>

namespace pith { inline namespace PITH_ABI {

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
