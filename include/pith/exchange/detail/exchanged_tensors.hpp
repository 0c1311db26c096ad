// pith/exchange/detail/exchanged_tensors.hpp — a model's tensors with their gradients, codecs and states.
#pragma once

#include <pith/codec/any_codec.hpp>
#include <pith/codec/codec_state.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/detail/summation.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/exchange_plan.hpp>
#include <pith/exchange/detail/flat_groups.hpp>
#include <pith/exchange/detail/predicted_gather.hpp>
#include <pith/exchange/detail/rank_weights.hpp>
#include <pith/exchange/exchange_options.hpp>
#include <pith/exec/lanes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Increments the step counter of each state.
struct advance_each {
  std::uint64_t* const* steps;
  PITH_HD void operator()(std::uint64_t i) const { ++*steps[i]; }
};

/// The tensors of an exchange, with functions for the rounds of one tensor. Tensors that a flat codec joins have the
/// shapes that flat_groups gives them.
template <real In, executor E>
class exchanged_tensors {
 public:
  using codec_type = any_codec<In, E>;
  using state_type = codec_state<In, codec_type, E>;

  /// New codecs, and new states for those codecs that cannot use the old states. `owes[i]` is true if tensor i has an
  /// undelivered residual, which is the last field of its saved state.
  struct change {
    std::vector<codec_type> codecs;
    std::vector<std::optional<state_type>> states;
    std::vector<bool> owes;
    std::optional<predicted_gather<In, E>> predicted;
  };

