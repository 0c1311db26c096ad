// pith/exchange/mixed_exchange.hpp — the exchange of a model whose gradients have several element types.
#pragma once

#include <pith/codec/detail/saved_state.hpp>
#include <pith/core/element.hpp>
#include <pith/core/error.hpp>
#include <pith/core/transfer.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/agreement.hpp>
#include <pith/exchange/exchange_options.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/tensor_spec.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// Exchanges gradients of several element types, such as those of a bfloat16 model with float norms. The tensors of one
/// type have one gradient_exchange. The exchange of the type with the most bytes, the leader, overlaps with the backward
/// pass. The other exchanges follow in wait(), so only one exchange at a time calls the communicator.
///
///   auto exchange = pith::make_mixed_exchange<float, pith::bfloat16>(exec, comm, tensors, policy);
///   exchange.begin();
///   exchange.ready(i, gradient);   // a span with elements of tensors[i].kind
///   exchange.wait();
///
///   requires    tensors whose `kind` is that of a type In; a codec or policy whose result converts to any_codec<In, E>
///               for each In, such as a codec constructed in C++, matrices(codec), or codec_text (parse.hpp); and a
///               communicator that a second thread may call, such as MPI with MPI_THREAD_SERIALIZED
///   state       export_state() returns one state per type
///   complexity  as one gradient_exchange per type. Each type has messages of its own
///   errors      as gradient_exchange; std::invalid_argument, before any change, if a span does not fit its tensor. If
///               the kind of a tensor is wrong on one rank, that rank throws std::invalid_argument, and the other ranks
///               throw agreement_error
template <executor E, class Comm, real... In>
class mixed_exchange {
 public:
  /// The states of the types In, in this order.
  using states = std::array<std::vector<std::byte>, sizeof...(In)>;

