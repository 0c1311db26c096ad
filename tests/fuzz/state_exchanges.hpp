// tests/fuzz/state_exchanges.hpp — bytes that exchanges saved.
#pragma once

#include <pith/codec/compressor.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reshard.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "edit.hpp"
#include "spoiled_group.hpp"
#include "state_controllers.hpp"
#include "support/parsed.hpp"

namespace fuzz {

inline std::vector<pith::tensor_spec> const tensors = {{"weight", {96, 12}}, {"bias", {12}}, {"head", {40}}};
inline constexpr std::size_t elements = 148;

template <class T>
std::vector<T> gradient(unsigned step) {
  auto g = std::vector<T>();
  for (unsigned i = 0; i < elements; ++i)
    g.push_back(pith::element_cast<T>(static_cast<float>((i * 29 + step * 7) % 23) - 11));
  return g;
}

/// Rank 0 of four, without spoiled bytes.
inline spoiled_group& whole_group() {
  static auto nothing = input(nullptr, 0);
  static auto group = spoiled_group(0, 4, nothing);
  return group;
}

/// A state in parts, which may be edited one by one, and the bytes of all of them with sizes and checksums that are right.
using parts = std::vector<std::vector<std::byte>>;

inline std::vector<std::byte> bytes_of(std::string_view words) {
  auto const* const first = reinterpret_cast<std::byte const*>(words.data());
  return {first, first + words.size()};
}
inline std::string words_of(std::vector<std::byte> const& bytes) {
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

/// The format of a gradient_exchange: the words, the states.
struct plain_format {
  static parts open(pith::span<std::byte const> saved) {
    auto const [words, states] = pith::detail::open_states("fuzz", saved);
    return {bytes_of(words), {states.begin(), states.end()}};
  }
  static std::vector<std::byte> seal(parts const& of) { return pith::detail::save_states(words_of(of[0]), of[1]); }
};

/// The format of an adaptive_exchange: the parts of its exchange, the words and the bytes of its controller, and a
/// header of three words. The second word is the number of bytes of the controller.
struct adaptive_format {
  static constexpr std::size_t header = 24;

  static parts open(pith::span<std::byte const> saved) {
    auto const [words, all] = pith::detail::open_states("fuzz", saved);
    std::uint64_t size = 0;
    std::memcpy(&size, all.data() + 8, sizeof size);
    auto const controller = all.subspan(header, size);
    auto of = plain_format::open(all.subspan(header + size));
    of.push_back(bytes_of(words));
    of.emplace_back(controller.begin(), controller.end());
    of.emplace_back(all.begin(), all.begin() + header);
    return of;
  }
  static std::vector<std::byte> seal(parts of) {
    of[4].resize(header);
    put_at(pith::span<std::byte>(of[4]), 8, std::uint64_t{of[3].size()});
    auto all = of[4];
    auto const inside = plain_format::seal(of);
    all.insert(all.end(), of[3].begin(), of[3].end());
    all.insert(all.end(), inside.begin(), inside.end());
    return pith::detail::save_states(words_of(of[2]), all);
  }
};

/// An exchange that has taken a few steps, what it saved then, and the means of the next step.
template <class T, class Format, class Exchange>
class saved_exchange {
 public:
  explicit saved_exchange(Exchange exchange) : exchange_(std::move(exchange)) {
    for (unsigned i = 0; i < 5; ++i) step(i);
    saved_ = exchange_.export_state();
    parts_ = Format::open(saved_);
    exchange_.import_state(saved_);
    means_ = step(5);
  }

  /// What is refused changes nothing: states, codecs and means are what they would have been. What is accepted is what
  /// is saved next, and steps go on from it.
  void import(input& from) {
    exchange_.import_state(saved_);
    auto const bytes = edited(from);
    reshard(bytes);
    if (!accepts([&] { exchange_.import_state(bytes); })) {
      require(exchange_.export_state() == saved_, "a refused state changed an exchange");
      auto const means = step(5);
      return require(std::memcmp(means.data(), means_.data(), means.size() * sizeof(T)) == 0,
                     "a refused state changed means");
    }
    auto const first = exchange_.export_state();
    exchange_.import_state(first);
    require(exchange_.export_state() == first, "a state is not the one that was imported");
    for (unsigned i = 6; i < 9; ++i) step(i);
    exchange_.export_state();
  }

 private:
  /// The state of one rank that is left of a job is refused, or three ranks go on with what as many make the same of.
  static void reshard(std::vector<std::byte> const& bytes) {
    auto made = std::vector<std::vector<std::byte>>();
    if (!accepts([&] { made = pith::reshard({bytes}, 3); })) return;
    require(pith::reshard(made, 3) == made, "states of as many ranks are other states");
  }

  std::vector<T> step(unsigned number) {
    auto g = gradient<T>(number);
    exchange_.all_reduce_mean(pith::span<T>(g));
    return g;
  }
  /// The first byte says how many edits there are of parts, and whether there is one of all.
  std::vector<std::byte> edited(input& from) const {
    auto of = parts_;
    auto const how = from.take_byte();
    for (auto edits = how % 8; edits > 0; --edits) resize_or_edit(of[from.take_below(of.size())], from);
    auto bytes = Format::seal(of);
    if (how / 8 % 8 == 1) resize_or_edit(bytes, from);
    return bytes;
  }

  Exchange exchange_;
  std::vector<std::byte> saved_;
  parts parts_;
  std::vector<T> means_;
};

struct exchange_case {
  char const* codec;
  pith::gather how = pith::gather::padded;
};

/// Each kind of state that a codec keeps.
inline constexpr exchange_case exchange_cases[] = {{"ef(top_k(0.25)|qsgd<4>)"},
                                                   {"ef(top_k(0.25),momentum_correction(0.9))"},
                                                   {"ef(threshold(0.5,0.3))", pith::gather::exact},
                                                   {"ef(redsync(0.1))", pith::gather::predicted},
                                                   {"ef(power_sgd(2))"},
                                                   {"ef(one_sided_power_sgd(2))"},
                                                   {"ef(scaled_sign(8),ef21)"},
                                                   {"ef(scaled_sign,two_sided(scaled_sign(8)))"},
                                                   {"ef(sign,signum_momentum(0.9),unverified)"},
                                                   {"ef(random_k(0.3,none,own),mean_residual(0.9,0.5))"},
                                                   {"ef(ok_top_k(0.2))"},
                                                   {"ef(g_top_k(0.2))"},
                                                   {"ef(two_shot(scaled_sign))"},
                                                   {"ring(qsgd<8>)"},
                                                   {"hierarchical(qsgd<8>,ef(top_k(0.2)),2)"},
                                                   {"bypass(ef(hadamard(64)|scaled_sign),64)"},
                                                   {"ef(identity,momentum_correction(0.9))"},
                                                   {"ef(ok_top_k(0.2),mean_residual(0.9,0.5))"},
                                                   {"g_top_k(0.2)"},
                                                   {"hadamard(64)"},
                                                   {"hadamard(64)|random_k(0.5)"},
                                                   {"hadamard(64)|summed_terngrad"},
                                                   {"one_sided_power_sgd(2)"},
                                                   {"power_sgd(2)"},
                                                   {"summed_sign"},
                                                   {"summed_terngrad"}};

template <class T>
void import_exchange(input& from) {
  using exchange = pith::gradient_exchange<T, pith::seq_executor, spoiled_group>;
  using saved = saved_exchange<T, plain_format, exchange>;
  static auto all = [] {
    auto made = std::vector<saved>();
    for (auto const& c : exchange_cases)
      made.emplace_back(
          exchange(pith::seq, whole_group(), tensors, pith::parse<T>(c.codec), {.seed = 5, .gather_mode = c.how}));
    return made;
  }();
  all[from.take_below(all.size())].import(from);
}

/// A compressor with the members of an exchange: the mean of one rank is its decoded payload.
class compressor_alone {
 public:
  explicit compressor_alone(char const* codec) : made_(pith::parse<float>(codec), pith::vector(elements), {5, 2, 1}) {}

  void all_reduce_mean(pith::span<float> g) { made_.decompress(made_.compress(g), g); }
  std::vector<std::byte> export_state() { return made_.export_state(); }
  void import_state(pith::span<std::byte const> bytes) { made_.import_state(bytes); }

 private:
  pith::compressor<float> made_;
};

inline void import_compressor(input& from) {
  using saved = saved_exchange<float, plain_format, compressor_alone>;
  static auto all = [] {
    auto made = std::vector<saved>();
    for (auto const& c : exchange_cases) made.emplace_back(compressor_alone(c.codec));
    return made;
  }();
  all[from.take_below(all.size())].import(from);
}

template <class R>
void import_adaptive(R const& controller, input& from) {
  using exchange = pith::adaptive_exchange<float, pith::seq_executor, spoiled_group, R>;
  static auto all = [&] {
    auto made = exchange(pith::seq, whole_group(), tensors, pith::parse<float>("ef(rated(top_k(0.25)))"), controller,
                         {.seed = 5});
    made.set_learning_rate(0.1);
    return saved_exchange<float, adaptive_format, exchange>(std::move(made));
  }();
  all.import(from);
}
inline void import_gravac(input& from) { import_adaptive(short_gravac(), from); }
inline void import_accordion(input& from) { import_adaptive(short_accordion(), from); }
inline void import_l_greco(input& from) { import_adaptive(short_l_greco(), from); }

}  // namespace fuzz
