// pith/codec/detail/feedback_places.hpp — the feedback states of a codec, which are kept when a tensor's codec changes.
#pragma once

#include <pith/codec/state.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/executor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The elements that a codec encodes on this rank. Outside collectives, they are the whole tensor. Inside a collective,
/// they may be a part of the tensor. An error e of these elements changes the mean over the ranks as much as an error
/// weight x e of this rank's gradient.
struct feedback_scope {
  std::uint64_t first = 0, n = 0;  ///< the elements first .. first + n - 1. A part may extend beyond the tensor
  double weight = 1;
  unsigned rank = 0, ranks = 0;  ///< this rank's number among the ranks that exchange the elements; or 0 ranks, if no
                                 ///< other rank has these elements or there is no exchange
  unsigned depth = 0;            ///< the number of collectives around the codec

  friend bool operator==(feedback_scope const&, feedback_scope const&) = default;

  /// Returns part `index` of `parts` parts with `size` elements each. Only this rank, or one rank per node, encodes the
  /// part.
  feedback_scope part(unsigned index, unsigned parts, std::uint64_t size) const {
    return {first + index * size, size, weight * parts, 0, 0, depth + 1};
  }
};

/// Collects the fields of states.
struct field_list final : field_visitor {
  struct field {
    field_form form;
    void* data;
    std::size_t bytes;
  };

  void describe(field_form const& f) override { all.push_back({f, nullptr, 0}); }
  void visit(void* data, std::size_t bytes) override { all.back().data = data, all.back().bytes = bytes; }

  std::vector<field> all;
};

/// The elements of a residual, which have type A, or bfloat16.
template <class A>
class residual_view {
 public:
  residual_view() = default;
  template <executor E>
  residual_view(buffer<A, E>& e) : wide_(e.data()), size_(e.size()) {}
  template <executor E>
  residual_view(buffer<bfloat16, E>& e) : narrow_(e.data()), size_(e.size()) {}

  bool is_null() const { return wide_ == nullptr && narrow_ == nullptr; }
  std::uint64_t size() const { return size_; }
  /// Calls f with a pointer to the first element.
  template <class F>
  void with_data(F const& f) const {
    if (narrow_ != nullptr) return f(narrow_);
    f(wide_);
  }

 private:
  A* wide_ = nullptr;
  bfloat16* narrow_ = nullptr;
  std::uint64_t size_ = 0;
};

/// One feedback policy of a codec, with references to its states for one tensor. A codec has several places if its
/// collectives contain feedback policies.
template <class A>
struct feedback_place {
  feedback_scope at;
  std::string policy;                     ///< equal for policies whose states are interchangeable
  std::vector<field_list::field> fields;  ///< all states of the policy
  residual_view<A> residual = {};         ///< the rank-local or replicated residual; null without one
  double weight = 1;                      ///< a residual e counts as weight x e of the rank's gradient
  bool is_local = true;                   ///< whether the residual differs between ranks
  bool is_known = true;                   ///< whether the states contain undelivered gradients only in `residual`
  bool is_negligible = false;             ///< whether the residual may be lost
  bool is_used = true;  ///< whether an exchange uses the policy; otherwise no residual moves to this place
  bool adds_up = true;  ///< whether the policy delivers a residual that is added to its gradient exactly once

  /// The end of the error message if the place is lost.
  char const* advice() const {
    return is_known ? ": let a step with identity() deliver the residual first"
                    : ": declare the facet kept_residual or no_debt in the policy";
  }
  bool has_states() const {
    return std::any_of(fields.begin(), fields.end(), [](auto const& f) { return f.bytes > 0; });
  }
  /// Whether the states of this place are valid states of the place `other`.
  bool is_like(feedback_place const& other) const {
    auto const alike = [](auto const& f, auto const& g) { return f.form == g.form; };
    return at == other.at && policy == other.policy &&
           std::equal(fields.begin(), fields.end(), other.fields.begin(), other.fields.end(), alike);
  }
};

template <class A>
using feedback_places = std::vector<feedback_place<A>>;

/// Returns the place of a residual `values`, which is the only state of the policy.
template <class A, executor E>
feedback_place<A> residual_place(feedback_scope const& at, std::string policy, buffer<A, E>& values, bool is_local) {
  auto fields = field_list();
  fields(values, is_local ? field_kind::share : field_kind::replicated);
  return {at, std::move(policy), std::move(fields.all), values, at.weight, is_local};
}

