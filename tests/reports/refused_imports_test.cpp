// tests/reports/refused_imports_test.cpp — an object that refuses a state does not change: it exports equal bytes, and
// its next steps equal those of a twin that never received the state. Compare stanfordnlp/dspy#9589, where a failed
// load leaves a part of the new state.
#include <pith/codec/compressor.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/accordion.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/control/fixed_schedule.hpp>
#include <pith/control/gradiveq.hpp>
#include <pith/control/gravac.hpp>
#include <pith/control/l_greco.hpp>
#include <pith/control/warm_up.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/vector_quantize/pca_basis.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using bytes = std::vector<std::byte>;
using pith::seq;

std::vector<pith::tensor_spec> const imported_tensors = {{"conv", {96, 8}}, {"bias", {12}}, {"head", {40}}};
constexpr std::size_t imported_elements = 148;

pith::self_communicator& one_rank() {
  static auto comm = pith::self_communicator();
  return comm;
}
std::vector<float> imported_gradient(unsigned step, unsigned rank = 0) {
  auto g = std::vector<float>(imported_elements);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = std::sin(static_cast<float>(i * (step + 2) + 5 * rank));
  return g;
}
bytes bytes_of(std::vector<float> const& x) {
  auto copied = bytes(x.size() * sizeof(float));
  std::memcpy(copied.data(), x.data(), copied.size());
  return copied;
}
bytes joined(bytes a, bytes const& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// An object that imports states. `save` returns a state for `load`, and `look` returns everything that a test
/// compares.
struct import_subject {
  std::function<bytes()> save;
  std::function<void(bytes const&)> load;
  std::function<bytes()> step, look = save;
};
/// A kind of such objects. Saved states have a checksum if `is_sealed` is true. States of controllers have none.
struct importer {
  std::string name;
  bool is_sealed;
  std::function<import_subject()> make;
};

/// An importer of an exchange that `make` returns.
template <class Make>
importer exchange_of(std::string name, Make make) {
  return {std::move(name), true, [make] {
            auto e = std::make_shared<decltype(make())>(make());
            auto const steps = std::make_shared<unsigned>(0);
            return import_subject{[e] { return e->export_state(); }, [e](bytes const& from) { e->import_state(from); },
                                  [e, steps] {
                                    auto g = imported_gradient((*steps)++);
                                    e->all_reduce_mean(g);
                                    return bytes_of(g);
                                  }};
          }};
}
importer plain_exchange(char const* text, pith::exchange_options const& options = {}) {
  return exchange_of(std::string("exchange of ") + text, [=] {
    return pith::make_exchange<float>(seq, one_rank(), imported_tensors, pith::parse<float>(text), options);
  });
}
/// An exchange that imports states together with codecs.
importer exchange_with_codecs(char const* text) {
  auto one = plain_exchange(text);
  one.name += " with codecs";
  one.make = [text] {
    auto e = std::make_shared<pith::gradient_exchange<float, pith::seq_executor, pith::self_communicator>>(
        seq, one_rank(), imported_tensors, pith::parse<float>(text));
    auto const steps = std::make_shared<unsigned>(0);
    auto const others = std::vector<pith::any_codec<float>>(3, pith::parse<float>("ef(scaled_sign(8))"));
    return import_subject{[e] { return e->export_state(); },
                          [=](bytes const& from) {
                            CHECK_THROWS_AS(e->import_state(from, others), std::invalid_argument);
                            e->import_state(from, e->codecs());
                          },
                          [=] {
                            auto g = imported_gradient((*steps)++);
                            e->all_reduce_mean(g);
                            return bytes_of(g);
                          },
                          [e] {
                            auto seen = e->export_state();
                            for (auto const letter : e->codecs()[0].name())
                              seen.push_back(static_cast<std::byte>(letter));
                            return seen;
                          }};
  };
  return one;
}
template <class R>
importer adaptive_of(R const& controller) {
  return exchange_of("adaptive exchange of " + controller.name(), [=] {
    auto e = pith::make_adaptive_exchange<float>(seq, one_rank(), imported_tensors,
                                                 pith::parse<float>("ef(rated(top_k(0.25)))"), controller);
    e.set_learning_rate(0.1);
    return e;
  });
}
importer compressor_of(char const* text) {
  return {std::string("compressor of ") + text, true, [text] {
            auto c =
                std::make_shared<pith::compressor<float>>(pith::parse<float>(text), pith::vector(imported_elements));
            auto const steps = std::make_shared<unsigned>(0);
            return import_subject{[c] { return c->export_state(); }, [c](bytes const& from) { c->import_state(from); },
                                  [c, steps] {
                                    auto g = imported_gradient((*steps)++);
                                    c->decompress(c->compress(g), g);
                                    return bytes_of(g);
                                  }};
          }};
}
template <class R>
importer controller_of(R const& fresh) {
  return {fresh.name(), false, [fresh] {
            auto c = std::make_shared<R>(fresh);
            auto const steps = std::make_shared<std::uint64_t>(0);
            return import_subject{[c] { return c->save(); }, [c](bytes const& from) { c->load(from); },
                                  [c, steps] {
                                    auto reports = std::vector<pith::rate_report>();
                                    for (auto const rate : pith::detail::rates_to_measure(*c, ++*steps, 0))
                                      reports.push_back({0, rate, 2.0 + static_cast<double>(*steps), 1 + rate, 100});
                                    double const gradients[] = {1.0 + static_cast<double>(*steps % 3)};
                                    c->observe({*steps, 0.1, 1, {reports.data(), reports.size()}, {gradients, 1}});
                                    return bytes_of({static_cast<float>(c->decide(*steps + 1, 0))});
                                  }};
          }};
}

/// An exchange with its schedule.
template <class Comm>
struct scheduled {
  using exchange_type = pith::gradient_exchange<float, pith::seq_executor, Comm>;

  explicit scheduled(Comm& comm)
      : exchange(seq, comm, imported_tensors, pith::parse<float>("identity")),
        schedule(seq, comm, exchange, {{0, {4, 6, 2, 2}, 24}},
                 {.warm_up = 1, .samples = 3, .compressed = 4, .first_losses = 1}) {}
  scheduled(scheduled const&) = delete;

  bytes step(unsigned rank = 0) {
    auto g = imported_gradient(steps++, rank);
    schedule.all_reduce_mean(g);
    return bytes_of(g);
  }
  bytes look() const {
    auto seen = joined(schedule.export_state(), exchange.export_state());
    for (auto const letter : exchange.codecs()[0].name()) seen.push_back(static_cast<std::byte>(letter));
    return seen;
  }

  exchange_type exchange;
  pith::gradiveq<float, pith::seq_executor, Comm> schedule;
  unsigned steps = 0;
};
/// A schedule after `before` steps.
importer schedule_after(unsigned before) {
  return {"gradiveq after " + std::to_string(before) + " steps", true, [before] {
            auto s = std::make_shared<scheduled<pith::self_communicator>>(one_rank());
            for (unsigned i = 0; i < before; ++i) s->step();
            return import_subject{[s] { return s->schedule.export_state(); },
                                  [s](bytes const& from) { s->schedule.import_state(from); }, [s] { return s->step(); },
                                  [s] { return s->look(); }};
          }};
}

std::vector<importer> importers() {
  auto const gravac = pith::gravac({.window = 2, .samples = 1});
  auto const accordion = pith::accordion({.high_rate = 0.5, .low_rate = 0.1, .change = 0.01, .interval = 2});
  auto const l_greco = pith::l_greco({.rates = {0.5, 0.25, 0.1}, .reference = 0.25, .interval = 2, .bins = 100});
  auto const warm_up = pith::warm_up(0.01, 2);
  auto const fixed = pith::fixed_schedule({{1, 0.5}, {4, 0.1}});
  return {plain_exchange("identity"),
          plain_exchange("ef(top_k(0.25)|qsgd<4>)"),
          plain_exchange("ef(top_k(0.25)|qsgd<4>)", {.seed = 9}),
          plain_exchange("ef(top_k(0.1),momentum_correction(0.9))", {.is_recoverable = true}),
          plain_exchange("ef(threshold(0.5,0.3))", {.gather_mode = pith::gather::exact}),
          plain_exchange("ef(redsync(0.1))", {.gather_mode = pith::gather::predicted}),
          plain_exchange("ef(power_sgd(2))"),
          plain_exchange("ef(scaled_sign(8),ef21)"),
          plain_exchange("ring(qsgd<8>)"),
          plain_exchange("bypass(ef(hadamard(64)|scaled_sign),64)"),
          exchange_with_codecs("ef(top_k(0.25))"),
          compressor_of("ef(top_k(0.25)|qsgd<4>)"),
          compressor_of("ef(power_sgd(2))"),
          compressor_of("random_k(0.5)"),
          adaptive_of(gravac),
          adaptive_of(accordion),
          adaptive_of(l_greco),
          adaptive_of(warm_up),
          adaptive_of(fixed),
          controller_of(gravac),
          controller_of(accordion),
          controller_of(l_greco),
          controller_of(warm_up),
          controller_of(fixed),
          schedule_after(0),
          schedule_after(2),
          schedule_after(6)};
}

/// The sizes at which a state is cut off.
std::vector<std::size_t> cut_sizes(std::size_t size) {
  auto all = std::vector<std::size_t>{0, 1, 7, 8, 31, 32, 33, size / 4, size / 2, size / 2 + 1};
  for (std::size_t back = 1; back < 40; ++back) all.push_back(size - std::min(back, size));
  std::erase_if(all, [size](std::size_t cut) { return cut >= size; });
  return all;
}
/// Changes a byte of the state, and sets the right checksum.
bytes sealed_again(bytes state, std::size_t at) {
  state[at] ^= std::byte{0x11};
  auto const sum = pith::detail::checksum_of_saved(state);
  std::memcpy(state.data() + 8, &sum, sizeof sum);
  return state;
}

/// An object after three steps, its saved state, and the result of `look` before it receives wrong states.
struct import_trial {
  explicit import_trial(importer const& kind) : one(kind.make()) {
    for (int i = 0; i < 3; ++i) one.step();
    saved = one.save();
    seen = one.look();
  }

  /// Returns whether the object refuses a state, and checks that the object does not change.
  bool refuses(bytes const& state) {
    try {
      one.load(state);
    } catch (std::invalid_argument const&) {
      CHECK(one.look() == seen);
      return true;
    }
    one.load(saved);
    CHECK(one.look() == seen);
    return false;
  }

  import_subject one;
  bytes saved, seen;
};

void show_damaged(import_trial& t, bool is_sealed) {
  for (auto const cut : cut_sizes(t.saved.size())) {
    auto const is_refused = t.refuses(bytes(t.saved.begin(), t.saved.begin() + static_cast<std::ptrdiff_t>(cut)));
    CHECK((is_refused || !is_sealed));
  }
  for (std::size_t const more : {1u, 8u, 100u}) {
    auto const is_refused = t.refuses(joined(t.saved, bytes(more)));
    CHECK((is_refused || !is_sealed));
  }
  for (std::size_t at = 0; at < t.saved.size(); at += t.saved.size() < 200 ? 1 : 5) {
    auto damaged = t.saved;
    damaged[at] ^= std::byte{0x11};
    auto const is_refused = t.refuses(damaged);
    CHECK((is_refused || !is_sealed));
    if (is_sealed && at >= 16) t.refuses(sealed_again(t.saved, at));
  }
}

}  // namespace

