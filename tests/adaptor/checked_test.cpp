// tests/adaptor/checked_test.cpp — wrong bytes raise the flag and decode to NaN, alone and in an exchange.
#include <pith/adaptor/checked.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>

#include <doctest/doctest.h>

#include <algorithm>

#include "support/conform.hpp"
#include "support/parsed.hpp"

using namespace support;

namespace {

bool all_nan(std::vector<double> const& x) {
  return std::all_of(x.begin(), x.end(), [](double v) { return std::isnan(v); });
}

/// Gathers over threads, and changes one byte of what `victim` receives from `sender`.
struct faulty_communicator : pith::thread_communicator {
  unsigned victim = 1, sender = 0;
  std::size_t at = 20;
  bool* faulty;

  faulty_communicator(pith::thread_communicator comm, bool* is_faulty)
      : pith::thread_communicator(comm), faulty(is_faulty) {}

  template <pith::executor E>
  pith::completed all_gather(E const& exec, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    pith::thread_communicator::all_gather(exec, mine, all).wait(exec);
    if (*faulty && rank() == victim) all[sender * mine.size() + at] ^= std::byte{0x10};
    return {};
  }
};

}  // namespace

TEST_CASE("checked takes any input of any size and type") {
  auto const flag = pith::error_flag(pith::seq);
  conforms(pith::checked(pith::qsgd<4>(), flag));
  conforms(pith::checked(pith::error_feedback(pith::top_k(0.1)), flag));
}

TEST_CASE_TEMPLATE("a good payload decodes as the codec's own and raises nothing", In, float, double, pith::half,
                   pith::bfloat16) {
  auto const flag = pith::error_flag(pith::seq);
  auto const codec = pith::top_k(0.1) | pith::qsgd<8>();
  auto plain = trial<In, std::remove_const_t<decltype(codec)>>(codec, {300, 30});
  auto safe = trial<In, pith::checked<std::remove_const_t<decltype(codec)>>>(pith::checked(codec, flag), {300, 30});
  auto const x = narrow<In>(normal_vector(300, 5));
  for (int step = 0; step < 3; ++step) {
    auto const inner = plain.compress(x), outer = safe.compress(x);
    REQUIRE(outer.size() == inner.size() + 16);
    CHECK(std::equal(inner.begin(), inner.end(), outer.begin() + 16));
    CHECK(same_bytes(plain.decompress(inner), safe.decompress(outer)));
  }
  CHECK(flag.faults() == 0);
  CHECK_NOTHROW(flag.require_none());
}

TEST_CASE("the header is the format, the step, the identity and the checksum") {
  auto const flag = pith::error_flag(pith::seq);
  auto t = trial<float, pith::checked<pith::identity>>(pith::checked(pith::identity(), flag), {4});
  t.compress({1, 2, 3, 4});
  auto const payload = t.compress({1, 2, 3, 4});
  auto h = pith::detail::device_header();
  std::memcpy(&h, payload.data(), sizeof h);
  CHECK(h.format == ('p' | 1 << 8));
  CHECK(h.step == 2);
  auto const name = (pith::digest() << "identity").value();
  auto const all = (pith::digest() << name << "float" << 4 << 1 << 0x5eed << 1 << 0).value();
  CHECK(h.identity == static_cast<std::uint32_t>(all ^ all >> 32));
  CHECK(h.checksum == pith::checksum({payload.data() + 16, 16}));
}

TEST_CASE("every single-bit flip raises the flag and decodes to NaN until it is cleared") {
  auto flag = pith::error_flag(pith::seq);
  auto t = trial<float, pith::checked<pith::top_k<>>>(pith::checked(pith::top_k(0.5), flag), {40});
  auto payload = t.compress(narrow<float>(normal_vector(40, 6)));
  for (std::size_t bit = 0; bit < 8 * payload.size(); ++bit) {
    CAPTURE(bit);
    auto const flipped = static_cast<std::byte>(1u << bit % 8);
    payload[bit / 8] ^= flipped;
    CHECK(all_nan(widen(t.decompress(payload))));
    payload[bit / 8] ^= flipped;
    auto const where = bit < 16   ? pith::fault::format
                       : bit < 32 ? pith::fault::step
                       : bit < 64 ? pith::fault::identity
                                  : pith::fault::checksum;
    CHECK(flag.faults() == where);
    CHECK(all_finite(widen(t.decompress(payload))));
    CHECK(flag.faults() == where);
    flag.clear();
    CHECK(flag.faults() == 0);
  }
}