/// Adds the residual of a place to the residual of another place, which contains the elements of the first. The scaled
/// residual is stored before it is added, so that rounding does not depend on the compiler.
template <class A, executor E>
void add_residual_of(E const& exec, feedback_place<A> const& from, feedback_place<A> const& to) {
  auto const skipped = from.at.first - to.at.first;
  if (skipped >= to.residual.size()) return;
  auto const n = std::min({from.residual.size(), from.at.n, to.residual.size() - skipped});
  auto const scaled = buffer<A, E>(exec, n);
  auto const factor = static_cast<A>(from.weight / to.weight);
  from.residual.with_data([&]<class T>(T const* e) { exec.for_each_index(n, scale<A, T>{e, scaled.data(), factor}); });
  to.residual.with_data([&]<class T>(T* e) { exec.for_each_index(n, add<T, A>{scaled.data(), e + skipped}); });
}

/// Returns one index per place of `from`: the index of the place of `to` that can use its states, or `to.size()`.
template <class A>
std::vector<std::size_t> like_places(feedback_places<A> const& from, feedback_places<A> const& to) {
  auto taken = std::vector<bool>(to.size());
  auto found = std::vector<std::size_t>();
  for (auto const& f : from) {
    std::size_t k = 0;
    while (k < to.size() && (taken[k] || !to[k].is_used || !f.is_like(to[k]))) ++k;
    if (k < to.size()) taken[k] = true;
    found.push_back(k);
  }
  return found;
}

/// Returns the place to whose residual the residual of `from` is added. This is the place of the same elements. Without
/// it, this is the place of the whole tensor. Without both, returns null. No residual is added to a replicated
/// residual.
template <class A>
feedback_place<A> const* heir_of(feedback_place<A> const& from, feedback_places<A> const& to) {
  auto const is_heir = [](auto const& t) { return !t.residual.is_null() && t.is_local && t.is_used; };
  auto found = std::find_if(to.begin(), to.end(), [&](auto const& t) { return is_heir(t) && t.at == from.at; });
  if (found == to.end())
    found = std::find_if(to.begin(), to.end(), [&](auto const& t) { return is_heir(t) && t.at.depth == 0; });
  return found == to.end() ? nullptr : &*found;
}

/// Returns a place of `from` whose residual would be lost in the places `to`, or null.
template <class A>
feedback_place<A> const* lost_place(feedback_places<A> const& from, feedback_places<A> const& to) {
  auto const like = like_places(from, to);
  auto const adds_up = std::all_of(to.begin(), to.end(), [](auto const& t) { return t.adds_up || !t.is_used; });
  for (std::size_t i = 0; i < from.size(); ++i) {
    auto const& f = from[i];
    if (like[i] < to.size() || f.is_negligible || (f.is_known && f.residual.is_null())) continue;
    if (!f.is_known || (!adds_up && heir_of(f, to) == nullptr)) return &f;
  }
  return nullptr;
}

/// Moves the feedback of a tensor's old codec to the states of its new codec. The states of a place are copied to a
/// place of the same elements and the same policy. Other residuals are added to the residual of heir_of(place). Returns
/// the sum of the residuals without such an heir, in the unit of this rank's gradient of n elements. If there are no
/// such residuals, returns an empty buffer.
template <class A, executor E>
buffer<A, E> move_feedback(E const& exec, feedback_places<A> const& from, feedback_places<A> const& to,
                           std::uint64_t n) {
  auto const like = like_places(from, to);
  for (std::size_t i = 0; i < from.size(); ++i) {
    for (std::size_t k = 0; like[i] < to.size() && k < from[i].fields.size(); ++k)
      exec.copy(to[like[i]].fields[k].data, from[i].fields[k].data, from[i].fields[k].bytes);
  }
  auto rest = buffer<A, E>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (like[i] < to.size() || from[i].residual.is_null()) continue;
    auto const* const heir = heir_of(from[i], to);
    if (heir == nullptr) rest.grow(exec, n);
    add_residual_of(exec, from[i], heir != nullptr ? *heir : residual_place({.n = n}, "", rest, true));
  }
  return rest;
}

}}}  // namespace pith::PITH_ABI::detail
