// pith/codec/state.hpp — what codecs remember: parts that agree on all ranks and parts that are a rank's own.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/core/call.hpp>
#include <pith/core/element.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace pith::inline v0 {

/// What a field of a state is to the ranks of a job, and so what it becomes with another number of ranks.
enum class field_kind : std::uint8_t {
  replicated,  ///< equal on all ranks
  mean,        ///< equal on all ranks: the mean of their `estimate`
  share,       ///< a rank's own, whose mean over the ranks counts: a residual, a momentum
  estimate,    ///< the same, with a `mean`
  part,        ///< a rank's own, of the part of the tensor that it adds up
  learned,     ///< a rank's own, which any rank may begin with: statistics of gradients
  fixed,       ///< a rank's own, without a meaning for another number of ranks
};

/// A field in words: its kind, and `count` elements. With places, ranks r of equal r % places have a field of the same
/// elements. Parts begin at multiples of the granule.
struct field_form {
  field_kind kind = field_kind::replicated;
  std::string_view element;
  std::uint64_t count = 0;
  unsigned places = 1;
  std::uint64_t granule = 0;
};

/// Sees the buffers of a state one after another: to count, save, load, copy, digest or describe them.
class field_visitor {
 public:
  /// Of an agreed state; of a local one a share if its elements are numbers, else learned.
  template <class T, class E>
  void operator()(buffer<T, E>& field) {
    (*this)(field, !is_local_ ? field_kind::replicated : real<T> ? field_kind::share : field_kind::learned);
  }
  template <class T, class E>
  void operator()(buffer<T, E>& field, field_kind kind) {
    describe(form_of<T>(field.size(), kind));
    visit(field.data(), field.size_bytes());
  }

  /// A state that is a rank's own.
  void local(auto& state) { inside(state, true, places_, part_, granule_); }
  /// ... which ranks have once for each of so many places.
  void of_place(auto& state, unsigned places) { inside(state, is_local_, places_ * places, part_, granule_); }
  /// ... of a codec for all n elements; a rank has one part of them.
  void of_part(auto& state, std::uint64_t n, std::uint64_t granule) { inside(state, is_local_, places_, n, granule); }

  virtual void describe(field_form const&) {}
  virtual void visit(void* data, std::size_t bytes) = 0;

 protected:
  ~field_visitor() = default;

 private:
  void inside(auto& state, bool is_local, unsigned places, std::uint64_t part, std::uint64_t granule) {
    auto const outside = std::tuple(is_local_, places_, part_, granule_);
    std::tie(is_local_, places_, part_, granule_) = std::tuple(is_local, places, part, granule);
    state.fields(*this);
    std::tie(is_local_, places_, part_, granule_) = outside;
  }
  template <class T>
  field_form form_of(std::uint64_t count, field_kind kind) const {
    if (granule_ > 0 && (kind == field_kind::share || kind == field_kind::estimate))
      kind = count == part_ || count == 0 ? field_kind::part : field_kind::fixed;
    auto const granule = kind == field_kind::part ? granule_ : 0;
    if constexpr (real<T>) return {kind, element_name<T>(), count, places_, granule};
    if constexpr (std::same_as<T, std::uint32_t>) return {kind, "uint32", count, places_, granule};
    if constexpr (std::same_as<T, std::uint64_t>) return {kind, "uint64", count, places_, granule};
    return {kind, "byte", count * sizeof(T), places_, granule};
  }

  bool is_local_ = false;
  unsigned places_ = 1;
  std::uint64_t part_ = 0, granule_ = 0;
};

/// A state shows its buffers, always in the same order, and can be moved.
template <class S>
concept codec_state_part = std::movable<S> && requires(S& state, field_visitor& f) {
  state.fields(f);
};

/// The state of a stage that has none.
struct no_state {
  void fields(field_visitor&) {}
};

namespace detail {

template <class T>
concept stateless = std::same_as<std::remove_const_t<T>, no_state>;

struct replicated_part {};
struct local_part {};

/// The states of the parts that a codec is made of.
template <class Part, class... State>
struct states {
  std::tuple<State...> each;

  void fields(field_visitor& f) {
    std::apply([&f](auto&... state) { (state.fields(f), ...); }, each);
  }
};

inline no_state nothing{};

/// Refuses states that were made for another codec, where that is known at run time only.
template <class C>
void require_states(C const& codec, auto const& replicated, auto const& local) {
  if constexpr (requires { codec.require_states(replicated, local); }) codec.require_states(replicated, local);
}

/// The argument of type `T`, or nothing.
template <class T, class First, class... Rest>
constexpr auto& pick(First& first, Rest&... rest) {
  if constexpr (std::same_as<std::remove_const_t<First>, T>) {
    return first;
  } else if constexpr (sizeof...(Rest) > 0) {
    return pick<T>(rest...);
  } else {
    return nothing;
  }
}

template <class S, class In, class E>
concept has_replicated = requires(S const& s, E const& exec, call const& id, shape const& dims) {
  s.template make_replicated<In>(exec, id, dims);
};
template <class S, class In, class E>
concept has_local = requires(S const& s, E const& exec, shape const& dims) {
  s.template make_local<In>(exec, dims);
};

}  // namespace detail

/// State that is equal on all ranks: a basis, a warm start. `no_state` if the stage declares no make_replicated.
template <class In, class S, executor E>
auto make_replicated(E const& exec, S const& s, call const& id, shape const& dims) {
  if constexpr (detail::has_replicated<S, In, E>) {
    return s.template make_replicated<In>(exec, id, dims);
  } else {
    return no_state{};
  }
}

/// State that is a rank's own: a residual, momentum, samples. `no_state` if the stage declares no make_local.
template <class In, class S, executor E>
auto make_local(E const& exec, S const& s, shape const& dims) {
  if constexpr (detail::has_local<S, In, E>) {
    return s.template make_local<In>(exec, dims);
  } else {
    return no_state{};
  }
}

template <class S, class In, class E>
using replicated_of = decltype(make_replicated<In>(std::declval<E const&>(), std::declval<S const&>(),
                                                   std::declval<call const&>(), shape{}));
template <class S, class In, class E>
using local_of = decltype(make_local<In>(std::declval<E const&>(), std::declval<S const&>(), shape{}));

}  // namespace pith::inline v0
