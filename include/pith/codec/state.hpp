// pith/codec/state.hpp — the states of codecs: replicated state, which is equal on all ranks, and rank-local state.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/core/draws.hpp>
#include <pith/core/element.hpp>
#include <pith/core/shape.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// The kind of a state's field. The kind determines how the field is converted when the number of ranks changes.
enum class field_kind : std::uint8_t {
  replicated,  ///< equal on all ranks
  mean,        ///< equal on all ranks; the mean of all ranks' `estimate` fields
  share,       ///< rank-local; only the mean over the ranks matters, e.g. a residual or a momentum
  estimate,    ///< as share; a field of kind `mean` holds the mean of these fields over the ranks
  part,        ///< rank-local; belongs to the part of the tensor that the rank sums
  learned,     ///< rank-local, but a valid initial state for any rank, e.g. gradient statistics
  fixed,       ///< rank-local; has no meaning for a different number of ranks
};

/// The description of a field: its kind, element type and number of elements. Ranks r with equal r % places hold the
/// same elements of the tensor. For a field of kind `part`, the index of the first element of each rank's part is a
/// multiple of `granule`.
struct field_form {
  field_kind kind = field_kind::replicated;
  std::string_view element;
  std::uint64_t count = 0;
  unsigned places = 1;
  std::uint64_t granule = 0;
  bool is_of_gradients = false;  ///< set for replicated fields in the unit of the gradients; not part of a saved state

  /// True if the field is equal on all ranks.
  bool is_replicated() const { return kind == field_kind::replicated || kind == field_kind::mean; }
  friend bool operator==(field_form const&, field_form const&) = default;
};

/// Visits the buffers of a state one by one, for example to save, load or describe them.
class field_visitor {
 public:
  /// Visits a field of the default kind. In replicated state, the default is `replicated`. In rank-local state, the
  /// default is `share` for floating-point elements, and `learned` for other elements.
  template <class T, class E>
  void operator()(buffer<T, E>& field) {
    (*this)(field, !is_local_ ? field_kind::replicated : real<T> ? field_kind::share : field_kind::learned);
  }
  template <class T, class E>
  void operator()(buffer<T, E>& field, field_kind kind) {
    describe(form_of<T>(field.size(), kind));
    visit(field.data(), field.size_bytes());
  }

  /// Visits a replicated field in the unit of the gradients, such as a residual.
  template <class T, class E>
  void of_gradients(buffer<T, E>& field) {
    auto form = form_of<T>(field.size(), field_kind::replicated);
    form.is_of_gradients = true;
    describe(form);
    visit(field.data(), field.size_bytes());
  }

  /// Visits a rank-local state.
  void local(auto& state) { inside(state, true, places_, part_, granule_); }
  /// Visits a state that holds only some elements of the tensor. Ranks r with equal r % places hold the same elements.
  void of_place(auto& state, unsigned places) { inside(state, is_local_, places_ * places, part_, granule_); }
  /// Visits the state of a codec that encodes only this rank's part of a tensor with n elements. Parts begin at
  /// multiples of `granule`.
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

namespace detail {

/// A movable state that passes its buffers to a visitor, always in the same order.
template <class S>
concept codec_state_part = std::movable<S> && requires(S& state, field_visitor& f) {
  state.fields(f);
};

}  // namespace detail

struct no_state {
  void fields(field_visitor&) {}
};

namespace detail {

template <class T>
concept stateless = std::same_as<std::remove_const_t<T>, no_state>;

struct replicated_part {};
struct local_part {};

/// A state that consists of several states, for example those of a chain's stages. `Part` is replicated_part or
/// local_part.
template <class Part, class... State>
struct states {
  std::tuple<State...> each;

  void fields(field_visitor& f) {
    std::apply([&f](auto&... state) { (state.fields(f), ...); }, each);
  }
};

inline no_state nothing{};

template <class S, class In, class E>
concept has_replicated = requires(S const& s, E const& exec, encoding_id const& id, shape const& dims) {
  s.template make_replicated<In>(exec, id, dims);
};
template <class S, class In, class E>
concept has_local = requires(S const& s, E const& exec, shape const& dims) {
  s.template make_local<In>(exec, dims);
};

}  // namespace detail

/// Creates the replicated state of `s`, for example a basis, which is equal on all ranks. Returns no_state if `s` has
/// no make_replicated.
template <class In, class S, executor E>
auto make_replicated(E const& exec, S const& s, encoding_id const& id, shape const& dims) {
  if constexpr (detail::has_replicated<S, In, E>) {
    return s.template make_replicated<In>(exec, id, dims);
  } else {
    return no_state{};
  }
}

/// Creates the rank-local state of `s`, for example a residual. Returns no_state if `s` has no make_local.
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
                                                   std::declval<encoding_id const&>(), shape{}));
template <class S, class In, class E>
using local_of = decltype(make_local<In>(std::declval<E const&>(), std::declval<S const&>(), shape{}));

}}  // namespace pith::PITH_ABI
