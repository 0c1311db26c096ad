// pith/collective/detail/shard_exchange.hpp — the common base of collectives whose parts are the shards of a rule.
#pragma once

#include <pith/codec/state.hpp>
#include <pith/collective/detail/codec_exchange.hpp>
#include <pith/collective/sharding.hpp>

#include <string>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The base class of a collective of one round that wraps a codec C, and encodes each shard of a tensor as a vector. The
/// derived class defines the round.
template <class C>
class shard_exchange : public codec_exchange<C> {
  using base = codec_exchange<C>;

 public:
  std::string name() const { return rule_.name_of(base::word(), base::wrapped().name()); }

  template <class In, executor E>
  auto make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
    return base::template replicated_with<In>(exec, id, dims);
  }
  template <class In, executor E>
  auto make_local(E const& exec, shape const& dims) const {
    return base::template local_with<In>(exec, dims);
  }

  unsigned rounds(shape const&, unsigned) const { return 1; }

 protected:
  shard_exchange(char const* word, C codec, sharding rule) : base(word, std::move(codec)), rule_(std::move(rule)) {}

  sharding const& rule() const { return rule_; }
  tensor_shards over(shape const& dims, unsigned ranks) const {
    rule_.require_fit(base::word(), dims, ranks);
    return {rule_, dims, ranks};
  }

 private:
  sharding rule_;
};

}}}  // namespace pith::PITH_ABI::detail