TEST_CASE("an object that refuses a state does not change") {
  auto const kinds = importers();
  auto states = std::vector<bytes>();
  for (auto const& kind : kinds) states.push_back(import_trial(kind).saved);
  for (auto const& kind : kinds) {
    CAPTURE(kind.name);
    auto t = import_trial(kind), twin = import_trial(kind);
    show_damaged(t, kind.is_sealed);
    for (auto const& state : states) t.refuses(state);
    for (int i = 0; i < 4; ++i) CHECK(t.one.step() == twin.one.step());
    CHECK(t.one.look() == twin.one.look());
  }
}

TEST_CASE("a state whose step counter could overflow is refused") {
  auto const with_steps = [](bytes const& saved, std::size_t at, std::uint64_t steps) {
    auto const [words, states] = pith::detail::open_states("with_steps", saved);
    auto values = bytes(states.begin(), states.end());
    std::memcpy(values.data() + at, &steps, sizeof steps);
    return pith::detail::save_states(std::string(words), values);
  };
  constexpr auto bound = std::uint64_t{1} << 63;
  auto c = pith::compressor<float>(pith::parse<float>("random_k(0.5)"), pith::vector(imported_elements));
  auto const of_compressor = c.export_state();
  for (auto const steps : {bound, ~std::uint64_t{0}}) {
    CHECK_THROWS_WITH_AS(c.import_state(with_steps(of_compressor, 0, steps)),
                         doctest::Contains("the number of steps must be below 9223372036854775808, got "),
                         std::invalid_argument);
  }
  c.import_state(with_steps(of_compressor, 0, bound - 1));
  CHECK(c.step() == bound - 1);
  auto e = pith::make_exchange<float>(seq, one_rank(), imported_tensors, pith::parse<float>("ef(qsgd<4>)"));
  auto const of_exchange = e.export_state();
  for (std::size_t const at : {0u, 8u + 96 * 4, 16u + 108 * 4}) {  // a tensor has a step counter and its residual
    CHECK_THROWS_AS(e.import_state(with_steps(of_exchange, at, bound)), std::invalid_argument);
    CHECK(e.export_state() == of_exchange);
  }
  auto adaptive = pith::make_adaptive_exchange<float>(
      seq, one_rank(), imported_tensors, pith::parse<float>("ef(rated(top_k(0.25)))"), pith::warm_up(0.01, 2));
  auto const of_adaptive = adaptive.export_state();
  CHECK_THROWS_AS(adaptive.import_state(with_steps(of_adaptive, 0, bound)), std::invalid_argument);
}