  template <class Policy>
  mixed_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                 exchange_options const& options = {})
      : exec_(exec),
        comm_(comm),
        tensors_(checked(exec, comm, std::move(tensors))),
        exchanges_{
            gradient_exchange<In, E, Comm>(exec, comm, tensors_of<In>(), detail::policy_of<In, E>(policy), options)...},
        is_recoverable_(options.is_recoverable),
        is_ready_(tensors_.size()) {
    auto counts = std::array<std::size_t, sizeof...(In)>();
    for (auto const& t : tensors_) numbers_.push_back(counts[index_of(t.kind)]++);
    auto const bytes = std::array{of<In>().size() * sizeof(In)...};
    leader_ = kinds[static_cast<std::size_t>(std::ranges::max_element(bytes) - bytes.begin())];
  }

  std::vector<tensor_spec> const& tensors() const { return tensors_; }
  /// The exchange of one element type, for its report and codecs, between steps.
  template <real T>
  gradient_exchange<T, E, Comm>& of() {
    return std::get<gradient_exchange<T, E, Comm>>(exchanges_);
  }
  /// The number of a tensor among those of its element type.
  std::size_t number_of(std::size_t tensor) const {
    require_tensor("number_of", tensor);
    return numbers_[tensor];
  }

  /// Begins a step, as gradient_exchange::begin(weight).
  void begin(double weight = 1) {
    (of<In>().require_begin(of<In>().size(), weight), ...);
    weight_ = weight;
    is_ready_.assign(tensors_.size(), false);
    (std::get<waiting<In>>(waiting_).clear(), ...);
    for_leader([this](auto& leader) { leader.begin(weight_); });
  }
  /// Sets the address of a tensor's gradient, and marks this gradient as written. Until wait() returns, only the exchange
  /// may access the gradient.
  template <real T>
  void ready(std::size_t tensor, span_on<E, T> gradient) {
    static constexpr auto* call = "mixed_exchange::ready";
    for_leader([](auto& leader) { leader.require_step("ready"); });
    require_tensor("ready", tensor);
    auto const& t = tensors_[tensor];
    detail::require(t.kind == kind_of<T>(), call, ": the gradient of tensor \"", t.name, "\" must have elements of ",
                    detail::name_of(t.kind), ", got ", element_name<T>());
    detail::require(!is_ready_[tensor], call, ": the gradient of tensor \"", t.name, "\" is already ready");
    detail::require_values(call, "gradient", t.dims.n, gradient);
    if (leader_ == t.kind) {
      of<T>().ready(numbers_[tensor], gradient);
    } else {
      std::get<waiting<T>>(waiting_).push_back({numbers_[tensor], gradient});
    }
    is_ready_[tensor] = true;
  }
  /// Ends the step, in which all gradients are ready. Returns when all gradients are means.
  void wait() {
    for_leader([](auto& leader) { leader.require_step("wait"); });
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      detail::require(is_ready_[i], "mixed_exchange: wait() needs the gradient of tensor ", i, ", \"", tensors_[i].name,
                      "\": call ready(", i, ", gradient) first");
    }
    for_leader([](auto& leader) { leader.wait(); });
    ++completed_[index_of(leader_)];
    (exchange_waiting<In>(), ...);
  }
  /// Ends a step without an exchange, as gradient_exchange::skip().
  void skip() {
    for_leader([](auto& leader) { leader.skip(); });
  }
  /// Gives up a step that this rank cannot complete, as gradient_exchange::abandon().
  void abandon() { (of<In>().abandon(), ...); }
  /// True after a step that failed for one of the types, until import_state() is called.
  bool has_failed() const { return (exchange_of<In>().has_failed() || ...); }

  /// Returns the states after the last step that all types completed on this rank, or `steps_back` steps before it, as
  /// gradient_exchange::export_state(). After a failed step, this needs exchange_options::is_recoverable.
  states export_state(unsigned steps_back = 0) const {
    detail::require(is_recoverable_ || !has_failed(),
                    "mixed_exchange: export_state() is refused after a failed step: set ",
                    "exchange_options::is_recoverable, or call import_state() first");
    return {state_of<In>(steps_back)...};
  }
  /// Restores states that export_state() returned. All ranks call import_state(). If a state of one rank is wrong, that
  /// rank throws std::invalid_argument, and the other ranks throw agreement_error. If the ranks' states were saved after
  /// different steps, all ranks throw agreement_error. After these errors, all ranks are unchanged.
  void import_state(states const& saved) {
    static constexpr auto* call = "mixed_exchange::import_state";
    auto const by = detail::calling({detail::caller::import_state});
    auto const of_type = [&](element_kind kind) { return span<std::byte const>(saved[index_of(kind)]); };
    auto moment = std::vector<std::uint64_t>();
    detail::require_success(exec_, comm_, call, detail::could_not_load, [&] {
      (of<In>().require_state(of_type(kind_of<In>()), of<In>().codecs()), ...);
      moment = {steps_of<In>(call, of_type(kind_of<In>()))...};
    });
    detail::require_one_moment(exec_, comm_, call, moment);
    (of<In>().import_state(of_type(kind_of<In>())), ...);
    completed_ = {};
  }

 private:
  /// A gradient that waits until the leader's exchange has ended.
  template <real T>
  struct waiting_gradient {
    std::size_t number;
    span_on<E, T> gradient;
  };
  template <real T>
  using waiting = std::vector<waiting_gradient<T>>;

  static constexpr auto kinds = std::array{kind_of<In>()...};

  void require_tensor(char const* call, std::size_t tensor) const {
    detail::require(tensor < tensors_.size(), "mixed_exchange::", call, ": tensor must be below ", tensors_.size(),
                    ", got ", tensor);
  }
  static std::size_t index_of(element_kind kind) {
    return static_cast<std::size_t>(std::ranges::find(kinds, kind) - kinds.begin());
  }
  static std::vector<tensor_spec> checked(E const& exec, Comm& comm, std::vector<tensor_spec> tensors) {
    auto const by = detail::calling({detail::caller::constructor});
    detail::require_success(exec, comm, "mixed_exchange", "has a tensor of another kind", [&] {
      for (auto const& t : tensors) {
        detail::require(index_of(t.kind) < kinds.size(), "mixed_exchange: the kind of tensor \"", t.name,
                        "\" must be that of a type of the exchange, got ", detail::name_of(t.kind));
      }
    });
    return tensors;
  }
  template <real T>
  gradient_exchange<T, E, Comm> const& exchange_of() const {
    return std::get<gradient_exchange<T, E, Comm>>(exchanges_);
  }
  template <real T>
  std::vector<tensor_spec> tensors_of() const {
    auto own = std::vector<tensor_spec>();
    for (auto const& t : tensors_)
      if (t.kind == kind_of<T>()) own.push_back(t);
    return own;
  }

  /// The state of one type. A type without tensors keeps no copies of earlier states, and its state is equal after every
  /// step.
  template <real T>
  std::vector<std::byte> state_of(unsigned steps_back) const {
    auto const& exchange = exchange_of<T>();
    auto const ahead = completed_[index_of(kind_of<T>())] - std::ranges::min(completed_);
    return exchange.export_state(exchange.tensors().empty() ? 0 : steps_back + ahead);
  }
  /// The step of the first tensor in a state.
  template <real T>
  std::uint64_t steps_of(char const* call, span<std::byte const> saved) const {
    return exchange_of<T>().tensors().empty() ? 0 : detail::steps_in(detail::open_states(call, saved).states.data());
  }

  template <class F>
  void for_leader(F const& f) {
    (for_leader<In>(f), ...);
  }
  template <real T, class F>
  void for_leader(F const& f) {
    if (leader_ == kind_of<T>()) f(of<T>());
  }
  template <real T>
  void exchange_waiting() {
    if (leader_ == kind_of<T>()) return;
    of<T>().begin(weight_);
    for (auto const& one : std::get<waiting<T>>(waiting_)) of<T>().ready(one.number, one.gradient);
    of<T>().wait();
    ++completed_[index_of(kind_of<T>())];
  }

  E exec_;
  Comm& comm_;
  std::vector<tensor_spec> tensors_;
  std::tuple<gradient_exchange<In, E, Comm>...> exchanges_;
  std::tuple<waiting<In>...> waiting_;
  bool is_recoverable_;
  std::vector<bool> is_ready_;
  std::vector<std::size_t> numbers_;  ///< the number of each tensor among those of its element type
  element_kind leader_ = element_kind::bytes;
  std::array<unsigned, sizeof...(In)> completed_ = {};  ///< the number of steps that each type completed
  double weight_ = 1;
};

/// Makes a mixed_exchange for gradients of the types In, with a codec policy or one codec.
template <real... In, executor E, class Comm, class Policy>
auto make_mixed_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> tensors, Policy const& policy,
                         exchange_options const& options = {}) {
  (explain_codec_policy<Policy, In, E>(), ...);
  if constexpr ((detail::codec_or_policy<Policy, In, E> && ...))
    return mixed_exchange<E, Comm, In...>(exec, comm, std::move(tensors), policy, options);
}

}}  // namespace pith::PITH_ABI
