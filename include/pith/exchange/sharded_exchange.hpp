// pith/exchange/sharded_exchange.hpp — the exchanges of sharded training: gradients to their owners, weights to all.
#pragma once

#include <pith/adaptor/identity.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/codec/detail/contraction.hpp>
#include <pith/collective/detail/all_gather_shards.hpp>
#include <pith/collective/sharding.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/checksum.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/agreement.hpp>
#include <pith/exchange/exchange_options.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/tensor_spec.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The weight that all ranks hold. A weight that is not finite counts as 0, so that the next difference replaces it.
template <class In>
PITH_HD accum<In> held_weight(In held) {
  return is_finite(held) ? element_cast<accum<In>>(held) : 0;
}

/// Sets x[i] to its difference from held[i]. The difference of finite weights is finite: if it is too large for In, the
/// rest remains in later differences.
template <class In>
struct take_difference {
  In const* held;
  In* x;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const weight = element_cast<accum<In>>(x[i]);
    auto difference = weight - held_weight(held[i]);
    if (is_finite(weight) && !is_finite(difference))
      difference = difference > 0 ? largest_finite<In> : -largest_finite<In>;
    x[i] = saturated_cast<In>(difference);
  }
};

/// Adds the difference x[i] to held[i], and sets x[i] to the sum.
template <class In>
struct add_difference {
  In* x;
  In* held;
  PITH_HD void operator()(std::uint64_t i) const {
    held[i] = saturated_cast<In>(held_weight(held[i]) + element_cast<accum<In>>(x[i]));
    x[i] = held[i];
  }
};

}  // namespace detail

/// What `all_gather` of a sharded_exchange encodes: the weights, or the difference between the weights and the weights
/// that all ranks received last.
enum class weight_form : std::uint8_t { whole, difference };

/// The options of a sharded_exchange, which must be equal on all ranks.
struct sharded_options {
  exchange_options exchange = {};  ///< of the exchange of gradients
  weight_form weights = weight_form::whole;
  unsigned check_interval = 0;  ///< ranks compare checksums of all weights after so many all-gathers; 0: never
};

/// Consecutive elements of a tensor, which one rank updates.
struct shard {
  std::uint64_t first, n;
};

/// Exchanges gradients and weights as in ZeRO stages 1 and 2. Each rank receives the mean gradients of its shards,
/// updates the weights of its shards, and sends them to all ranks.
///
///   exchange.begin(gradients);      // as gradient_exchange
///   exchange.ready(i);
///   exchange.wait();                // shard(i) of gradient i contains means; its other elements are unspecified
///   exchange.all_gather(weights);   // on return, the weights are bitwise equal on all ranks
///
///   requires    gradient codecs that contain reduce_scatter, such as ef(reduce_scatter(c)), or are lossless for their
///               tensor. A lossless codec, such as `bypass` of a small tensor, gives the whole mean to all ranks. Then
///               shard(i) is the whole tensor, and all ranks update it equally. Weight codecs without state. With
///               weight_form::difference, weight codecs must contract for the shards, because each difference contains
///               the errors of earlier ones
///   state       gradients().export_state() and weights().export_state(); reshard() converts both
///   complexity  with weight_form::difference, a copy of all weights. An all_gather() of exact weights also makes a
///               temporary exchange. An all_gather() that compares checksums copies all weights to host memory
///   errors      std::invalid_argument on the ranks whose codec is wrong, and agreement_error on the others.
///               agreement_error on all ranks if `weights` or `check_interval` of sharded_options differ. With
///               sharded_options::check_interval, agreement_error on all ranks if weights differ
///   reference   Rajbhandari, Rasley, Ruwase and He, ZeRO, SC 2020
template <real In, executor E, class Comm>
class sharded_exchange {
 public:
  using codec_type = any_codec<In, E>;

