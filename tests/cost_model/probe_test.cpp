// tests/cost_model/probe_test.cpp — codecs that are chosen by what links of scripted speed take.
#include <pith/comm/threads.hpp>
#include <pith/cost_model/probe.hpp>
#include <pith/pith.hpp>

#include <doctest/doctest.h>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/iota.hpp>
#include <range/v3/view/transform.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

/// The sums of another communicator, each followed by a delay per byte.
class scripted_communicator {
 public:
  scripted_communicator(pith::thread_communicator comm, double seconds_a_byte)
      : comm_(comm), seconds_a_byte_(seconds_a_byte) {}

  unsigned rank() const { return comm_.rank(); }
  unsigned size() const { return comm_.size(); }

  template <pith::detail::host_executor E>
  auto all_gather(E const& exec, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    return comm_.all_gather(exec, mine, all);
  }
  template <pith::detail::host_executor E, class T>
  pith::completed all_reduce(E const& exec, pith::span<T> x, pith::reduction how) {
    comm_.all_reduce(exec, x, how).wait(exec);
    auto const lasts = std::chrono::duration<double>(seconds_a_byte_ * static_cast<double>(x.size() * sizeof(T)));
    for (auto const begun = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - begun < lasts;)
      std::this_thread::yield();
    return {};
  }

 private:
  pith::thread_communicator comm_;
  double seconds_a_byte_;
};

std::vector<pith::tensor_spec> const probed = {{"weight", {200 * 100, 200}}, {"bias", {100}}};

/// The probe results of ranks whose sums take the given seconds per byte.
std::vector<pith::probe_result> found_by(std::vector<double> const& seconds_a_byte, pith::probe_options const& o = {}) {
  auto all = std::vector<pith::probe_result>(seconds_a_byte.size());
  pith::run_ranks(static_cast<unsigned>(all.size()), [&](pith::thread_communicator threads) {
    auto comm = scripted_communicator(threads, seconds_a_byte[threads.rank()]);
    auto const wave = [&](std::size_t i) { return std::sin(static_cast<float>(i * i + comm.rank())); };
    auto const places = ranges::views::iota(std::size_t{0}, std::size_t{20100});
    auto const g = places | ranges::views::transform(wave) | ranges::to<std::vector>();
    all[comm.rank()] = pith::probe<float>(
        pith::seq, comm, probed, pith::span<float const>(g),
        {{"top_k(0.01)", pith::matrices(pith::error_feedback(pith::top_k(0.01)))}, {"qsgd<8>", pith::qsgd<8>()}}, o);
  });
  return all;
}

/// Of a dense step of 80,400 bytes: a fit does not fall, so that it takes at least what the sum of 64 KiB took, which is
/// at least what the script says; but for some tens of roundings.
double min_seconds(double seconds_a_byte) { return seconds_a_byte * 65536 * (1 - 100 * 0x1p-53); }

}  // namespace

TEST_CASE("links that take seconds want the fewest bytes") {
  // A dense step takes 0.4 s of such a link, and codecs of 20,100 elements some milliseconds.
  for (auto const& found : found_by({5e-6, 5e-6}, {.rounds = 3})) {
    REQUIRE(found.candidates.size() == 3);
    CHECK(found.best().name == "top_k(0.01)");
    CHECK(found.candidates[0].name == "identity");
    CHECK(found.candidates[0].wire_seconds >= min_seconds(5e-6));
  }
}

TEST_CASE("links that take no time want no compression") {
  for (auto const& found : found_by({0, 0}, {.hidden_seconds = 3600})) CHECK(found.best().name == "identity");
  auto comm = pith::self_communicator();
  auto const g = std::vector<float>(20100, 1);
  auto const alone =
      pith::probe<float>(pith::seq, comm, probed, pith::span<float const>(g), {{"sign", pith::scaled_sign()}});
  CHECK(alone.best().name == "identity");
  CHECK(alone.best().wire_bytes == 0);
}

TEST_CASE("all ranks go by the slowest one, and choose alike") {
  auto const all = found_by({0, 5e-7, 0});
  for (auto const& found : all) {
    CHECK(found.choice == all[0].choice);
    CHECK(found.table() == all[0].table());
    CHECK(found.candidates[0].wire_seconds >= min_seconds(5e-7));
  }
}

TEST_CASE("bytes and errors are those of the exchange") {
  auto const found = found_by({0, 0, 0, 0})[2];
  CHECK(found.candidates[0].wire_bytes == 6 * (20100 * 4 + 0) / 4.0);
  CHECK(found.candidates[0].error == 0);
  // 200 values and indices of at most 2 + log2(100) bits, to multiples of 8 bytes, gathered; the vector in a sum.
  CHECK(found.candidates[1].wire_bytes == 3 * (800 + 216) + 6 * 400 / 4.0);
  CHECK(found.candidates[1].error > 0);
  CHECK(found.candidates[1].error < 1);
  CHECK(found.candidates[2].encode_seconds > 0);
  CHECK(found.candidates[2].decode_seconds > 0);
}

TEST_CASE("a table has a line for each candidate, and marks the choice") {
  auto found = pith::probe_result();
  found.candidates = {{"identity", 1234567, 0, 0.001, 0.002, 0.25, 0.253}, {"b", 10, 0.5, 1e-6, 0, 0, 1e-6}};
  found.choice = 1;
  CHECK(found.table() ==
        "| codec | bytes sent per rank | error | encode, ms | decode, ms | wire, ms | step, ms | |\n"
        "|---|---|---|---|---|---|---|---|\n"
        "| `identity` | 1.23e+06 | 0 | 1 | 2 | 250 | 253 |  |\n"
        "| `b` | 10 | 0.5 | 0.001 | 0 | 0 | 0.001 | choice |\n");
}

TEST_CASE("a probe measures at least once") {
  auto comm = pith::self_communicator();
  auto const g = std::vector<float>(20100);
  CHECK_THROWS_WITH_AS(pith::probe<float>(pith::seq, comm, probed, pith::span<float const>(g), {}, {.rounds = 0}),
                       "pith::probe: rounds must be at least 1, got 0", std::invalid_argument);
}
