// pith/codec/codec_state.hpp — the state of a codec for one tensor on one rank.
#pragma once

#include <pith/codec/detail/feedback_places.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/codec/explain.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/codec/state.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/element.hpp>
#include <pith/core/executor.hpp>
#include <pith/core/source.hpp>
#include <pith/core/values.hpp>

#include <concepts>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Adds the residual to the gradient g. The residual becomes the part of the sum that In cannot represent. Where the
/// sum is NaN or infinite, both stay unchanged.
template <class In>
struct deliver_residual {
  accum<In>* residual;
  In* g;
  double const* common;  ///< that of the context
  PITH_HD void operator()(std::uint64_t i) const {
    auto const sum = residual[i] + element_cast<accum<In>>(g[i]);
    if (!is_finite(sum)) return;
    g[i] = saturated_cast<In>(sum, ext::largest_mean<In>(common));
    residual[i] = sum - element_cast<accum<In>>(g[i]);
  }
};

/// The residual of an earlier codec, if the tensor's codec has no feedback that could keep it. The next step adds the
/// residual to the gradient. For float and double, that step deletes the residual, even where the sum is NaN or infinite.
/// So the states of all ranks have equal fields. For half and bfloat16, the residual becomes the rounding error of the
/// sum. Each later step adds this residual to the gradient and replaces it.
template <class In, executor E>
class undelivered {
 public:
  undelivered() = default;
  explicit undelivered(buffer<accum<In>, E> residual)
      : residual_(std::move(residual)), is_pending_(residual_.size() > 0) {}

  bool is_pending() const { return is_pending_; }
  feedback_place<accum<In>> place(feedback_scope const& whole) {
    auto made = residual_place(whole, "residual", residual_, true);
    made.is_negligible = is_rounded_;
    return made;
  }

  void add_to(E const& exec, values_on<E, In> g, double const* common) {
    if (!is_pending_) return;
    exec.for_each_index(residual_.size(), deliver_residual<In>{residual_.data(), g.data, common});
    is_rounded_ = true;
    is_pending_ = !std::same_as<In, accum<In>>;
  }
  void rescale(E const& exec, double factor) {
    exec.for_each_index(residual_.size(), scale<accum<In>, accum<In>>{residual_.data(), residual_.data(),
                                                                      static_cast<accum<In>>(factor)});
  }
  void fields(field_visitor& f) {
    if (is_pending_) f(residual_);
  }

 private:
  buffer<accum<In>, E> residual_;
  bool is_pending_ = false;
  bool is_rounded_ = false;  ///< whether the residual is only the rounding error of a step
};

struct advance {
  std::uint64_t* step;
  PITH_HD void operator()(std::uint64_t) const { ++*step; }
};

}  // namespace detail

/// The state of codec `C` for one tensor on one rank, in E's memory. A state consists of replicated state, rank-local
/// state and the step.
template <class In, class C, executor E>
class codec_state {
 public:
  using element = In;
  using feedback_places = detail::feedback_places<accum<In>>;

  codec_state(E const& exec, C const& codec, shape const& dims, tensor_id const& owner)
      : dims_(dims),
        owner_(owner),
        step_(exec, 1),
        arrived_(exec, 1),
        replicated_(make_replicated<In>(exec, codec, id(), dims)),
        local_(make_local<In>(exec, codec, dims)) {
    detail::require(owner.tensor < 1u << 24, "make_state: tensor must be below 2^24, got ", owner.tensor);
  }

  shape const& dims() const { return dims_; }
  tensor_id const& owner() const { return owner_; }
  auto& replicated() { return replicated_; }
  auto& local() { return local_; }

  /// A pointer into E's memory, to the number of steps so far.
  std::uint64_t* steps() const { return step_.data(); }
  /// The id of this rank's encoding in the current step.
  encoding_id id() const { return {step_.data(), owner_.seed, 0, owner_.tensor, owner_.rank, 0, 0, arrived_.data()}; }

  /// The context of a call in the current step.
  context<In, E> context_on(E const& exec, workspace_on<E>& ws, unsigned ranks = 1) const {
    return {exec, id(), dims_, ws, ranks};
  }

  /// Begins the next step, whose random numbers differ from those of earlier steps.
  void advance(E const& exec) { exec.for_each_index(1, detail::advance{step_.data()}); }