TEST_CASE("a payload of another codec, shape, seed, tensor, rank or step is not taken for ours") {
  auto flag = pith::error_flag(pith::seq);
  auto const x = std::vector<float>(64, 1);
  auto const sent = [&](auto codec, pith::shape dims, pith::tensor_id owner, int steps) {
    auto t = trial<float, pith::checked<decltype(codec)>>(pith::checked(codec, flag), dims, owner);
    for (int i = 1; i < steps; ++i) t.compress(x);
    return t.compress(x);
  };
  auto t = trial<float, pith::checked<pith::qsgd<4>>>(pith::checked(pith::qsgd<4>(), flag), {64}, {1, 2, 3});
  t.compress(x);
  auto const faults = [&](std::vector<std::byte> const& payload) {
    flag.clear();
    auto const y = widen(t.decompress(payload));
    CHECK(all_nan(y) == (flag.faults() != 0));
    return flag.faults();
  };
  CHECK(faults(sent(pith::qsgd<4>(), {64}, {1, 2, 3}, 1)) == 0);
  CHECK(faults(sent(pith::qsgd<4>(), {64}, {1, 2, 3}, 2)) == pith::fault::step);
  CHECK(faults(sent(pith::qsgd<4>(), {64, 8}, {1, 2, 3}, 1)) == pith::fault::identity);
  CHECK(faults(sent(pith::qsgd<4>(), {64}, {9, 2, 3}, 1)) == pith::fault::identity);
  CHECK(faults(sent(pith::qsgd<4>(), {64}, {1, 9, 3}, 1)) == pith::fault::identity);
  CHECK(faults(sent(pith::qsgd<4>(), {64}, {1, 2, 9}, 1)) == pith::fault::identity);
  CHECK(faults(sent(pith::qsgd<4>(3), {64}, {1, 2, 3}, 1)) == pith::fault::identity);
}

TEST_CASE("require_none() throws a wire_error that names each fault") {
  auto flag = pith::error_flag(pith::seq);
  *flag.data() = pith::fault::step | pith::fault::checksum;
  CHECK_THROWS_WITH_AS(flag.require_none(),
                       "pith::error_flag::require_none: payloads had another step; a wrong checksum", pith::wire_error);
}

TEST_CASE("an exchange gives the same means with checked around its codec, and sums travel bare") {
  for (auto const* text : {"identity", "cast<half>", "scaled_sign", "qsgd<8>", "ef(top_k(0.1)|qsgd<4>)",
                           "ef(random_k(0.25))", "ef(power_sgd(2))", "bypass(ef(scaled_sign),64)"}) {
    CAPTURE(text);
    pith::run_ranks(3, [&](pith::thread_communicator comm) {
      auto flag = pith::error_flag(pith::seq);
      auto const codec = pith::parse<float>(text);
      auto const tensors = std::vector<pith::tensor_spec>{{"weight", {960, 40}}, {"bias", {40}}, {"none", {0}}};
      auto plain = pith::make_exchange<float>(pith::seq, comm, tensors, codec, {.seed = 3});
      auto safe = pith::make_exchange<float>(pith::seq, comm, tensors,
                                             pith::any_codec<float, pith::seq_executor>(pith::checked(codec, flag)),
                                             {.seed = 3});
      CHECK(safe.traffic().summed == plain.traffic().summed);
      for (int step = 0; step < 3; ++step) {
        auto a = narrow<float>(normal_vector(1000, comm.rank() + 10 * static_cast<unsigned>(step))), b = a;
        plain.all_reduce_mean(pith::span<float>(a));
        safe.all_reduce_mean(pith::span<float>(b));
        CHECK(same_bytes(a, b));
      }
      CHECK(flag.faults() == 0);
    });
  }
}

TEST_CASE("a payload changed in transit decodes to NaN on its receiver only, and the next step's mean is finite") {
  pith::run_ranks(2, [&](pith::thread_communicator threads) {
    bool faulty = false;
    auto comm = faulty_communicator(threads, &faulty);
    auto flag = pith::error_flag(pith::seq);
    auto const codec = pith::checked(pith::error_feedback(pith::top_k(0.1) | pith::qsgd<8>()), flag);
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"a", {500}}, {"b", {100}}}, codec, {.seed = 3});
    for (int step = 0; step < 3; ++step) {
      faulty = step == 1;
      auto g = narrow<float>(normal_vector(600, comm.rank()));
      exchange.all_reduce_mean(pith::span<float>(g));
      auto const a = widen(std::vector<float>(g.begin(), g.begin() + 500));
      auto const b = widen(std::vector<float>(g.begin() + 500, g.end()));
      auto const hit = faulty && comm.rank() == 1;
      CHECK(all_nan(a) == hit);
      CHECK(all_finite(a) == !hit);
      CHECK(all_finite(b));
      CHECK(flag.faults() == (hit ? pith::fault::checksum : 0));
      flag.clear();
    }
  });
}

TEST_CASE("checked has the guarantees and the adjustable rate of its codec, and its name contains the codec's name") {
  auto const flag = pith::error_flag(pith::seq);
  auto const codec = pith::checked(pith::top_k(0.1), flag);
  CHECK(codec.name() == "checked(top_k(0.1))");
  CHECK(codec.delta({100}) == 0.1);
  CHECK(pith::checked(pith::qsgd<8>(), flag).omega({100}) == pith::qsgd<8>().omega({100}));
  CHECK(codec.at(0.5).delta({100}) == 0.5);
  CHECK(!codec.is_lossless({100}));
  CHECK(pith::checked(pith::identity(), flag).is_lossless({100}));
}
