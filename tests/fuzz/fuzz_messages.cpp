// tests/fuzz/fuzz_messages.cpp — what other ranks send, edited: verbs, exchanges, and how ranks find out that they agree.
// The first byte chooses the call; the rest are edits of what arrives.
#include <pith/adaptor/checked.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/control/gradiveq.hpp>
#include <pith/exchange/all_gather.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reduce_scatter_mean.hpp>
#include <pith/vector_quantize/product_quantizer.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <vector>

#include "input.hpp"
#include "spoiled_group.hpp"
#include "state_exchanges.hpp"
#include "support/parsed.hpp"

namespace {

using fuzz::input;
using fuzz::spoiled_group;

/// Whether the call returned. It may throw the errors that stand for damaged messages and for ranks that differ.
template <class F>
bool returns(F const& call) {
  try {
    call();
    return true;
  } catch (pith::communication_error const&) {
  } catch (pith::agreement_error const&) {
  } catch (std::invalid_argument const&) {  // such as bytes that are no basis
  }
  return false;
}

/// The first or the last of four ranks, the last of nine, or one alone.
spoiled_group group_of(input& from) {
  struct place {
    unsigned rank, size;
  };
  static constexpr place places[] = {{0, 4}, {3, 4}, {8, 9}, {0, 1}};
  auto const at = places[from.take_below(std::size(places))];
  return {at.rank, at.size, from};
}

/// For each codec: without state, as parts of a tensor need it.
constexpr char const* stateless[] = {"identity",
                                     "cast<half>",
                                     "scaled_sign(8)",
                                     "sign",
                                     "one_bit(8)",
                                     "terngrad(0,8)",
                                     "trits(qsgd<2>)",
                                     "natural<9>",
                                     "eight_bit(8)",
                                     "qsgd<4>",
                                     "qsgd<10>",
                                     "top_k(0.2)",
                                     "threshold(0.5,0.3)",
                                     "redsync(0.1)",
                                     "redsync_mean(0.1)",
                                     "random_k(0.3)",
                                     "random_k(0.3,none,own)",
                                     "random_blocks(0.3,4)",
                                     "top_k(0.5)|qsgd<4>",
                                     "threshold(0.5,0.3,dense)",
                                     "damped(qsgd<2>)",
                                     "hadamard(64)"};

constexpr std::uint64_t part_sizes[] = {1, 43, 300, 1100};

/// One of those, one whose payloads are verified, or one of a codebook.
template <class T>
pith::any_codec<T, pith::seq_executor> stateless_codec(std::size_t which) {
  static auto const flag = pith::error_flag(pith::seq);
  if (which < std::size(stateless)) return pith::parse<T>(stateless[which]);
  if (which == std::size(stateless)) return pith::checked(pith::parse<T>("qsgd<4>"), flag);
  return pith::product_quantizer<5>(pith::codebook::directions(4, 32, 3));
}

template <class T>
void part(input& from) {
  auto comm = group_of(from);
  auto const codec = stateless_codec<T>(from.take_below(std::size(stateless) + 2));
  auto const n = part_sizes[from.take_below(std::size(part_sizes))];
  auto const over = pith::parts_for(n, comm.size(), codec);
  auto const id = pith::tensor_id{7, 3, static_cast<std::uint16_t>(comm.rank())};
  auto x = std::vector<T>(n), own = std::vector<T>(over.dims(comm.rank()).n);
  for (std::size_t i = 0; i < n; ++i) x[i] = pith::element_cast<T>(static_cast<float>(i * 29 % 23) - 11);
  auto const bytes = std::max(pith::reduce_scatter_mean_workspace_bytes<T>(pith::seq, codec, over, comm.size()),
                              pith::all_gather_workspace_bytes<T>(pith::seq, codec, over, comm.size()));
  auto memory = std::vector<std::byte>(bytes);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto whole_state = pith::make_state<T>(pith::seq, codec, {n}, id);
  auto part_state = pith::make_state<T>(pith::seq, codec, over.dims(comm.rank()), id);
  pith::reduce_scatter_mean<T>(pith::seq, comm, codec, over, pith::span<T const>(x), pith::span<T>(own), whole_state,
                               ws);
  pith::all_gather<T>(pith::seq, comm, codec, over, pith::span<T const>(own), pith::span<T>(x), part_state, ws);
}

constexpr pith::exchange_options options[] = {
    {.seed = 5},
    {.seed = 5, .bucket_bytes = 200, .is_weighted = true, .verification = pith::verify::each_step},
    {.seed = 5, .gather_mode = pith::gather::exact, .is_weighted = true},
    {.seed = 5, .gather_mode = pith::gather::exact, .bucket_bytes = 200, .verification = pith::verify::each_step},
    {.seed = 5, .gather_mode = pith::gather::predicted}};

/// Some steps, with fit_buckets() after each. After an exception the exchange is unusable until its state is restored.
template <class T, class Exchange>
void take_steps(Exchange& exchange) {
  auto saved = std::vector<std::byte>();
  if (!returns([&] { saved = exchange.export_state(); })) return;
  for (unsigned i = 0; i < 4; ++i) {
    auto g = fuzz::gradient<T>(i);
    if (returns([&] { exchange.all_reduce_mean(pith::span<T>(g)); })) {
      static_cast<void>(returns([&] { exchange.fit_buckets(); }));
      continue;
    }
    if (!returns([&] { exchange.import_state(saved); })) return;
  }
}

/// One of those whose states are saved, or one whose payloads are verified, as far as they are gathered.
template <class T>
pith::any_codec<T, pith::seq_executor> stateful_codec(std::size_t which) {
  static auto const flag = pith::error_flag(pith::seq);
  if (which < std::size(fuzz::exchange_cases)) return pith::parse<T>(fuzz::exchange_cases[which].codec);
  auto const is_gathered = which == std::size(fuzz::exchange_cases);
  return pith::checked(pith::parse<T>(is_gathered ? "ef(top_k(0.25))" : "ef(power_sgd(2))"), flag);
}

template <class T>
void exchange(input& from) {
  using exchange = pith::gradient_exchange<T, pith::seq_executor, spoiled_group>;
  auto comm = group_of(from);
  auto const codec = stateful_codec<T>(from.take_below(std::size(fuzz::exchange_cases) + 2));
  auto const& how = options[from.take_below(std::size(options))];
  auto made = std::optional<exchange>();
  if (returns([&] { made.emplace(pith::seq, comm, fuzz::tensors, codec, how); })) take_steps<T>(*made);
}

/// Of no tensors, there is still something to agree on.
void no_tensors(input& from) {
  auto comm = group_of(from);
  returns([&] {
    auto made = pith::make_exchange<float>(pith::seq, comm, {}, pith::parse<float>("identity"), options[1]);
    for (unsigned i = 0; i < 4; ++i) made.all_reduce_mean(pith::span<float>());
  });
}

template <class R>
void adaptive(R const& controller, input& from) {
  using exchange = pith::adaptive_exchange<float, pith::seq_executor, spoiled_group, R>;
  auto comm = group_of(from);
  auto const codec = pith::parse<float>("ef(rated(top_k(0.25)))");
  auto made = std::optional<exchange>();
  if (returns([&] { made.emplace(pith::seq, comm, fuzz::tensors, codec, controller, options[1]); }))
    take_steps<float>(*made);
}

/// Rank 3 receives the bases that rank 0 learns.
void schedule(input& from) {
  auto comm = group_of(from);
  returns([&] {
    auto exchange =
        pith::make_exchange<float>(pith::seq, comm, fuzz::tensors, pith::parse<float>("identity"), options[0]);
    auto made = pith::gradiveq(pith::seq, comm, exchange, {{0, {4, 6, 2, 2}, 24}},
                               {.warm_up = 1, .samples = 2, .compressed = 2, .first_losses = 1});
    for (unsigned i = 0; i < 6; ++i) {
      auto g = fuzz::gradient<float>(i);
      made.all_reduce_mean(pith::span<float>(g));
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static constexpr void (*calls[])(input&) = {part<float>,
                                              part<double>,
                                              part<pith::half>,
                                              part<pith::bfloat16>,
                                              exchange<float>,
                                              exchange<double>,
                                              exchange<pith::bfloat16>,
                                              no_tensors,
                                              [](input& from) { adaptive(fuzz::short_gravac(), from); },
                                              [](input& from) { adaptive(fuzz::short_accordion(), from); },
                                              [](input& from) { adaptive(fuzz::short_l_greco(), from); },
                                              schedule};
  auto from = input(data, size);
  calls[from.take_below(std::size(calls))](from);
  return 0;
}