TEST_CASE("a basis is loaded whole or not at all") {
  auto samples = pith::slice_samples<float>(96, 24, pith::slice_order::oihw(4, 6, 4));
  for (unsigned step = 0; step < 6; ++step) samples.add(pith::span<float const>(imported_gradient(step)).first(96));
  auto const saved = pith::pca_basis::fit(samples).save();
  for (std::size_t at = 0; at < saved.size(); ++at) {
    auto damaged = saved;
    damaged[at] ^= std::byte{0x11};
    CHECK_THROWS_AS(pith::pca_basis::load(damaged), std::invalid_argument);
    CHECK_THROWS_AS(pith::pca_basis::load(pith::span<std::byte const>(saved).first(at)), std::invalid_argument);
  }
  CHECK_THROWS_AS(pith::pca_basis::load(joined(saved, bytes(8))), std::invalid_argument);
}

namespace {

/// Two ranks of a job import states together. At least one state is wrong.
template <class Make>
void check_together(Make const& make, std::function<bytes(unsigned rank, bytes const& own)> const& bad) {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto const one = make(comm), twin = make(comm);
    for (int i = 0; i < 3; ++i) one->step(comm.rank()), twin->step(comm.rank());
    auto const seen = one->look();
    CHECK_THROWS(one->load(bad(comm.rank(), one->save())));
    CHECK(one->look() == seen);
    for (int i = 0; i < 4; ++i) CHECK(one->step(comm.rank()) == twin->step(comm.rank()));
    CHECK(one->look() == twin->look());
  });
}

