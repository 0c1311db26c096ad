// tests/exchange/refusals_test.cpp — a refused call of an exchange changes nothing, in any phase of a step.
#include <pith/adaptor/rated.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/accordion.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/control/fixed_schedule.hpp>
#include <pith/control/gravac.hpp>
#include <pith/control/l_greco.hpp>
#include <pith/control/warm_up.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using pith::seq;
using codec = pith::any_codec<float, pith::seq_executor>;

std::vector<pith::tensor_spec> const refused_tensors = {{"weight", {96, 12}}, {"bias", {12}}, {"head", {40}}};
constexpr std::size_t refused_elements = 148;
constexpr float unset = 1e30f;

std::vector<float> refused_gradient(int step) {
  auto g = std::vector<float>(refused_elements);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>((i * 29 + static_cast<unsigned>(step) * 7) % 23);
  return g;
}

/// The phase of a step in which a call is made.
enum class phase { fresh, stepped, begun, begun_bare, partly_ready, skipped };
constexpr phase phases[] = {phase::fresh,      phase::stepped,      phase::begun,
                            phase::begun_bare, phase::partly_ready, phase::skipped};
bool is_in_step(phase p) { return p == phase::begun || p == phase::begun_bare || p == phase::partly_ready; }
bool is_idle(phase p) { return !is_in_step(p); }
bool always(phase) { return true; }

/// An exchange, its gradients, and memory that no call may touch.
template <class Exchange>
struct trial {
  Exchange exchange;
  std::vector<float> gradients = refused_gradient(0);
  std::vector<float> elsewhere = std::vector<float>(refused_elements, unset);
  std::vector<std::vector<float>> means = {};

  pith::span<float> tensor(std::size_t i) {
    constexpr std::size_t first[] = {0, 96, 108, 148};
    return {gradients.data() + first[i], first[i + 1] - first[i]};
  }

  void reach(phase p) {
    if (p != phase::fresh) step(1), step(2);
    gradients = refused_gradient(3);
    if (p == phase::begun_bare) return exchange.begin();
    if (is_in_step(p) || p == phase::skipped) exchange.begin(gradients);
    if (p == phase::partly_ready) exchange.ready(2);
    if (p == phase::skipped) exchange.skip();
  }
  /// To the end of this step, and on.
  void finish(phase p) {
    if (is_idle(p)) exchange.begin(gradients);
    for (std::size_t i = 0; i < 3; ++i) {
      if (p == phase::begun_bare) exchange.ready(i, tensor(i));
      if (p != phase::begun_bare && (p != phase::partly_ready || i != 2)) exchange.ready(i);
    }
    exchange.wait();
    means.push_back(gradients);
    step(4), step(5), step(6);
  }
  void step(int number) {
    gradients = refused_gradient(number);
    exchange.all_reduce_mean(gradients);
    means.push_back(gradients);
  }
};

/// A call that is refused in some phases.
template <class Exchange>
struct refusal {
  std::string name;
  bool (*when)(phase);
  std::function<void(trial<Exchange>&)> call;
};

/// With each refusal in each of its phases all goes on as without it, also for ranks that do not try it.
template <class Exchange, class Make>
void check_refusals(Make const& make, std::vector<refusal<Exchange>> const& refusals, bool tries = true) {
  for (auto const p : phases) {
    auto expected = trial<Exchange>{make()};
    expected.reach(p);
    expected.finish(p);
    auto const state = expected.exchange.export_state();
    for (auto const& r : refusals) {
      if (!r.when(p)) continue;
      CAPTURE(r.name);
      CAPTURE(static_cast<int>(p));
      auto tried = trial<Exchange>{make()};
      tried.reach(p);
      for (int twice = 0; tries && twice < 2; ++twice) CHECK_THROWS_AS(r.call(tried), std::invalid_argument);
      tried.finish(p);
      CHECK(tried.means == expected.means);
      CHECK(tried.elsewhere == std::vector<float>(refused_elements, unset));
      CHECK(tried.exchange.export_state() == state);
    }
  }
}

constexpr auto no_number = std::numeric_limits<double>::quiet_NaN();

