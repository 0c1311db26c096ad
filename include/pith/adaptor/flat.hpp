// pith/adaptor/flat.hpp — a mark for codecs that encode the tensors of a bucket as one vector.
#pragma once

#include <pith/codec/any_codec.hpp>

#include <utility>

namespace pith { inline namespace PITH_ABI {

/// Marks a codec. An exchange joins the tensors of a tensor bucket that have the same flat codec to one vector, with one
/// payload and one state. So one top_k, for example, selects among the elements of all these tensors.
///
///     auto exchange = pith::make_exchange<float>(exec, comm, tensors, pith::flat(pith::error_feedback(pith::top_k(0.01))));
///
/// exchange_options::bucket_bytes limits the vectors. Outside an exchange, the codec works as C does.
///
///   state       that of C for the vector, saved with the last tensor of the vector. A job that imports the state must
///               have the same tensors in the same order, and the same bucket_bytes
///   complexity  that of C for the vector, and memory for the vector. If the gradients of the vector do not lie one
///               after another in memory, also two copies of them in each step
///   errors      std::invalid_argument if C computes the mean of a shard only (reduce_scatter)
///   properties  a vector has no rows, so low-rank codecs send it uncompressed
template <class C>
class flat {
 public:
  explicit flat(C codec) : codec_(std::move(codec)) {}

  template <real In, executor E>
  operator any_codec<In, E>() const {
    return any_codec<In, E>(codec_).flattened();
  }

 private:
  C codec_;
};

}}  // namespace pith::PITH_ABI