struct two_schedules : scheduled<pith::thread_communicator> {
  using scheduled::scheduled;
  bytes save() { return schedule.export_state(); }
  void load(bytes const& from) { schedule.import_state(from); }
};
/// An exchange with a controller, of one of two ranks.
struct two_adaptive {
  explicit two_adaptive(pith::thread_communicator& comm)
      : exchange(seq, comm, imported_tensors, pith::parse<float>("ef(rated(top_k(0.25)))"),
                 pith::fixed_schedule({{1, 0.5}, {3, 0.1}, {5, 0.2}})) {}
  bytes step(unsigned rank) {
    auto g = imported_gradient(steps++, rank);
    exchange.all_reduce_mean(g);
    return bytes_of(g);
  }
  bytes save() { return exchange.export_state(); }
  bytes look() { return exchange.export_state(); }
  void load(bytes const& from) { exchange.import_state(from); }

  pith::adaptive_exchange<float, pith::seq_executor, pith::thread_communicator, pith::fixed_schedule> exchange;
  unsigned steps = 0;
};

/// A rank's state after some steps.
template <class T>
bytes state_after(pith::thread_communicator& comm, unsigned steps) {
  auto job = T(comm);
  for (unsigned i = 0; i < steps; ++i) job.step(comm.rank());
  return job.save();
}

template <class T>
void check_ranks() {
  auto const make = [](pith::thread_communicator& comm) { return std::make_unique<T>(comm); };
  check_together(make, [](unsigned rank, bytes const& own) { return rank == 1 ? bytes(40) : own; });
  check_together(make, [](unsigned rank, bytes own) {
    if (rank == 0) own.pop_back();
    return own;
  });
  auto moments = std::vector<std::vector<bytes>>(2);  // of each rank after each number of steps
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    for (unsigned steps = 0; steps < 8; ++steps) moments[comm.rank()].push_back(state_after<T>(comm, steps));
  });
  for (unsigned steps = 0; steps < 7; ++steps)
    check_together(make, [&](unsigned rank, bytes const&) { return moments[rank][steps + rank]; });
  check_together(make, [&](unsigned, bytes const&) { return moments[0][3]; });
}

}  // namespace

TEST_CASE("no rank changes if the states of the ranks do not fit together") {
  check_ranks<two_schedules>();
  check_ranks<two_adaptive>();
}
