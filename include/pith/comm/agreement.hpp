// pith/comm/agreement.hpp — all ranks must exchange the same tensors by the same codecs: said, not hung on.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/digest.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace pith::inline v0::detail {

/// What a rank is about to exchange: one hash for each thing that must agree, and its codecs in words.
struct agreement {
  std::uint64_t kind = 0, seed = 0, tensors = 0, codecs = 0;
  std::array<char, 224> words = {};

  void say(std::string const& text) { std::copy_n(text.data(), std::min(text.size(), words.size() - 1), words.data()); }
};
static_assert(sizeof(agreement) == 256);

inline char const* difference(agreement const& a, agreement const& b) {
  if (a.kind != b.kind) return "the element type, executor, gathering or version";
  if (a.tensors != b.tensors) return "the list of tensors";
  if (a.codecs != b.codecs) return "codecs";
  if (a.seed != b.seed) return "the seed";
  return nullptr;
}

/// Throws on all ranks if any differs from rank 0. One gathering of 256 bytes.
template <class Comm, executor E>
void require_agreement(E const& exec, Comm& comm, agreement const& mine) {
  auto const sent = buffer<std::byte, E>(exec, sizeof mine);
  auto const all = buffer<std::byte, E>(exec, sizeof mine * comm.size());
  auto each = std::vector<agreement>(comm.size());
  exec.upload(sent.data(), &mine, sizeof mine);
  comm.all_gather(exec, span_on<E, std::byte const>(sent.view()), all.view()).wait(exec);
  exec.download(each.data(), all.data(), all.size());
  for (unsigned rank = 1; rank < comm.size(); ++rank) {
    auto const* const what = difference(each[0], each[rank]);
    if (what == nullptr) continue;
    throw agreement_error(sentence("gradient_exchange: rank ", rank, " differs from rank 0 in ", what, ": \"",
                                   each[rank].words.data(), "\", not \"", each[0].words.data(), "\""));
  }
}

}  // namespace pith::inline v0::detail
