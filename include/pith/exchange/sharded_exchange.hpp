// pith/exchange/sharded_exchange.hpp — the exchanges of sharded training: gradients to their owners, weights to all.
#pragma once

#include <pith/adaptor/identity.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/collective/all_gather_shards.hpp>
#include <pith/collective/sharding.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/checksum.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/agreement.hpp>
#include <pith/exchange/exchange_options.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/tensor_spec.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Adds the difference x[i] to held[i], and sets x[i] to the sum.
template <class In>
struct add_difference {
  In* x;
  In* held;
  PITH_HD void operator()(std::uint64_t i) const {
    held[i] = element_cast<In>(element_cast<accum<In>>(held[i]) + element_cast<accum<In>>(x[i]));
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

/// Exchanges gradients and weights for ZeRO and FSDP. Each rank receives the mean gradients of its shards, updates the
/// weights of its shards, and sends them to all ranks.
///
///   exchange.begin(gradients);      // as gradient_exchange
///   exchange.ready(i);
///   exchange.wait();                // shard(i) of gradient i contains means; its other elements are unspecified
///   exchange.all_gather(weights);   // on return, the weights are bitwise equal on all ranks
///
///   requires    gradient codecs that contain reduce_scatter, such as ef(reduce_scatter(c)), or are lossless for their
///               tensor. A lossless codec, such as `bypass` of a small tensor, gives the whole mean to all ranks. Then
///               shard(i) is the whole tensor, and all ranks update it equally. Weight codecs without state
///   state       gradients().export_state() and weights().export_state(); reshard() converts both
///   complexity  with weight_form::difference and a lossy codec, a copy of all weights
///   errors      std::invalid_argument on the ranks whose codec is wrong, and agreement_error on the others. With
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
        weights_(weight_exchange(tensors, of_weights)),
        compressed_(weights_.codecs()) {
    for (std::size_t i = 0; i < tensors.size(); ++i) exact_.push_back(gathered(i, identity()));
    send_exact_next();
  }

  gradient_exchange<In, E, Comm>& gradients() { return gradients_; }
  gradient_exchange<In, E, Comm>& weights() { return weights_; }

  /// The shard of a tensor that this rank updates.
  pith::shard shard(std::size_t tensor) const {
    auto const& tensors = gradients_.tensors();
    detail::require(tensor < tensors.size(), "sharded_exchange::shard: tensor must be below ", tensors.size(), ", got ",
                    tensor);
    auto const& dims = tensors[tensor].dims;
    auto const* const rule = gradients_.codecs()[tensor].shards(dims);
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
  /// shards elsewhere. With weight_form::difference, the first call sends exact weights, and a weight that is not finite
  /// remains so until send_exact_next().
  void all_gather(span_on<E, In> weights) {
    detail::require_size("sharded_exchange::all_gather", "weights", weights_.size(), weights.size());
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
  void send_exact_next() {
    if (options_.weights == weight_form::whole) return;
    weights_.change(exact_);
    held_ = {};
  }

 private:
  template <class Weights>
  gradient_exchange<In, E, Comm> weight_exchange(std::vector<tensor_spec> const& tensors,
                                                 Weights const& of_weights) const {
    std::size_t next = 0;
    auto const policy = [&](tensor_spec const& t) { return gathered(next++, static_cast<codec_type>(of_weights(t))); };
    return {exec_, comm_, tensors, policy, {.seed = options_.exchange.seed}};
  }
  static codec_type sharded(codec_type codec, tensor_spec const& tensor) {
    detail::require(codec.shards(tensor.dims) != nullptr || codec.is_lossless(tensor.dims),
                    "sharded_exchange: the codec of tensor \"", tensor.name,
                    "\" must contain reduce_scatter, as ef(reduce_scatter(c)), got ", codec.name());
    return codec;
  }
  /// The codec of a tensor's weights. All ranks send equal parts of a tensor without shards, which they have updated
  /// equally.
  template <class C>
  codec_type gathered(std::size_t tensor, C codec) const {
    auto const* const rule = gradients_.codecs()[tensor].shards(gradients_.tensors()[tensor].dims);
    if (rule == nullptr) return all_gather_shards(identity());
    return all_gather_shards(std::move(codec), *rule);
  }

  void gather_exact(span_on<E, In> weights) {
    weights_.all_reduce_mean(weights);
    held_ = buffer<In, E>(exec_, weights.size());
    exec_.copy(held_.data(), weights.data(), value_bytes<In>(weights.size()));
    weights_.change(compressed_);
  }
  /// Replaces the weights of this rank's shards by their difference from the received weights. All ranks add the decoded
  /// differences to the received weights.
  void gather_difference(span_on<E, In> weights) {
    std::uint64_t first = 0;
    for (std::size_t i = 0; i < weights_.tensors().size(); first += weights_.tensors()[i++].dims.n) {
      auto const own = shard(i);
      auto const at = first + own.first;
      exec_.for_each_index(own.n, detail::scale_difference<In>{held_.data() + at, weights.data() + at, 1});
    }
    weights_.all_reduce_mean(weights);
    exec_.for_each_index(weights.size(), detail::add_difference<In>{weights.data(), held_.data()});
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
  gradient_exchange<In, E, Comm> weights_;
  std::vector<codec_type> compressed_, exact_;
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
