// tests/libtorch/hooks_test.cpp — hooks on two or four ranks give the gradients of one process.
#include "exchange_hooks.hpp"

#include <pith/comm/timeout.hpp>
#include <pith/core/error.hpp>
#include <pith/runtime/mpi.hpp>

#include <doctest/doctest.h>
#include <mpi.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

using namespace pith_libtorch;

namespace {

constexpr std::int64_t samples = 16, inputs = 24, outputs = 12;

/// Two layers, so that one gradient is complete before the other.
struct model {
  torch::Tensor first, bias, second;

  static model random(std::uint64_t seed = 1) {
    torch::manual_seed(seed);
    return {trainable(torch::randn({inputs, inputs})), trainable(torch::randn({inputs})),
            trainable(torch::randn({outputs, inputs}))};
  }
  static torch::Tensor trainable(torch::Tensor const& values) { return values.clone().requires_grad_(); }

  named_tensors parameters() const {
    auto all = named_tensors();
    all.insert("first", first);
    all.insert("bias", bias);
    all.insert("second", second);
    return all;
  }
  torch::Tensor loss(torch::Tensor const& x) const {
    auto const h = torch::tanh(x.matmul(first.t()) + bias);
    return h.matmul(second.t()).pow(2).mean();
  }
  std::vector<torch::Tensor> gradients() const { return {first.grad(), bias.grad(), second.grad()}; }
};

struct ranks {
  pith::any_communicator comm = pith::runtime::mpi(MPI_COMM_WORLD, std::chrono::seconds(60));
  std::int64_t rank = comm.rank(), size = comm.size();

  /// The part of a batch for this rank.
  torch::Tensor part(torch::Tensor const& x) const { return x.chunk(size)[static_cast<std::size_t>(rank)]; }
  torch::Tensor mean(torch::Tensor const& x) const {
    auto sum = x.clone();
    MPI_Allreduce(MPI_IN_PLACE, sum.data_ptr(), static_cast<int>(sum.numel()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return sum / size;
  }
};

torch::Tensor batch(std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn({samples, inputs});
}

/// The mean gradients of three steps, with another batch in each.
std::vector<torch::Tensor> mean_gradients(ranks& at, std::string const& codec, hook_options options) {
  options.exchange.bucket_bytes = 600;  // several buckets
  auto const of = model::random();
  auto hooks = exchange_hooks<float>(at.comm, of.parameters(), matrices(codec), options);
  auto all = std::vector<torch::Tensor>();
  for (std::uint64_t step = 0; step < 3; ++step) {
    hooks.zero_grad();
    hooks.backward(of.loss(at.part(batch(step))));
    for (auto const& g : of.gradients()) all.push_back(g.clone());
  }
  return all;
}

bool are_equal(std::vector<torch::Tensor> const& a, std::vector<torch::Tensor> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].nbytes() != b[i].nbytes() || std::memcmp(a[i].data_ptr(), b[i].data_ptr(), a[i].nbytes()) != 0)
      return false;
  return true;
}

std::string const codecs[] = {"identity", "two_shot(qsgd<8>)", "ef(top_k(0.1)|qsgd<8>)", "ef(power_sgd(2))"};

/// Backward throws when it reaches this tensor.
torch::Tensor throwing(torch::Tensor const& h) {
  h.register_hook([](torch::Tensor const&) -> torch::Tensor { throw std::runtime_error("out of memory"); });
  return h;
}

named_tensors named(std::string const& name, torch::Tensor const& p) {
  auto all = named_tensors();
  all.insert(name, p);
  return all;
}

}  // namespace

// The gradient of sum(t * (x w^T)) / B is t^T x / B. Each of its B terms passes at most B + N roundings of relative
// error u, in the sums over samples and over ranks. One process has the same bound. So both differ by at most
// 2 (B + N) u |t|^T |x| / B to first order in u, and 3 in place of 2 covers the rest.
TEST_CASE("the mean gradient is that of one process with the whole batch") {
  auto at = ranks();
  auto const x = batch(7), t = batch(8).narrow(1, 0, outputs).contiguous();
  auto const w = model::trainable(torch::zeros({outputs, inputs})),
             whole = model::trainable(torch::zeros({outputs, inputs}));
  auto const loss = [](auto const& weight, auto const& in, auto const& scale) {
    return (in.matmul(weight.t()) * scale).sum() / in.size(0);
  };
  auto hooks = exchange_hooks<float>(at.comm, named("w", w), matrices("identity"));
  hooks.backward(loss(w, at.part(x), at.part(t)));
  loss(whole, x, t).backward();

  auto const roundings = static_cast<double>(samples + at.size);
  auto const size = t.abs().to(torch::kDouble).t().matmul(x.abs().to(torch::kDouble)) / samples;
  auto const bound = 3 * roundings * std::ldexp(1.0, -24) * size;
  auto const difference = (w.grad().to(torch::kDouble) - whole.grad().to(torch::kDouble)).abs();
  CHECK((difference <= bound).all().item<bool>());
  CHECK(bound.max().item<double>() < 1e-3 * whole.grad().abs().mean().item<double>());
}