  template <detail::codec_policy_for<In, E> Gradients, detail::codec_policy_for<In, E> Weights>
  sharded_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> const& tensors, Gradients const& of_gradients,
                   Weights const& of_weights, sharded_options const& options = {})
      : exec_(exec),
        comm_(comm),
        options_(options),
        gradients_(
            exec, comm, tensors, [&](tensor_spec const& t) { return sharded(of_gradients(t), t); }, options.exchange),
        rules_(rules()),
        weights_(weight_exchange([&](std::size_t i) { return weight_codecs_.emplace_back(of_weights(tensors[i])); },
                                 options.exchange.is_recoverable)),
        are_differences_(differences()) {
    require_equal_options();
  }

  /// The exchange of the gradients. If its codecs change, the weights follow the new shards.
  gradient_exchange<In, E, Comm>& gradients() { return gradients_; }
  /// The exchange of the weights, for its report and state. change_weights() changes its codecs, and import_state()
  /// restores its state.
  gradient_exchange<In, E, Comm> const& weights() const { return weights_; }

  /// The shard of a tensor that this rank updates.
  pith::shard shard(std::size_t tensor) const {
    auto const& tensors = gradients_.tensors();
    detail::require(tensor < tensors.size(), "sharded_exchange::shard: tensor must be below ", tensors.size(), ", got ",
                    tensor);
    auto const& dims = tensors[tensor].dims;
    auto const* const rule = rule_of(tensor);
    if (rule == nullptr) return {0, dims.n};
    auto const first = rule->first(dims, comm_.size(), comm_.rank());
    return {first, rule->first(dims, comm_.size(), comm_.rank() + 1) - first};
  }

  void begin(span_on<E, In> gradients, double weight = 1) { gradients_.begin(gradients, weight); }
  void begin(double weight = 1) { gradients_.begin(weight); }
  void ready(std::size_t tensor) { gradients_.ready(tensor); }
  void ready(std::size_t tensor, span_on<E, In> gradient) { gradients_.ready(tensor, gradient); }
  void wait() { gradients_.wait(); }
  void skip() { gradients_.skip(); }
  /// begin, ready of all tensors, and wait.
  void reduce_scatter_mean(span_on<E, In> gradients, double weight = 1) {
    gradients_.all_reduce_mean(gradients, weight);
  }

  /// Sends the weights of this rank's shards to all ranks. `weights` contains all tensors one after another. On return,
  /// the weights are bitwise equal on all ranks, so the rank's own shards are rounded too: keep the exact weights of the
  /// shards elsewhere. With weight_form::difference, the first call sends exact weights, and tensors with a lossless
  /// codec are always sent whole. If a weight is not finite, all weights that the codec encodes together with it may
  /// arrive as NaN. The next call with finite weights replaces them. If a call throws, `weights` are unspecified. If a
  /// call that sends differences throws, `weights` are those that the last successful call returned.
  void all_gather(span_on<E, In> weights) {
    detail::require_values("sharded_exchange::all_gather", "weights", weights_.size(), weights);
    gradients_.require_between_steps("all_gather");
    weights_.require_idle("all_gather");
    follow_shards();
    if (options_.weights == weight_form::whole) {
      weights_.all_reduce_mean(weights);
    } else if (held_.size() < weights.size()) {
      gather_exact(weights);
    } else {
      gather_difference(weights);
    }
    if (options_.check_interval > 0 && ++gathers_ % options_.check_interval == 0) require_equal(weights);
  }
  /// With weight_form::difference, makes the next all_gather() send exact weights. All ranks call this function, for
  /// example after weights were loaded.
  void send_exact_next() { held_ = {}; }

  /// Sets one codec of weights per tensor, as gradient_exchange::change. All ranks call this function between steps.
  void change_weights(std::vector<codec_type> codecs) {
    gradients_.require_between_steps("change_weights");
    set_weights(std::move(codecs), rules_);
  }
  /// Restores the states of both exchanges. Both states must be of the same step. All ranks call this function between
  /// steps, or after a call that threw. The next all_gather() sends exact weights. If a state of one rank is wrong, that
  /// rank throws std::invalid_argument, and the other ranks throw agreement_error. All ranks are then unchanged.
  void import_state(span<std::byte const> of_gradients, span<std::byte const> of_weights) {
    auto const by = detail::calling({detail::caller::import_state});
    detail::require_success(exec_, comm_, "sharded_exchange::import_state", detail::could_not_load, [&] {
      gradients_.require_state(of_gradients, gradients_.codecs());
      weights_.require_state(of_weights, weights_.codecs());
    });
    gradients_.import_state(of_gradients);
    weights_.import_state(of_weights);
    send_exact_next();
  }

 private:
  using shard_rules = std::vector<std::optional<sharding>>;

  /// An exchange of weights, where codec_of(i) encodes the shards of tensor i.
  template <class F>
  gradient_exchange<In, E, Comm> weight_exchange(F const& codec_of, bool is_recoverable = false) const {
    std::size_t next = 0;
    auto const policy = [&](tensor_spec const& t) {
      auto const tensor = next++;
      return gathered(codec_of(tensor), rules_[tensor], t.dims);
    };
    auto const options = exchange_options{.seed = options_.exchange.seed, .is_recoverable = is_recoverable};
    return {exec_, comm_, gradients_.tensors(), policy, options};
  }
  static codec_type sharded(codec_type codec, tensor_spec const& tensor) {
    require_sharded(codec, tensor);
    return codec;
  }
  static void require_sharded(codec_type const& codec, tensor_spec const& tensor) {
    detail::require(!codec.is_flat() && (codec.shards(tensor.dims) != nullptr || codec.is_lossless(tensor.dims)),
                    "sharded_exchange: the codec of tensor \"", tensor.name,
                    "\" must contain reduce_scatter, as ef(reduce_scatter(c)), got ", codec.name());
  }
  /// The rules by which the codecs of gradients divide the tensors. A tensor without shards has no rule.
  shard_rules rules() const {
    auto all = shard_rules();
    for (std::size_t i = 0; i < gradients_.tensors().size(); ++i) {
      auto const* const rule = rule_of(i);
      all.push_back(rule == nullptr ? std::nullopt : std::optional(*rule));
    }
    return all;
  }
  sharding const* rule_of(std::size_t tensor) const {
    return gradients_.codecs()[tensor].shards(gradients_.tensors()[tensor].dims);
  }
  /// The codec of a tensor's weights. All ranks send equal parts of a tensor without shards, which they have updated
  /// equally.
  codec_type gathered(codec_type codec, std::optional<sharding> const& rule, shape const& dims) const {
    detail::require(!codec.is_flat(), "sharded_exchange: a weight codec must not be flat, got ", codec.name());
    if (!rule) return detail::all_gather_shards(identity());
    if (options_.weights == weight_form::difference) {
      for_each_shard(*rule, dims, [&](shape const& own) {
        detail::require_contraction("sharded_exchange: with weight_form::difference", codec, own);
      });
    }
    return detail::all_gather_shards(std::move(codec), *rule);
  }
  template <class F>
  void for_each_shard(sharding const& rule, shape const& dims, F const& f) const {
    auto const over = detail::tensor_shards{rule, dims, comm_.size()};
    for (unsigned rank = 0; rank < comm_.size(); ++rank) f(over.dims(rank));
  }
  void set_weights(std::vector<codec_type> codecs, shard_rules by) {
    auto next = std::vector<codec_type>();
    auto const& tensors = gradients_.tensors();
    auto const calls = detail::calling({detail::caller::check});
    detail::require_success(exec_, comm_, "sharded_exchange::change_weights",
                            "could not set the codecs of the weights, and no rank has changed", [&] {
                              weights_.require_idle("change_weights");
                              detail::require_size("sharded_exchange::change_weights", "codecs", tensors.size(),
                                                   codecs.size(), " entries");
                              for (std::size_t i = 0; i < tensors.size(); ++i)
                                next.push_back(gathered(codecs[i], by[i], tensors[i].dims));
                            });
    weights_.change(std::move(next));
    weight_codecs_ = std::move(codecs);
    rules_ = std::move(by);
    are_differences_ = differences();
  }
  /// For each tensor, whether all_gather() sends differences. Tensors without shards, and tensors whose codec is lossless
  /// for all shards, are sent whole.
  std::vector<bool> differences() const {
    auto all = std::vector<bool>(rules_.size());
    for (std::size_t i = 0; options_.weights == weight_form::difference && i < all.size(); ++i) {
      if (!rules_[i]) continue;
      for_each_shard(*rules_[i], gradients_.tensors()[i].dims,
                     [&](shape const& own) { all[i] = all[i] || !weight_codecs_[i].is_lossless(own); });
    }
    return all;
  }
  /// Shards the weights as the gradients. The codecs of gradients are equal on all ranks, so all ranks do the same.
  void follow_shards() {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      require_sharded(gradients_.codecs()[i], gradients_.tensors()[i]);
      auto const* const rule = rule_of(i);
      if (rule == nullptr ? rules_[i].has_value() : rules_[i] != *rule) return set_weights(weight_codecs_, rules());
    }
  }

  /// Calls f(i, first, n) for each tensor i, whose weights are the n weights from `first` on.
  template <class F>
  void for_each_tensor(F const& f) const {
    std::uint64_t first = 0;
    for (std::size_t i = 0; i < weights_.tensors().size(); first += weights_.tensors()[i++].dims.n)
      f(i, first, weights_.tensors()[i].dims.n);
  }
  void gather_exact(span_on<E, In> weights) {
    weight_exchange([](std::size_t) { return codec_type(identity()); }).all_reduce_mean(weights);
    held_ = buffer<In, E>(exec_, weights.size());
    exec_.copy(held_.data(), weights.data(), value_bytes<In>(weights.size()));
  }
  /// Replaces the weights of this rank's shards by their difference from the received weights. All ranks add the decoded
  /// differences to the received weights.
  void gather_difference(span_on<E, In> weights) {
    for_each_tensor([&](std::size_t i, std::uint64_t first, std::uint64_t) {
      if (!are_differences_[i]) return;
      auto const own = shard(i);
      auto const at = first + own.first;
      exec_.for_each_index(own.n, detail::take_difference<In>{held_.data() + at, weights.data() + at});
    });
    try {
      weights_.all_reduce_mean(weights);
    } catch (...) {
      exec_.copy(weights.data(), held_.data(), value_bytes<In>(weights.size()));
      exec_.wait();
      throw;
    }
    for_each_tensor([&](std::size_t i, std::uint64_t first, std::uint64_t n) {
      auto *const received = weights.data() + first, *const held = held_.data() + first;
      if (are_differences_[i]) return exec_.for_each_index(n, detail::add_difference<In>{received, held});
      exec_.copy(held, received, value_bytes<In>(n));
    });
  }

  void require_equal_options() const {
    auto const by = detail::calling({detail::caller::check});
    auto const mine = std::vector{static_cast<std::uint64_t>(options_.weights), std::uint64_t{options_.check_interval}};
    auto const [rank, option] = detail::first_difference(detail::gather_on_host(exec_, comm_, mine), mine.size());
    if (rank == 0) return;
    throw agreement_error(detail::sentence("sharded_exchange: rank ", rank, " differs from rank 0 in sharded_options::",
                                           option == 0 ? "weights" : "check_interval"));
  }

  void require_equal(span_on<E, In> weights) {
    auto host = std::vector<In>(weights.size());
    exec_.download(host.data(), weights.data(), value_bytes<In>(host.size()));
    auto const bytes = span<std::byte const>(reinterpret_cast<std::byte const*>(host.data()), host.size() * sizeof(In));
    auto const by = detail::calling({detail::caller::check});
    auto const rank =
        detail::first_difference(detail::gather_on_host(exec_, comm_, std::vector(1, checksum(bytes))), 1).first;
    if (rank != 0) {
      throw agreement_error(detail::sentence("sharded_exchange: rank ", rank,
                                             " differs from rank 0 in the weights after all_gather ", gathers_));
    }
  }

  E exec_;
  Comm& comm_;
  sharded_options options_;
  gradient_exchange<In, E, Comm> gradients_;
  shard_rules rules_;                      ///< those of the weights
  std::vector<codec_type> weight_codecs_;  ///< of the shards
  gradient_exchange<In, E, Comm> weights_;
  std::vector<bool> are_differences_;  ///< for each tensor, whether all_gather() sends differences
  buffer<In, E> held_;  ///< the weights that all ranks received last; empty before exact weights were sent
  std::uint64_t gathers_ = 0;
};

/// Makes a sharded_exchange for elements of type In, with codec policies or codecs.
template <real In, executor E, class Comm, class Gradients, class Weights>
auto make_sharded_exchange(E const& exec, Comm& comm, std::vector<tensor_spec> const& tensors,
                           Gradients const& of_gradients, Weights const& of_weights,
                           sharded_options const& options = {}) {
  explain_codec_policy<Gradients, In, E>();
  explain_codec_policy<Weights, In, E>();
  if constexpr (detail::codec_or_policy<Gradients, In, E> && detail::codec_or_policy<Weights, In, E>) {
    return sharded_exchange<In, E, Comm>(exec, comm, tensors, detail::policy_of<In, E>(of_gradients),
                                         detail::policy_of<In, E>(of_weights), options);
  }
}

}}  // namespace pith::PITH_ABI
