// tests/codec/any_chain_test.cpp — chains of custom stages, whose types are known or erased.
#include <pith/codec/any_chain.hpp>
#include <pith/codec/chain.hpp>
#include <pith/codec/compress.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// Copies values through scratch memory of scratch_bytes() bytes.
struct copying : pith::codec_base {
  template <class In>
  using output = In;

  template <class In, pith::executor E>
  std::size_t scratch_bytes(E const&, pith::shape const& dims) const {
    return pith::scratch_for<In>(dims.n);
  }
  template <pith::real In, pith::executor E>
  void encode(pith::context<In, E> const& cx, pith::values_on<E, In const> x, pith::encoded_on<E, In> y) const {
    copy(cx, x.data, y.values.data);
  }
  template <pith::real In, pith::executor E>
  void decode(pith::context<In, E> const& cx, pith::encoded_on<E, In const> y, pith::values_on<E, In> x) const {
    copy(cx, y.values.data, x.data);
  }

 private:
  template <class In, class E>
  static void copy(pith::context<In, E> const& cx, In const* from, In* to) {
    auto const between = cx.ws.template take<In>(cx.dims.n);
    cx.exec.copy(between.data, from, cx.dims.n * sizeof(In));
    cx.exec.copy(to, between.data, cx.dims.n * sizeof(In));
  }
};

struct linear : copying {
  static constexpr pith::codec_traits traits = {.reproducible = true, .sums = pith::sum_form::encode};
  std::string name() const { return "linear"; }
};
struct adding : copying {
  using facets = pith::ext::facets<pith::ext::ranks>;
  static constexpr pith::codec_traits traits = {.reproducible = true};
  std::string name() const { return "adding"; }

  template <pith::real In, pith::executor E>
  void decode_ranks(pith::context<In, E> const& cx, pith::gathered_on<E, In> in, pith::accum<In> factor,
                    pith::values_on<E, In> x) const {
    auto const sum = cx.ws.template take<In>(cx.dims.n);
    std::fill_n(sum.data, cx.dims.n, In{});
    for (unsigned rank = 0; rank < in.ranks; ++rank) {
      auto const* const own = reinterpret_cast<std::byte const*>(in.values.data) + rank * in.stride;
      for (std::uint64_t i = 0; i < cx.dims.n; ++i) sum.data[i] += reinterpret_cast<In const*>(own)[i];
    }
    for (std::uint64_t i = 0; i < cx.dims.n; ++i) x.data[i] = factor * sum.data[i];
  }
};
/// Declares that its payloads can be summed, but has side information.
struct sided : linear {
  std::string name() const { return "sided"; }
  template <class In>
  std::size_t side_bytes(pith::shape const&) const {
    return 64;
  }
};

using stage = pith::any_stage<float, pith::seq_executor>;
using chain = pith::any_chain<float, pith::seq_executor>;

/// The mean over ranks whose gradients are 1, 2, ..., in a workspace of exchange_scratch_bytes() bytes.
template <class C>
std::vector<float> mean_of(C const& codec, unsigned ranks) {
  constexpr auto dims = pith::vector(300);
  auto const moves = pith::detail::transfer_of<float>(codec, 0, dims, ranks);
  auto const stride = pith::detail::padded_bytes(moves);
  auto const needed = pith::detail::exchange_scratch_bytes<float>(codec, pith::seq, dims, ranks);
  auto memory = std::vector<std::byte>(needed + pith::detail::scratch_alignment), all = std::vector<std::byte>();
  auto ws = pith::workspace<>(memory);
  auto state = pith::make_state<float>(pith::seq, codec, dims);
  auto const cx = state.context_on(pith::seq, ws, ranks);
  for (unsigned rank = 0; rank < ranks; ++rank) {
    auto const x = std::vector<float>(dims.n, static_cast<float>(rank + 1));
    auto out = std::vector<std::byte>(stride);
    pith::detail::produce<float>(codec, cx, 0, {x.data(), dims.n}, pith::span(out), state.replicated(), state.local());
    all.insert(all.end(), out.begin(), out.end());
  }
  auto mean = std::vector<float>(dims.n);
  pith::detail::absorb<float>(codec, cx, 0, {pith::span<std::byte const>(all), stride}, {mean.data(), dims.n},
                              state.replicated(), state.local());
  return mean;
}

}  // namespace

TEST_CASE("a chain decodes a sum in a workspace of exchange_scratch_bytes") {
  auto const expected = std::vector<float>(300, 1.5f);
  CHECK(mean_of(linear() | adding(), 2) == expected);
  CHECK(mean_of(linear() | linear() | adding(), 2) == expected);
  CHECK(mean_of(chain({stage(linear()), stage(adding())}), 2) == expected);
  CHECK(mean_of(chain({stage(linear()), stage(linear()), stage(adding())}), 2) == expected);
}

TEST_CASE("a summable stage with side information is refused, also in a chain whose types are erased") {
  auto const refuses = [](auto const& codec, char const* message) {
    CHECK_THROWS_WITH_AS(mean_of(codec, 2), message, std::invalid_argument);
  };
  refuses(sided(), "pith::stage: a summable stage must have no side information, got 64 bytes of sided");
  refuses(chain({stage(linear()), stage(sided())}),
          "pith::stage: a summable stage must have no side information, got 64 bytes of linear|sided");
}
