// tests/benchmarks/network_test.cpp — what the network benchmark exchanges, reads and predicts.
#include "support/parsed.hpp"

#include "../../benchmarks/network/regret.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace {

/// What a step of a method takes on links of so many Mbit/s that keep to the cost model.
network::row row_of(double rate, std::string const& workload, network::method const& m) {
  auto const net = pith::network{4, {2e-4, 1 / (rate * 1e6 / 8)}};
  auto const tensors = network::workload(workload);
  auto const cost = pith::codec_cost{{1e-5, 1e-9}, {2e-6, 5e-10}};
  auto const work = pith::work_of<float>(pith::seq, tensors, network::policy_of(m.codec), 4);
  auto const wire = pith::wire_seconds(net, {m.codec, work, cost});
  auto const encode = work.tensors * cost.encode.fixed + work.encoded * cost.encode.each;
  auto const decode = work.tensors * cost.decode.fixed + work.decoded * cost.decode.each;
  return {rate,     4,          workload, network::elements(tensors),
          m.family, m.exchange, m.codec,  encode + wire + decode,
          wire,     encode,     decode,   0,
          0,        0};
}

std::vector<network::row> rows() {
  auto all = std::vector<network::row>();
  for (auto const rate : {10.0, 100.0, 100'000.0}) {
    for (auto const* workload : {"64", "1024", "4096", "LSTM"}) {
      for (auto const& m : network::methods) all.push_back(row_of(rate, workload, m));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("models have the tensors that they are known by") {
  CHECK(network::workload("ResNet-20").size() == 65);
  CHECK(network::elements(network::workload("ResNet-20")) == 272'474);
  CHECK(network::workload("LSTM").size() == 11);
  CHECK(network::elements(network::workload("LSTM")) == 920'992);
  CHECK(network::workload("VGG-11").size() == 26);
}

TEST_CASE("a size is that of a tensor of floats, about square") {
  auto const tensors = network::workload("128");
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].dims == pith::shape{32'768, 128});
  CHECK_THROWS_AS(network::workload("100"), std::invalid_argument);
  CHECK_THROWS_AS(network::workload("ResNet"), std::invalid_argument);
}

TEST_CASE("quoted fields may have commas") {
  CHECK(network::fields(R"(1,"a,b",,c)") == std::vector<std::string>{"1", "a,b", "", "c"});
  CHECK_THROWS_AS(network::row_of("1,2,3"), std::runtime_error);
}

TEST_CASE("an oracle predicts all steps from two sizes at one rate, on links that follow the cost model") {
  auto const all = rows();
  auto const model = network::oracle(all, 100);
  for (auto const& r : all) {
    CAPTURE(r.codec);
    CAPTURE(r.workload);
    CHECK(model.step(r) == doctest::Approx(r.step).epsilon(1e-6));
    CHECK(model.is_fitted_to(r) == (r.rate == 100 && (r.workload == "64" || r.workload == "4096")));
  }
}

TEST_CASE("plans regret nothing then, and are dense where the link is fast and compressed where it is slow") {
  auto const all = rows();
  auto const decisions = network::decisions(network::oracle(all, 100), all);
  CHECK(decisions.size() == network::families().size() * 12);
  auto dense = 0;
  for (auto const& d : decisions) {
    CHECK(d.plan() == doctest::Approx(d.best()).epsilon(1e-6));
    auto const compresses = d.planned >= network::decision::dense;
    dense += !compresses;
    if (d.ways[0].rate == 10) CHECK(compresses);
  }
  CHECK(dense > 0);
}