/// Those of every exchange.
template <class Exchange>
std::vector<refusal<Exchange>> refusals_of_steps() {
  using T = trial<Exchange>;
  return {
      {"begin of too few", is_idle, [](T& t) { t.exchange.begin(pith::span<float>(t.elsewhere.data(), 7)); }},
      {"begin with a weight", is_idle, [](T& t) { t.exchange.begin(pith::span<float>(t.elsewhere), 2); }},
      {"begin bare with a weight that is no number", is_idle, [](T& t) { t.exchange.begin(no_number); }},
      {"begin in a step", is_in_step, [](T& t) { t.exchange.begin(pith::span<float>(t.elsewhere)); }},
      {"begin bare in a step", is_in_step, [](T& t) { t.exchange.begin(); }},
      {"all_reduce_mean in a step", is_in_step, [](T& t) { t.exchange.all_reduce_mean(t.elsewhere); }},
      {"ready between steps", is_idle, [](T& t) { t.exchange.ready(1); }},
      {"ready of a gradient between steps", is_idle,
       [](T& t) { t.exchange.ready(1, pith::span<float>(t.elsewhere.data(), 12)); }},
      {"ready of no tensor", always, [](T& t) { t.exchange.ready(3); }},
      {"ready of another size", always, [](T& t) { t.exchange.ready(1, pith::span<float>(t.elsewhere.data(), 11)); }},
      {"ready of what begin did not show", [](phase p) { return p == phase::begun_bare; },
       [](T& t) { t.exchange.ready(1); }},
      {"ready twice", [](phase p) { return p == phase::partly_ready; }, [](T& t) { t.exchange.ready(2); }},
      {"ready twice, elsewhere", [](phase p) { return p == phase::partly_ready; },
       [](T& t) { t.exchange.ready(2, pith::span<float>(t.elsewhere.data(), 40)); }},
      {"wait between steps", is_idle, [](T& t) { t.exchange.wait(); }},
      {"wait for gradients that are nowhere", [](phase p) { return p == phase::begun_bare; },
       [](T& t) { t.exchange.wait(); }},
      {"skip of what is on its way", [](phase p) { return p == phase::partly_ready; }, [](T& t) { t.exchange.skip(); }},
      {"rescale in a step", is_in_step, [](T& t) { t.exchange.rescale(0.5); }},
      {"rescale by no number", always, [](T& t) { t.exchange.rescale(no_number); }},
      {"rescale by infinity", always, [](T& t) { t.exchange.rescale(HUGE_VAL); }},
      {"export in a step", is_in_step, [](T& t) { static_cast<void>(t.exchange.export_state()); }},
      {"import of nothing", always, [](T& t) { t.exchange.import_state({}); }},
  };
}

/// Those of a state, which `saved` are the bytes of and `others` are not.
template <class Exchange>
void add_refusals_of_states(std::vector<refusal<Exchange>>& all, std::vector<std::byte> const& saved,
                            std::vector<std::vector<std::byte>> const& others) {
  using T = trial<Exchange>;
  using bytes = pith::span<std::byte const>;
  all.push_back({"import in a step", is_in_step, [=](T& t) { t.exchange.import_state(bytes(saved)); }});
  for (std::size_t at = 0; at < saved.size(); at += 1 + saved.size() / 97) {
    auto damaged = saved;
    damaged[at] ^= std::byte{0x10};
    all.push_back({"import of damaged bytes", always, [=](T& t) { t.exchange.import_state(bytes(damaged)); }});
    all.push_back({"import of too few bytes", always, [=](T& t) { t.exchange.import_state(bytes(saved).first(at)); }});
  }
  for (auto const& other : others)
    all.push_back({"import of another's", always, [=](T& t) { t.exchange.import_state(bytes(other)); }});
}

/// The same state of eight bytes fewer, with a checksum that is right.
std::vector<std::byte> shorter(std::vector<std::byte> const& saved) {
  auto const [words, states] = pith::detail::open_states("shorter", saved);
  return pith::detail::save_states(std::string(words), states.first(states.size() - 8));
}
/// ... that of the exchange inside of an adaptive one, which follows a header of three words and the controller's bytes.
std::vector<std::byte> shorter_inside(std::vector<std::byte> const& saved) {
  auto const [words, all] = pith::detail::open_states("shorter", saved);
  std::uint64_t controller = 0;
  std::memcpy(&controller, all.data() + 8, sizeof controller);
  auto const inside = all.subspan(24 + controller);
  auto bytes = std::vector<std::byte>(all.begin(), inside.begin());
  auto const cut = shorter({inside.begin(), inside.end()});
  bytes.insert(bytes.end(), cut.begin(), cut.end());
  return pith::detail::save_states(std::string(words), bytes);
}

pith::self_communicator refused_alone;
/// Tensor "head" travels by itself, so that it is on its way once it is ready.
pith::exchange_options const refused_options = {.seed = 5, .bucket_bytes = 200};

codec feeding_back(double density = 0.25) { return pith::error_feedback(pith::rated(pith::top_k(density))); }

}  // namespace