TEST_CASE("integers give the exact gradient of the whole batch") {
  auto at = ranks();
  auto const x = batch(7).mul(4).round(), t = batch(8).mul(4).round().narrow(1, 0, outputs);
  auto const w = model::trainable(torch::zeros({outputs, inputs}));
  auto hooks = exchange_hooks<float>(at.comm, named("w", w), matrices("identity"));
  hooks.backward((at.part(x).matmul(w.t()) * at.part(t)).sum());
  CHECK(torch::equal(w.grad() * at.size, t.t().matmul(x)));
}

TEST_CASE("flat and scattered gradients, with and without overlap, have the same bits") {
  auto at = ranks();
  for (auto const& codec : codecs) {
    CAPTURE(codec);
    auto const expected = mean_gradients(at, codec, {});
    CHECK(are_equal(mean_gradients(at, codec, {.gradients = layout::scattered}), expected));
    CHECK(are_equal(mean_gradients(at, codec, {.is_overlapped = false}), expected));
    CHECK(are_equal(mean_gradients(at, codec, {.gradients = layout::scattered, .is_overlapped = false}), expected));
  }
}

TEST_CASE("flat gradients are neighbours, and hooks exchange the last layer first") {
  auto at = ranks();
  for (auto const is_overlapped : {true, false}) {
    auto const of = model::random();
    auto hooks =
        exchange_hooks<float>(at.comm, of.parameters(), matrices("identity"), {.is_overlapped = is_overlapped});
    hooks.backward(of.loss(at.part(batch(0))));
    CHECK(of.bias.grad().data_ptr<float>() == of.first.grad().data_ptr<float>() + inputs * inputs);
    CHECK(of.second.grad().data_ptr<float>() == of.bias.grad().data_ptr<float>() + inputs);
    auto const report = hooks.exchange().report();
    CHECK((report.tensors[2].ready_seconds < report.tensors[0].ready_seconds) == is_overlapped);
  }
}

TEST_CASE("an exchange with error feedback differs from dense means, and all ranks have the same bits") {
  auto at = ranks();
  auto const dense = mean_gradients(at, "identity", {}), sparse = mean_gradients(at, "ef(top_k(0.1))", {});
  CHECK_FALSE(are_equal(dense, sparse));
  for (auto const& g : sparse) {
    auto of_rank_0 = g.clone();
    MPI_Bcast(of_rank_0.data_ptr(), static_cast<int>(of_rank_0.numel()), MPI_FLOAT, 0, MPI_COMM_WORLD);
    CHECK(are_equal({g}, {of_rank_0}));
  }
}

TEST_CASE("micro-steps add up, and only the last one is exchanged") {
  auto at = ranks();
  for (auto const where : {layout::flat, layout::scattered}) {
    auto const of = model::random(), same = model::random();
    auto hooks = exchange_hooks<float>(at.comm, of.parameters(), matrices("identity"), {.gradients = where});
    auto other = exchange_hooks<float>(at.comm, same.parameters(), matrices("identity"), {.gradients = where});
    auto const parts = at.part(batch(3)).chunk(2);

    hooks.zero_grad();
    hooks.accumulate(of.loss(parts[0]));
    auto const own = of.gradients()[0].clone();
    hooks.backward(of.loss(parts[1]));
    same.loss(parts[0]).backward();  // outside of a step, a hook does nothing
    CHECK(torch::equal(same.gradients()[0], own));
    other.backward(same.loss(parts[1]));
    CHECK(are_equal(of.gradients(), same.gradients()));

    auto const reference = model::random();
    for (auto const& part : parts) reference.loss(part).backward();
    for (std::size_t i = 0; i < 3; ++i) {
      // Two means of N values, added in other orders, differ by at most 2 N u times their mean size, to first order.
      auto const own_gradient = reference.gradients()[i];
      auto const bound = 3 * static_cast<double>(at.size) * std::ldexp(1.0, -24) * at.mean(own_gradient.abs());
      CHECK(((of.gradients()[i] - at.mean(own_gradient)).abs() <= bound).all().item<bool>());
    }
  }
}