  /// The feedback places of `codec`, which made these states, in an exchange over `ranks` ranks. Outside an exchange,
  /// `ranks` is 0, and places inside collectives are omitted.
  feedback_places feedback(C const& codec, unsigned ranks) {
    auto places = feedback_places();
    codec.visit_feedback(whole(ranks), replicated_, local_, places);
    return places;
  }
  /// The feedback places of `codec`, and the place of the undelivered residual.
  feedback_places owed(C const& codec, unsigned ranks) {
    auto places = feedback(codec, ranks);
    if (undelivered_.is_pending()) places.push_back(undelivered_.place(whole(ranks)));
    return places;
  }
  /// Copies the feedback of codec `own` to `made`, the states of codec `next` for the same tensor
  /// (detail/feedback_places.hpp).
  void copy_feedback(E const& exec, C const& own, C const& next, codec_state& made, unsigned ranks) {
    made.owe(detail::move_feedback(exec, owed(own, ranks), made.feedback(next, ranks), dims_.n));
  }
  /// Takes the states of `made`. The step does not change.
  void take(codec_state made) {
    replicated_ = std::move(made.replicated_);
    local_ = std::move(made.local_);
    undelivered_ = std::move(made.undelivered_);
  }

  /// Sets the undelivered residual. An empty buffer means that there is none.
  void owe(buffer<accum<In>, E> residual) { undelivered_ = detail::undelivered<In, E>(std::move(residual)); }
  detail::undelivered<In, E>& undelivered() { return undelivered_; }
  detail::undelivered<In, E> const& undelivered() const { return undelivered_; }

  /// Visits the fields of the codec's states, without the undelivered residual.
  void codec_fields(field_visitor& f) {
    f(step_);
    replicated_.fields(f);
    f.local(local_);
  }
  void fields(field_visitor& f) {
    codec_fields(f);
    f.local(undelivered_);
  }

 private:
  detail::feedback_scope whole(unsigned ranks) const { return {0, dims_.n, 1, owner_.rank, ranks}; }

  shape dims_;
  tensor_id owner_;
  buffer<std::uint64_t, E> step_;
  buffer<std::uint32_t, E> arrived_;
  replicated_of<C, In, E> replicated_;
  local_of<C, In, E> local_;
  detail::undelivered<In, E> undelivered_;
};

/// Creates the state of `codec` for a tensor with shape `dims`. The function allocates, so call it once per tensor.
template <class In, executor E, class C>
codec_state<In, C, E> make_state(E const& exec, C const& codec, shape const& dims, tensor_id const& owner = {}) {
  static_assert(real<In>, "pith: the elements of a gradient are float, double, half or bfloat16");
  static_assert(
      !real<In> || detail::exchangeable<C, In, E>,
      "pith: make_state<In>(exec, c, shape) needs a codec c of In: a stage (call pith::explain_stage<C, In>()), "
      "error_feedback(c), bypass(c, n) or a collective");
  explain_facets<C, In, E>();
  return {exec, codec, dims, owner};
}

namespace detail {

/// Appends the values of a field to a list in host memory.
template <class A, executor E>
void append_values(E const& exec, field_list::field const& field, std::vector<A>& values) {
  auto saved = field_saver<E>(exec);
  saved.visit(field.data, field.bytes);
  auto const append = [&]<class T>(T x) {
    values.reserve(values.size() + saved.bytes.size() / sizeof x);
    for (std::size_t at = 0; at < saved.bytes.size(); at += sizeof x) {
      std::memcpy(&x, saved.bytes.data() + at, sizeof x);
      values.push_back(element_cast<A>(x));
    }
  };
  field.form.element == element_name<bfloat16>() ? append(bfloat16()) : append(A());
}

}  // namespace detail

/// Waits for the executor, then returns a copy of this rank's feedback state in host memory. For `residual`, the copy
/// has n values. For momentum_correction, the copy has 2 n values: m u, the momentum factor times the velocity, then
/// the residual v. Other policies document their layout. Without feedback, the copy is empty. After a change of codecs,
/// the copy is the residual that the next step adds to the gradient, if there is one. Feedback inside a collective is
/// not part of the copy.
template <class In, class C, executor E>
std::vector<accum<In>> fed_back(E const& exec, C const& codec, codec_state<In, C, E>& state) {
  auto values = std::vector<accum<In>>();
  for (auto const& place : state.feedback(codec, 0)) {
    for (auto const& f : place.fields)
      if (!f.form.is_replicated()) detail::append_values(exec, f, values);
  }
  auto rest = detail::field_list();
  if (values.empty()) state.undelivered().fields(rest);
  for (auto const& f : rest.all) detail::append_values(exec, f, values);
  return values;
}

}}  // namespace pith::PITH_ABI