TEST_CASE("a refused call of a gradient_exchange changes nothing") {
  auto const with = [](codec const& c, pith::exchange_options const& o = refused_options) {
    return pith::make_exchange<float>(seq, refused_alone, refused_tensors, c, o);
  };
  auto const codecs = {codec(pith::error_feedback(pith::top_k(0.25) | pith::qsgd<4>())), codec(pith::identity()),
                       codec(pith::parse<float>("ef(top_k(0.25),momentum_correction(0.9))"))};
  for (auto const& c : codecs) {
    auto const make = [&] { return with(c); };
    using exchange = decltype(make());
    auto refusals = refusals_of_steps<exchange>();
    refusals.push_back({"change in a step", is_in_step, [&](auto& t) { t.exchange.change({c, c, c}); }});
    refusals.push_back({"change of too few", always, [&](auto& t) { t.exchange.change({c, c}); }});
    auto ex = make();
    auto g = refused_gradient(9);
    ex.all_reduce_mean(g);
    auto other_seed = refused_options;
    other_seed.seed = 6;
    auto const saved = ex.export_state();
    auto const others = {with(feeding_back()).export_state(), with(c, other_seed).export_state(), shorter(saved)};
    add_refusals_of_states(refusals, saved, others);
    refusals.push_back({"import with too few codecs", always, [=](auto& t) {
                          t.exchange.import_state(saved, {c, c});
                        }});
    auto const twice = codec(pith::error_feedback(pith::top_k(0.5)));
    auto const of_twice = shorter(with(twice).export_state());
    refusals.push_back({"import of too short states of other codecs", always, [=](auto& t) {
                          t.exchange.import_state(of_twice, {twice, twice, twice});
                        }});
    check_refusals(make, refusals);
  }
}

TEST_CASE("a call that is refused on one rank changes no rank") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto const fed_back = codec(pith::error_feedback(pith::top_k(0.25) | pith::qsgd<4>()));
    auto const make = [&] { return pith::make_exchange<float>(seq, comm, refused_tensors, fed_back, refused_options); };
    using exchange = decltype(make());
    auto refusals = refusals_of_steps<exchange>();
    auto const saved = make().export_state();
    refusals.push_back({"import in a step", is_in_step,
                        [&](auto& t) { t.exchange.import_state(pith::span<std::byte const>(saved)); }});
    check_refusals(make, refusals, comm.rank() == 1);
  });
}

TEST_CASE("a controller keeps its state when load() refuses the bytes") {
  auto const check = [](auto controller) {
    CAPTURE(controller.name());
    auto const reports = std::vector<pith::rate_report>{{0, 0.25, 4, 3, 100}, {0, 0.5, 4, 3.5, 200}};
    for (std::uint64_t step = 1; step < 4; ++step)
      controller.observe({.step = step, .learning_rate = 0.1, .seconds = 1, .tensors = reports});
    auto const saved = controller.save();
    for (std::size_t const bytes : {1u, 7u, 33u, 1000u}) {
      if (bytes == saved.size()) continue;
      CHECK_THROWS_AS(controller.load(std::vector<std::byte>(bytes)), std::invalid_argument);
      CHECK(controller.save() == saved);
    }
  };
  check(pith::accordion({.high_rate = 0.5, .low_rate = 0.1}));
  check(pith::l_greco({.rates = {0.5, 0.25}, .reference = 0.25}));
  check(pith::gravac());
  check(pith::fixed_schedule({{3, 0.1}}));
  check(pith::warm_up(0.01, 10));
}

TEST_CASE("a refused call of an adaptive_exchange changes nothing") {
  auto const check = [](auto const& controller, auto const& another) {
    auto const with = [](auto const& r, pith::exchange_options const& o) {
      auto ex = pith::make_adaptive_exchange<float>(seq, refused_alone, refused_tensors, feeding_back(), r, o);
      ex.set_learning_rate(0.1);
      return ex;
    };
    auto const make = [&] { return with(controller, refused_options); };
    using exchange = decltype(make());
    auto refusals = refusals_of_steps<exchange>();
    auto ex = make();
    auto g = refused_gradient(9);
    for (int i = 0; i < 3; ++i) ex.all_reduce_mean(g);
    auto other_seed = refused_options;
    other_seed.seed = 6;
    auto const saved = ex.export_state();
    add_refusals_of_states(refusals, saved,
                           {with(another, refused_options).export_state(), with(controller, other_seed).export_state(),
                            shorter_inside(saved)});
    check_refusals(make, refusals);
  };
  auto const one = pith::l_greco({.rates = {0.5, 0.25, 0.1}, .reference = 0.25, .interval = 2});
  auto const other = pith::accordion({.high_rate = 0.5, .low_rate = 0.1, .change = 0.01});
  check(one, other);
  check(other, one);
}
