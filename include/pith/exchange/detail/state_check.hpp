// pith/exchange/detail/state_check.hpp — a check before a step for equal steps, codecs and replicated states.
#pragma once

#include <pith/codec/state.hpp>
#include <pith/comm/detail/call_label.hpp>
#include <pith/core/digest.hpp>
#include <pith/exchange/detail/agreement.hpp>
#include <pith/exchange/detail/exchanged_tensors.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A visitor that computes the digest of the visited fields.
template <executor E>
struct field_digest final : field_visitor {
  explicit field_digest(E const& e) : exec(e) {}

  void visit(void* data, std::size_t n) override {
    bytes.resize(n);
    exec.download(bytes.data(), data, n);
    seen << std::string_view(bytes.data(), n);
  }

  E const& exec;
  std::vector<char> bytes;
  digest seen;
};

template <executor E>
std::uint64_t digest_of(E const& exec, auto& state) {
  auto d = field_digest<E>(exec);
  state.fields(d);
  return d.seen.value();
}

/// The step counter of a tensor's state, and digests of the tensor's codec and of the tensor's replicated state.
struct state_digest {
  std::uint64_t steps = 0, codec = 0, replicated = 0;
  friend bool operator==(state_digest const&, state_digest const&) = default;
};

/// Whether ranks compare replicated states, or only steps and codecs.
enum class compared : std::uint8_t { states, steps };

template <real In, executor E>
std::vector<state_digest> state_digests(E const& exec, exchanged_tensors<In, E>& all, compared how) {
  auto digests = std::vector<state_digest>(all.specs().size());
  for (std::size_t i = 0; i < digests.size(); ++i) {
    exec.download(&digests[i].steps, all.state(i).id().step, sizeof digests[i].steps);
    digests[i].codec = (digest() << all.codecs()[i].name()).value();
    if (how == compared::states) digests[i].replicated = digest_of(exec, all.state(i).replicated());
  }
  return digests;
}

[[noreturn]] inline void throw_difference(std::string const& tensor, std::size_t rank, state_digest const& its,
                                          state_digest const& first) {
  if (its.steps != first.steps) {
    throw agreement_error(sentence("gradient_exchange: rank ", rank, " differs from rank 0 in the step of tensor \"",
                                   tensor, "\": ", its.steps, ", not ", first.steps));
  }
  if (its.codec != first.codec) {
    throw agreement_error(sentence("gradient_exchange: rank ", rank, " differs from rank 0 in the codec of tensor \"",
                                   tensor, "\" after step ", its.steps));
  }
  throw agreement_error(sentence("gradient_exchange: rank ", rank,
                                 " differs from rank 0 in the replicated state of tensor \"", tensor, "\" after step ",
                                 its.steps));
}

/// Throws on all ranks if a rank starts a step of another exchange than rank 0.
template <real In, executor E, class Comm>
void require_same_exchange(E const& exec, Comm& comm, exchanged_tensors<In, E> const& all, std::uint32_t number) {
  auto const& specs = all.specs();
  auto const words = text("exchange ", number, " of ", specs.size(), " tensors", specs.empty() ? "" : ", the first is ",
                          specs.empty() ? "" : specs[0].name);
  auto const each = gather_on_host(exec, comm, std::vector(1, agreement::note(words)));
  auto const rank = first_difference(each, 1).first;
  if (rank == 0) return;
  throw agreement_error(sentence("gradient_exchange: rank ", rank, " starts the step of ", each[rank].words(),
                                 ", while rank 0 starts the step of ", each[0].words(),
                                 ": all ranks must make the steps of their exchanges in the same order"));
}

/// Throws on all ranks if a rank has begun more or fewer steps than rank 0. Then one of them skipped a step alone.
template <executor E, class Comm>
void require_same_skips(E const& exec, Comm& comm, std::uint64_t begun) {
  auto const each = gather_on_host(exec, comm, std::vector(1, begun));
  auto const rank = first_difference(each, 1).first;
  if (rank == 0) return;
  throw agreement_error(sentence("gradient_exchange: rank ", rank,
                                 " differs from rank 0 in the number of begun steps: ", each[rank], ", not ", each[0],
                                 ": all ranks must skip() the same steps"));
}

/// Throws on all ranks if the exchange of a rank differs from that of rank 0 in its number, its number of begun steps,
/// step counters, codecs or, if they are compared, replicated states.
template <real In, executor E, class Comm>
void require_equal_states(E const& exec, Comm& comm, exchanged_tensors<In, E>& all, std::uint32_t number,
                          std::uint64_t begun, compared how) {
  auto const by = calling({caller::check});
  auto const mine = state_digests(exec, all, how);
  auto whole = digest() << std::uint64_t{number} << begun;
  for (auto const& d : mine) whole << d.steps << d.codec << d.replicated;
  auto const summary = std::vector(1, state_digest{mine.empty() ? 0 : mine[0].steps, 0, whole.value()});
  auto const differs = first_difference(gather_on_host(exec, comm, summary), 1).first != 0;
  if (!all_see_difference(exec, comm, differs)) return;
  require_same_exchange(exec, comm, all, number);
  auto const each = gather_on_host(exec, comm, mine);
  auto const [rank, tensor] = first_difference(each, mine.size());
  if (rank != 0) throw_difference(all.specs()[tensor].name, rank, each[rank * mine.size() + tensor], each[tensor]);
  require_same_skips(exec, comm, begun);
  throw_no_difference();
}

}}}  // namespace pith::PITH_ABI::detail