TEST_CASE("a gradient that a rank does not have counts as zero") {
  auto at = ranks();
  for (auto const where : {layout::flat, layout::scattered}) {
    auto const used = model::trainable(torch::ones({4, 4})), rare = model::trainable(torch::ones({4, 4})),
               never = model::trainable(torch::ones({4, 4}));
    auto of = named("used", used);
    of.insert("rare", rare);
    of.insert("never", never);
    auto hooks = exchange_hooks<float>(at.comm, of, matrices("identity"), {.gradients = where});
    for (int step = 0; step < 2; ++step) {
      hooks.zero_grad();
      hooks.backward(at.rank == 0 ? (used * 2 + rare * 8).sum() : (used * 2).sum());
      CHECK(torch::equal(used.grad(), torch::full({4, 4}, 2.0)));
      CHECK(torch::equal(rare.grad(), torch::full({4, 4}, 8.0 / static_cast<double>(at.size))));
      CHECK(torch::equal(never.grad(), torch::zeros({4, 4})));
    }
  }
}

TEST_CASE("frozen parameters have no part in the exchange") {
  auto at = ranks();
  auto const of = model::random();
  of.bias.set_requires_grad(false);
  auto hooks = exchange_hooks<float>(at.comm, of.parameters(), matrices("identity"));
  REQUIRE(hooks.exchange().tensors().size() == 2);
  CHECK(hooks.exchange().tensors()[1].name == "second");
  hooks.backward(of.loss(at.part(batch(1))));
  CHECK_FALSE(of.bias.grad().defined());
}

TEST_CASE("gradients of bfloat16 are exchanged as bfloat16") {
  auto at = ranks();
  for (auto const where : {layout::flat, layout::scattered}) {
    auto const w = model::trainable(torch::ones({4, 8}, torch::kBFloat16));
    auto hooks = exchange_hooks<pith::bfloat16>(at.comm, named("w", w), matrices("identity"), {.gradients = where});
    hooks.zero_grad();
    hooks.backward((w * (2 * at.rank)).sum());  // the mean of 0, 2, 4, ... is size - 1
    CHECK((w.grad().scalar_type() == torch::kBFloat16));
    CHECK(torch::equal(w.grad().to(torch::kFloat), torch::full({4, 8}, static_cast<double>(at.size - 1))));
    CHECK(hooks.exchange().report().total.dense_bytes == static_cast<double>(2 * 64 * (at.size - 1) / at.size));
  }
}

TEST_CASE("a policy chooses the codec of each tensor") {
  auto at = ranks();
  auto const of = model::random();
  auto const policy = [](pith::tensor_spec const& tensor) {
    if (tensor.name == "first") return std::string("cast<bfloat16>");
    return matrices("ef(top_k(0.1))")(tensor);
  };
  auto const hooks = exchange_hooks<float>(at.comm, of.parameters(), policy);
  auto names = std::vector<std::string>();
  for (auto const& codec : hooks.exchange().codecs()) names.push_back(codec.name());
  CHECK(names == std::vector<std::string>{"cast<bfloat16>", "identity", "ef(top_k(0.1))"});
}

TEST_CASE("a matrix has one row per entry of the first dimension") {
  auto const convolution = spec_of("convolution", torch::zeros({8, 3, 5, 5})),
             bias = spec_of("bias", torch::zeros({8}));
  CHECK(convolution.dims.rows == 8);
  CHECK(convolution.dims.n == 600);
  CHECK(bias.dims.rows == 1);
}

TEST_CASE("an optimizer may call zero_grad, and flat gradients stay in their buffer") {
  auto const p = model::trainable(torch::ones({3})), q = model::trainable(torch::ones({2, 2}));
  auto const buffer = lay_flat({p, q});
  auto optimizer = torch::optim::SGD({p, q}, 0.5);
  (p.sum() + 2 * q.sum()).backward();
  CHECK(torch::equal(buffer, torch::tensor({1.f, 1.f, 1.f, 2.f, 2.f, 2.f, 2.f})));
  optimizer.step();
  optimizer.zero_grad();
  CHECK(torch::equal(buffer, torch::zeros({7})));
  p.sum().backward();
  CHECK(torch::equal(buffer.narrow(0, 0, 3), torch::ones({3})));
}

