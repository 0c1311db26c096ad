// pith/exchange/detail/predicted_gather.hpp — payload sizes for an all-gather, predicted from the previous step.
#pragma once

#include <pith/core/buffer.hpp>
#include <pith/core/detail/late_copy.hpp>
#include <pith/core/error.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/detail/gather.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Writes the maximum of the ranks' counts, which are `stride` bytes apart.
struct largest_count {
  std::byte const* counts;
  std::size_t stride;
  unsigned ranks;
  std::uint32_t* largest;
  PITH_HD void operator()(std::uint64_t) const {
    std::uint32_t most = 0;
    for (unsigned r = 0; r < ranks; ++r) {
      auto const count = *reinterpret_cast<std::uint32_t const*>(counts + r * stride);
      most = count > most ? count : most;
    }
    *largest = most;
  }
};

/// The capacity that is predicted from the largest count of the previous step.
constexpr std::uint64_t predicted_room(std::uint32_t count) { return std::uint64_t{count} + count / 4 + 8; }

/// The capacity of each tensor's payload in a step. Capacities are equal on all ranks, since all ranks received all
/// counts in the previous step.
template <real In, executor E>
class predicted_gather {
 public:
  predicted_gather(E const& exec, std::vector<tensor_spec> const& tensors,
                   std::vector<any_codec<In, E>> const& codecs) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      dims_.push_back(tensors[i].dims);
      place_of_.push_back(varying_.size());
      if (does_vary(tensors[i], codecs[i])) varying_.push_back({i, codecs[i], tensors[i].dims.capacity});
    }
    counts_ = buffer<std::uint32_t, E>(exec, varying_.size());
    late_ = late_copy<E>(varying_.size());
  }

  shape const& dims(std::size_t tensor) const { return dims_[tensor]; }

  /// Sets the capacities for a step. In the first step, all payloads have full capacity.
  void begin_step(E const& exec) {
    auto const* const counts = is_predicted_ ? late_.read(exec) : nullptr;
    for (std::size_t i = 0; i < varying_.size(); ++i) {
      auto const& v = varying_[i];
      dims_[v.tensor].capacity = is_predicted_ ? std::min(v.capacity, predicted_room(counts[i])) : v.capacity;
    }
  }

  /// Records the largest count of a tensor's payloads over all ranks.
  void note(E const& exec, std::size_t tensor, received_on<E> in, unsigned ranks) {
    auto const i = place_of_[tensor];
    if (i == varying_.size() || varying_[i].tensor != tensor) return;
    auto place = last_count();
    visit_pieces<In>(varying_[i].codec, dims_[tensor], place);
    exec.for_each_index(1, largest_count{in.bytes.data() + place.at, in.stride, ranks, counts_.data() + i});
  }

  void end_step(E const& exec) {
    late_.ask(exec, counts_.data());
    is_predicted_ = true;
  }

  /// Resets the prediction, so that payloads have full capacity in the next step.
  void forget() { is_predicted_ = false; }

 private:
  static bool does_vary(tensor_spec const& tensor, any_codec<In, E> const& codec) {
    auto const counts = counts_of<In>(codec, tensor.dims).size();
    if (counts == 0) return false;
    if (counts != 1) {
      throw std::invalid_argument(sentence("gradient_exchange: gather::predicted needs a payload with 1 count, got ",
                                           counts, " of ", codec.name(), " for tensor \"", tensor.name, "\""));
    }
    if (codec.capabilities_for(tensor.dims).rates != rate_form::fed_back) {
      throw std::invalid_argument(sentence(
          "gradient_exchange: gather::predicted needs error feedback around a codec of variable rate, as ",
          "error_feedback(threshold(tau, capacity)), got ", codec.name(), " for tensor \"", tensor.name, "\""));
    }
    return true;
  }

  struct varying {
    std::size_t tensor;
    any_codec<In, E> codec;
    std::uint64_t capacity;  ///< that of the tensor
  };
  struct last_count final : piece_visitor {
    std::size_t at = 0;

    std::uint32_t count(std::size_t side, std::size_t offset, std::uint64_t) override {
      at = side + offset;
      return 0;
    }
    void piece(payload_piece const&) override {}
  };

  std::vector<shape> dims_;
  std::vector<varying> varying_;
  std::vector<std::size_t> place_of_;  ///< index in varying_ of each tensor whose payload size varies
  buffer<std::uint32_t, E> counts_;
  late_copy<E> late_;
  bool is_predicted_ = false;
};

}}}  // namespace pith::PITH_ABI::detail