  template <class Policy>
  exchanged_tensors(E const& exec, std::vector<tensor_spec> given, Policy const& policy, exchange_options const& o,
                    std::uint16_t rank, unsigned ranks)
      : given_(std::move(given)),
        ranks_(ranks),
        codecs_(codecs_by(policy)),
        groups_(exec, given_, codecs_, layout(o.bucket_bytes)),
        specs_(groups_.joined(given_)),
        gradients_(specs_.size()),
        steps_(exec, specs_.size()) {
    auto steps = std::vector<std::uint64_t*>();
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      states_.push_back(
          make_state<In>(exec, codecs_[i], specs_[i].dims, {o.seed, static_cast<std::uint32_t>(i), rank}));
      steps.push_back(states_[i].steps());
    }
    exec.upload(steps_.data(), steps.data(), steps_.size_bytes());
    exec.wait();
  }

  /// The tensors as the caller listed them.
  std::vector<tensor_spec> const& given() const { return given_; }
  std::vector<tensor_spec> const& specs() const { return specs_; }
  flat_groups<In, E> const& groups() const { return groups_; }
  /// The tensor buckets before fit_buckets().
  bucket_list layout(std::optional<std::size_t> bucket_bytes) const {
    auto bytes = std::vector<std::size_t>();
    for (auto const& t : given_) bytes.push_back(t.dims.n * sizeof(In));
    return buckets_of(backward_order(bytes.size()), bytes, limits(bucket_bytes));
  }
  bucket_limits limits(std::optional<std::size_t> bucket_bytes) const {
    return limits_for(size() * sizeof(In), bucket_bytes, lanes<E>::are_recorded);
  }
  std::vector<codec_type> const& codecs() const { return codecs_; }
  auto& state(std::size_t tensor) { return states_[tensor]; }
  tensor_id const& owner(std::size_t tensor) const { return states_[tensor].owner(); }
  unsigned ranks() const { return ranks_; }
  /// The number of elements in all tensors together.
  std::uint64_t size() const {
    std::uint64_t all = 0;
    for (auto const& t : given_) all += t.dims.n;
    return all;
  }

  unsigned rounds(std::size_t tensor) const { return codecs_[tensor].rounds(specs_[tensor].dims, ranks_); }
  unsigned depth(std::size_t tensor) const { return codecs_[tensor].depth(); }
  /// The transfer of a tensor in a round, at full capacity.
  transfer moves(std::size_t tensor, unsigned round) const {
    return transfer_of<In>(codecs_[tensor], round, specs_[tensor].dims, ranks_);
  }
  /// The number of bytes of this transfer, for the tensor's capacity in the current step.
  std::size_t moved_bytes(std::size_t tensor, unsigned round) const {
    return transfer_of<In>(codecs_[tensor], round, dims(tensor), ranks_).bytes();
  }
  std::size_t scratch_bytes(E const& exec, std::size_t tensor) const {
    auto const& all = specs_[tensor].dims;
    return std::max(exchange_scratch_bytes<In>(codecs_[tensor], exec, all, ranks_),
                    reduce_scratch_bytes<double>(all.n));
  }

  /// Turns on the prediction of payload sizes, for gather::predicted.
  void predict(E const& exec) { predicted_.emplace(exec, specs_, codecs_); }
  bool is_predicted() const { return predicted_.has_value(); }

  /// Makes the states for a change of codecs, with one codec per tensor. Throws if a codec does not fit its tensor.
  change prepare(E const& exec, std::vector<codec_type> codecs) const {
    groups_.require_kept(specs_, codecs);
    auto next = change{std::move(codecs), {}, {}, {}};
    next.states.resize(specs_.size());
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      next.owes.push_back(owes(i));
      if (next.codecs[i].shares_states(codecs_[i])) continue;
      next.states[i].emplace(make_state<In>(exec, next.codecs[i], specs_[i].dims, states_[i].owner()));
    }
    if (predicted_) next.predicted.emplace(exec, specs_, next.codecs);
    return next;
  }
  /// Throws if the new codec of a tensor would lose a residual.
  void require_kept(change& next) {
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      if (!next.states[i]) continue;
      auto const from = states_[i].owed(codecs_[i], ranks_), to = next.states[i]->feedback(next.codecs[i], ranks_);
      auto const* const lost = lost_place(from, to);
      require(lost == nullptr, "gradient_exchange::change: tensor ", i, ", \"", specs_[i].name,
              "\", must keep the feedback policy ", lost == nullptr ? "" : lost->policy, ", got ",
              next.codecs[i].name(), lost == nullptr ? "" : lost->advice());
    }
  }
  /// Visits the fields that a tensor's state will have after the change `next`.
  void fields(std::size_t tensor, change& next, field_visitor& f) {
    (next.states[tensor] ? *next.states[tensor] : states_[tensor]).codec_fields(f);
    if (!next.owes[tensor]) return;
    f.describe({field_kind::share, element_name<accum<In>>(), specs_[tensor].dims.n});
    f.visit(nullptr, specs_[tensor].dims.n * sizeof(accum<In>));
  }
  /// If apply() throws, nothing has changed.
  void apply(E const& exec, change next) {
    for (std::size_t i = 0; i < specs_.size(); ++i)
      if (next.states[i]) states_[i].copy_feedback(exec, codecs_[i], next.codecs[i], *next.states[i], ranks_);
    for (std::size_t i = 0; i < specs_.size(); ++i)
      if (next.states[i]) states_[i].take(*std::move(next.states[i]));
    codecs_ = std::move(next.codecs);
    predicted_ = std::move(next.predicted);
  }

  /// `unbind` clears the addresses of all gradients. `bind` sets the addresses of all gradients, which lie one after
  /// another, or the address of one gradient.
  void unbind() { std::fill(gradients_.begin(), gradients_.end(), nullptr); }
  void bind(span_on<E, In> gradients) {
    auto* at = gradients.data();
    for (std::size_t i = 0; i < given_.size(); at += given_[i++].dims.n) gradients_[i] = at;
  }
  void bind(std::size_t tensor, In* gradient) { gradients_[tensor] = gradient; }
  bool is_bound(std::size_t tensor) const { return gradients_[tensor] != nullptr || given_[tensor].dims.n == 0; }

  /// The gradient of a tensor, or the vector of a leader.
  values_on<E, In> gradient(std::size_t tensor) const {
    auto const is_vector = groups_.has(tensor) && groups_.leader(tensor) == tensor;
    return {is_vector ? groups_.values(tensor) : gradients_[tensor], specs_[tensor].dims.n};
  }

  /// join() writes the gradients of joined tensors to the vectors, and part() writes the vectors back to the gradients.
  void join(E const& exec) { groups_.join(exec, groups_.tensors(), gradients_); }
  void join(E const& exec, std::vector<std::size_t> const& tensors) {
    groups_.join(exec, tensors, gradients_);
    for (auto const i : tensors)
      if (squares_ != nullptr) exec.fill(squares_ + i, std::byte{}, sizeof *squares_);
  }
  void part(E const& exec, std::vector<std::size_t> const& tensors) { groups_.part(exec, tensors, gradients_); }

  /// Beginning with the next step, scales gradients and means by factors of the ranks' weights.
  void weigh_by(rank_weights<E> const& weights) {
    factor_ = weights.own();
    if constexpr (is_narrow) common_ = weights.common();
  }

  /// Beginning with the next step, writes |g|^2 of each tensor to `squares` before the gradient is exchanged.
  void measure_into(double* squares) { squares_ = squares; }
  /// The energies that the codec of a tensor measured; null if the codec does not measure.
  double* energies(std::size_t tensor) { return codecs_[tensor].energies_in(states_[tensor].local()); }

  void begin_step(E const& exec) {
    exec.for_each_index(states_.size(), advance_each{steps_.data()});
    scale_states(exec, true);
    if (predicted_) predicted_->begin_step(exec);
  }
  void end_step(E const& exec) {
    scale_states(exec, false);
    if (predicted_) predicted_->end_step(exec);
  }

  void produce(E const& exec, std::size_t tensor, unsigned round, span_on<E, std::byte> out, workspace_on<E>& ws) {
    auto& s = states_[tensor];
    if (round == 0 && factor_ != nullptr) weigh(exec, gradient(tensor), factor_);
    if (round == 0 && squares_ != nullptr) measure(exec, tensor, ws);
    if (round == 0) s.undelivered().add_to(exec, gradient(tensor), common_);
    detail::produce<In>(codecs_[tensor], context_of(exec, tensor, ws), round, values_on<E, In const>(gradient(tensor)),
                        out, s.replicated(), s.local());
  }
  void absorb(E const& exec, std::size_t tensor, unsigned round, bool is_gathered, received_on<E> in,
              workspace_on<E>& ws) {
    auto& s = states_[tensor];
    if (predicted_ && is_gathered) predicted_->note(exec, tensor, in, ranks_);
    detail::absorb<In>(codecs_[tensor], context_of(exec, tensor, ws), round, in, gradient(tensor), s.replicated(),
                       s.local());
    if (common_ != nullptr && round + 1 == rounds(tensor)) weigh(exec, gradient(tensor), common_);
  }

  void rescale(E const& exec, double factor) {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      codecs_[i].rescale(exec, factor, states_[i].replicated(), states_[i].local());
      states_[i].undelivered().rescale(exec, factor);
    }
  }
  /// Whether the next step adds an undelivered residual to the gradient of a tensor.
  bool owes(std::size_t tensor) const { return states_[tensor].undelivered().is_pending(); }
  /// Gives the tensors for which `owing` is true an undelivered residual of zeros. Other tensors have none.
  void owe(E const& exec, std::vector<bool> const& owing) {
    for (std::size_t i = 0; i < states_.size(); ++i)
      states_[i].owe(buffer<accum<In>, E>(exec, owing[i] ? specs_[i].dims.n : 0));
  }
  void fields(field_visitor& f) {
    for (auto& s : states_) s.fields(f);
  }
  /// Discards the prediction for the next step. Call `forget()` after an import of states.
  void forget() {
    if (predicted_) predicted_->forget();
  }

 private:
  static constexpr bool is_narrow = pith::is_narrow(kind_of<In>());

  template <class Policy>
  std::vector<codec_type> codecs_by(Policy const& policy) const {
    auto codecs = std::vector<codec_type>();
    for (auto const& t : given_) {
      require(t.kind == element_kind::bytes || t.kind == kind_of<In>(), "gradient_exchange: tensor \"", t.name,
              "\" must have elements of ", element_name<In>(), ", got ", name_of(t.kind),
              ": use mixed_exchange for several types");
      codecs.push_back(static_cast<codec_type>(policy(t)));
    }
    return codecs;
  }
  context<In, E> context_of(E const& exec, std::size_t tensor, workspace_on<E>& ws) const {
    return {exec, states_[tensor].id(), dims(tensor), ws, ranks_, common_};
  }
  shape const& dims(std::size_t tensor) const { return predicted_ ? predicted_->dims(tensor) : specs_[tensor].dims; }

  void weigh(E const& exec, values_on<E, In> x, double const* factor) const {
    exec.for_each_index(x.capacity, weigh_value<In>{x.data, factor});
  }
  /// Divides the states by the common factor before a step, and multiplies them by it after the step. So during a step,
  /// states have the unit of the scaled gradients.
  void scale_states(E const& exec, bool divides) {
    if constexpr (is_narrow) {
      if (common_ == nullptr) return;
      auto const work = (divides ? divided_ : multiplied_).record(exec);
      auto scaled = field_scaler<In, E>(work, common_, divides);
      fields(scaled);
      work.run();
    }
  }

  void measure(E const& exec, std::size_t tensor, workspace_on<E>& ws) const {
    auto const g = gradient(tensor);
    reduce_into(exec, squares_ + tensor, g.capacity, square_of<In>{g.data}, plus(), 0.0, ws);
  }

  std::vector<tensor_spec> given_;
  unsigned ranks_;
  std::vector<codec_type> codecs_;
  flat_groups<In, E> groups_;
  std::vector<tensor_spec> specs_;
  std::vector<state_type> states_;
  std::vector<In*> gradients_;
  buffer<std::uint64_t*, E> steps_;
  double const* factor_ = nullptr;  ///< the factor of the gradients; null without weights
  double const* common_ = nullptr;  ///< the factor of the means of 16-bit gradients; null without weights
  double* squares_ = nullptr;
  std::optional<predicted_gather<In, E>> predicted_;
  lanes<E> divided_, multiplied_;  ///< the states of all tensors
};

}}}  // namespace pith::PITH_ABI::detail
