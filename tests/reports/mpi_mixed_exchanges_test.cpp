// tests/reports/mpi_mixed_exchanges_test.cpp — exchanges that MPI ranks use in another order, alone, or at the same
// time. Every rank throws, and MPI ends no rank. A report of this kind is horovod/horovod#100.
#include <pith/adaptor/identity.hpp>
#include <pith/comm/any_communicator.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

using codec = pith::any_codec<float, pith::seq_executor>;
using exchange_type = pith::gradient_exchange<float, pith::seq_executor, pith::mpi_communicator>;
using specs = std::vector<pith::tensor_spec>;

exchange_type exchange_of(pith::mpi_communicator& comm, specs const& tensors, codec const& with = pith::identity(),
                          pith::exchange_options const& o = {}) {
  return {pith::seq, comm, tensors, with, o};
}
void step(exchange_type& of) {
  auto g = std::vector<float>(of.size(), 1);
  of.all_reduce_mean(g);
}

/// Returns the text of the error that f throws, which is empty without an error.
template <class F>
std::string error_of(F const& f) {
  try {
    f();
  } catch (std::runtime_error const& e) {
    return e.what();
  }
  return {};
}
bool contains(std::string const& text, std::string const& words) { return text.find(words) != std::string::npos; }

struct row {
  std::function<void(exchange_type&)> alone;
  char const* words;
};
std::vector<row> const functions = {
    {[](auto& e) { e.change({e.codecs()}); }, "in change() of exchange "},
    {[](auto& e) { e.change({pith::error_feedback(pith::top_k(0.5))}); }, "in change() of exchange "},
    {[](auto& e) { e.fit_buckets(); }, "in fit_buckets() of exchange "},
    {[](auto& e) { e.import_state(e.export_state(), e.codecs()); }, "in import_state() of exchange "},
    {[](auto& e) { e.change_alone({pith::identity()}), step(e); }, "while rank 1 calls all_reduce of float by sum"},
    {[](auto& e) { e.change_alone({pith::error_feedback(pith::top_k(0.5))}), step(e); },
     "all_gather: ranks must pass equal sizes, got "},
};

}  // namespace

TEST_CASE("each error contains the function of an exchange that one rank alone calls") {
  for (auto const& r : functions) {
    auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 20s});
    auto exchange = exchange_of(comm, {{"weight", {1000}}}, pith::error_feedback(pith::top_k(0.1)));
    step(exchange);
    auto const text = error_of([&] { comm.rank() == 1 ? r.alone(exchange) : step(exchange); });
    CAPTURE(text);
    CHECK(contains(text, r.words));
    CHECK(contains(text, "rank 1"));
  }
}

TEST_CASE("each error contains the exchange that one rank steps in another order") {
  for (auto const& second : {specs{{"bias", {100}}}, specs{{"weight", {100}}}, specs{{"bias", {50}}, {"gain", {50}}},
                             specs{{"bias", {77}}}}) {
    for (auto const verification : {pith::verify::when_built, pith::verify::each_step}) {
      auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 20s});
      auto const options = pith::exchange_options{.verification = verification};
      auto a = exchange_of(comm, {{"weight", {100}}}, pith::identity(), options);
      auto b = exchange_of(comm, second, pith::identity(), options);
      auto const text = error_of([&] { comm.rank() == 1 ? (step(b), step(a)) : (step(a), step(b)); });
      CAPTURE(text);
      CHECK(contains(text, verification == pith::verify::each_step ? "the first is " + second[0].name
                                                                   : "in transfer 1 of a step of exchange "));
    }
  }
}

TEST_CASE("two exchanges that step at the same time give means or throw errors of the communicator") {
  for (int trial = 0; trial < 20; ++trial) {
    auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 20s});
    auto g = std::vector<float>(200, 1), h = std::vector<float>(100, 1);
    auto a = exchange_of(comm, {{"weight", {100}}, {"bias", {100}}}, pith::identity(), {.bucket_bytes = 0});
    auto b = exchange_of(comm, {{"head", {100}}});
    a.begin(g), b.begin(h);
    a.ready(1), b.ready(0);
    auto const first = error_of([&] { b.wait(); }), second = error_of([&] { a.wait(); });
    for (auto const& text : {first, second}) {
      CAPTURE(text);
      CHECK((text.empty() || contains(text, "mpi_communicator: ")));
    }
    if (first.empty()) CHECK(h == std::vector<float>(100, 1));
    if (second.empty()) CHECK(g == std::vector<float>(200, 1));
  }
}

TEST_CASE("two threads that each step an exchange on one communicator throw only its errors") {
  for (int trial = 0; trial < 20; ++trial) {
    auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 20s});
    auto a = exchange_of(comm, {{"weight", {100}}}), b = exchange_of(comm, {{"head", {100}}});
    auto texts = std::vector<std::string>(2);
    auto const run = [&](std::size_t i) {
      texts[i] = error_of([&] {
        for (int k = 0; k < 20; ++k) step(i == 0 ? a : b);
      });
    };
    {
      auto const other = std::jthread([&] { run(1); });
      run(0);
    }
    for (auto const& text : texts) {
      CAPTURE(text);
      CHECK((text.empty() || contains(text, "mpi_communicator: ")));
    }
  }
}

TEST_CASE("a call of the main thread during a step of another thread throws only errors of the communicator") {
  auto const codec = pith::identity();
  for (int which = 0; which < 3; ++which) {
    auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 20s});
    auto exchange = exchange_of(comm, {{"weight", {1000}}, {"bias", {1000}}}, pith::identity(), {.bucket_bytes = 4000});
    auto g = std::vector<float>(2000, 1);
    static auto x = std::vector<float>(10, 1);  // outlives the calls of MPI that do not end, as `memory` does
    auto const call = [&] {
      if (which == 0) return static_cast<void>(comm.split(0));
      if (which == 1) return comm.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::sum).wait(pith::seq);
      auto state = pith::make_state<float>(pith::seq, codec, {10}, {.rank = static_cast<std::uint16_t>(comm.rank())});
      static auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {10}, comm.size()));
      auto ws = pith::workspace_on<pith::seq_executor>(memory);
      pith::all_reduce_mean<float>(pith::seq, comm, codec, x, state, ws);
    };
    exchange.begin(g);
    exchange.ready(1);
    auto const first = error_of(call), second = error_of([&] { exchange.wait(); });
    for (auto const& text : {first, second}) {
      CAPTURE(text);
      CHECK((text.empty() || contains(text, "mpi_communicator: ")));
    }
  }
}
