// tests/torch/local_device_test.cu — ranks that share a device, in pith_torch, have the bits of ranks on the host.
#include <pith/comm/any_communicator.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include "comm/conformance.hpp"
#include "device_codecs.cuh"
#include "local_device_communicator.hpp"
#include "support/own_stream.hpp"
#include "support/parsed.hpp"
#include "support/vectors.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// Calls f(executor, communicator) on one thread per rank. All ranks share a stream.
template <class F>
void run_on_device(unsigned ranks, F const& f) {
  auto const stream = support::own_stream();
  pith::run_ranks(ranks, [&](pith::thread_communicator threads) {
    auto host = pith::any_communicator(threads);
    auto comm = pith_torch::local_device_communicator(host);
    f(pith::on(stream.get()), static_cast<pith_torch::device_communicator&>(comm));
  });
}

std::vector<pith::tensor_spec> const model = {
    {"matrix", pith::matrix(48, 70)}, {"bias", pith::vector(48)}, {"table", pith::matrix(33, 129)}};

using bytes = std::vector<std::byte>;

/// The means and the state of a rank after three steps.
template <class In, pith::executor E, class Comm>
std::vector<bytes> steps(E const& exec, Comm& comm, pith::any_codec<In, E> const& codec) {
  auto exchange = pith::gradient_exchange<In, E, Comm>(exec, comm, model, codec, {.seed = 3, .bucket_bytes = 8000});
  auto const g = pith::buffer<In, E>(exec, exchange.size());
  auto all = std::vector<bytes>();
  for (unsigned step = 0; step < 3; ++step) {
    auto const own = support::narrow<In>(support::normal_vector(g.size(), 40 + 5 * step + comm.rank()));
    exec.upload(g.data(), own.data(), g.size_bytes());
    exec.wait();
    exchange.all_reduce_mean(g.view());
    exec.download(all.emplace_back(g.size_bytes()).data(), g.data(), g.size_bytes());
  }
  all.push_back(exchange.export_state());
  return all;
}

template <class In>
void has_bits_of_host(char const* text, unsigned ranks) {
  CAPTURE(text);
  auto expected = std::vector<std::vector<bytes>>(ranks), found = expected;
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    expected[comm.rank()] = steps<In>(pith::seq, comm, pith::parse<In>(text));
  });
  run_on_device(ranks, [&](pith::cuda_executor const& exec, pith_torch::device_communicator& comm) {
    auto const codec = pith::parse<In, pith::cuda_executor>(text, pith_torch::device_methods());
    found[comm.rank()] = steps<In>(exec, comm, codec);
  });
  CHECK(found == expected);
}

}  // namespace

TEST_CASE("ranks that share a device conform") {
  for (unsigned ranks : {1u, 2u, 3u}) {
    run_on_device(ranks, [](auto const& exec, auto& comm) { conformance::check(exec, comm); });
  }
}

TEST_CASE("ranks that make different calls throw") {
  auto const call = [](pith::cuda_executor const& exec, pith_torch::device_communicator& comm) {
    auto const x = pith::buffer<float, pith::cuda_executor>(exec, 5 + comm.rank());
    comm.all_reduce(exec, x.view(), pith::reduction::sum);
  };
  CHECK_THROWS_WITH_AS(run_on_device(2, call),
                       "pith_torch: all_reduce of rank 0 must have as many bytes as that of rank 1, 24, got 20",
                       pith::communication_error);
}

TEST_CASE_TEMPLATE("an exchange of four ranks has the bits of the host", In, float, pith::bfloat16) {
  for (auto const* text :
       {"identity", "cast<bfloat16>", "qsgd<8>", "two_shot(qsgd<8>)", "ef(top_k(0.01)|qsgd<8>)", "ef(scaled_sign)",
        "two_shot(block_int<8>)", "ef(two_shot(block_int<4>,ef(block_int<4>)))", "ef(reduce_scatter(block_int<4>))",
        "ef(two_shot(top_k(0.01)|qsgd<8>,ef(top_k(0.01)|qsgd<8>)))", "bypass(ef(power_sgd(4)),100)"})
    has_bits_of_host<In>(text, 4);
}

TEST_CASE("the error for another method lists the methods") {
  auto const parsed = [](char const* text) {
    return pith::parse<float, pith::cuda_executor>(text, pith_torch::device_methods());
  };
  CHECK_THROWS_WITH_AS(
      parsed("ef(random_k(0.1))"),
      doctest::Contains(
          "Stages are identity, cast<bfloat16>, qsgd<8>, block_int<4>, block_int<8>, scaled_sign, top_k and power_sgd"),
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(parsed("ef(top_k(0.1),ef21)"), doctest::Contains("policies are residual"),
                       std::invalid_argument);
}