TEST_CASE("the destructor removes the hooks") {
  auto at = ranks();
  auto const of = model::random();
  exchange_hooks<float>(at.comm, of.parameters(), matrices("identity")).backward(of.loss(at.part(batch(1))));
  of.loss(at.part(batch(2))).backward();
  CHECK(of.first.grad().defined());
}

TEST_CASE("buckets that fit the times of backward give the same bits for gathered codecs") {
  auto at = ranks();
  auto const of = model::random();
  auto hooks =
      exchange_hooks<float>(at.comm, of.parameters(), matrices("ef(top_k(0.1))"), {.exchange = {.bucket_bytes = 3000}});
  hooks.backward(of.loss(at.part(batch(0))));
  hooks.exchange().fit_buckets();
  hooks.zero_grad();
  hooks.backward(of.loss(at.part(batch(1))));
  auto const expected = mean_gradients(at, "ef(top_k(0.1))", {});
  CHECK(torch::equal(of.first.grad(), expected[3]));
}

TEST_CASE("wrong parameters are refused") {
  auto at = ranks();
  auto const make = [&](torch::Tensor const& p) {
    exchange_hooks<float>(at.comm, named("w", p), matrices("identity"));
  };
  CHECK_THROWS_WITH_AS(make(model::trainable(torch::ones({2}, torch::kDouble))),
                       "exchange_hooks: w must be dense, contiguous, on the CPU and of type Float, got CPUDoubleType",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(make(torch::ones({2, 3}).t().requires_grad_()),
                       "exchange_hooks: w must be dense, contiguous, on the CPU and of type Float, got CPUFloatType",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(make(torch::ones({2})), "exchange_hooks: a parameter must require a gradient, got none",
                       std::invalid_argument);
}

TEST_CASE("a step can follow an error before the first bucket") {
  auto comm = pith::runtime::mpi(MPI_COMM_SELF);
  auto const of = model::random();
  auto hooks = exchange_hooks<float>(comm, of.parameters(), matrices("identity"));
  CHECK_THROWS_WITH_AS(hooks.backward(throwing(of.loss(batch(0)) * 2)), "out of memory", std::runtime_error);
  hooks.zero_grad();
  hooks.backward(of.loss(batch(0)));
  auto const same = model::random();
  same.loss(batch(0)).backward();
  CHECK(are_equal(of.gradients(), same.gradients()));
}

TEST_CASE("sparse gradients are refused") {
  auto comm = pith::runtime::mpi(MPI_COMM_SELF);
  auto const words = model::trainable(torch::ones({4, 2}));
  auto hooks =
      exchange_hooks<float>(comm, named("words", words), matrices("identity"), {.gradients = layout::scattered});
  auto const loss = torch::embedding(words, torch::tensor({1, 2}), -1, false, true).sum();
  CHECK_THROWS_WITH_AS(hooks.backward(loss), doctest::Contains("the gradient of words must be dense"),
                       std::invalid_argument);
}

// The last tests: a rank that gives up a step leaves a transfer of the other ranks without an end.
namespace {

/// Rank 0 throws in backward. The barrier keeps rank 0 from the next test until the others have met their timeout.
void check_throwing(torch::Tensor (*throwing_loss)(model const&, torch::Tensor const&)) {
  auto comm = pith::runtime::mpi(MPI_COMM_WORLD, std::chrono::seconds(5));
  auto const of = model::random();
  auto hooks = exchange_hooks<float>(comm, of.parameters(), matrices("identity"), {.exchange = {.bucket_bytes = 600}});
  auto const x = batch(comm.rank());
  if (comm.rank() == 0) {
    CHECK_THROWS_WITH_AS(hooks.backward(throwing_loss(of, x)), "out of memory", std::runtime_error);
  } else {
    CHECK_THROWS_WITH_AS(hooks.backward(of.loss(x)), doctest::Contains("did not end within 5 s"),
                         pith::communication_error);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

TEST_CASE("an error before the first gradient reaches every rank") {
  check_throwing([](model const& of, torch::Tensor const& x) { return throwing(of.loss(x) * 2); });
}

TEST_CASE("an error after the first bucket reaches every rank") {
  check_throwing([](model const& of, torch::Tensor const& x) {
    auto const h = throwing(torch::tanh(x.matmul(of.first.t()) + of.bias));
    return h.matmul(of.second.t()).pow(2).mean();
  });
}
