// tests/device/grouped_tensors.cu — the number of launches of a bucket does not depend on its number of tensors.
#include <pith/adaptor/checked.hpp>
#include <pith/adaptor/flat.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/lanes.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "support/device.hpp"
#include "support/replayed.hpp"

using namespace support;

namespace {

using codec = pith::any_codec<float, pith::cuda_executor>;

/// `count` matrices of 40 columns. Matrix i has rows[i modulo the number of rows] rows.
std::vector<pith::tensor_spec> matrices(std::size_t count, std::vector<std::uint64_t> const& rows) {
  auto all = std::vector<pith::tensor_spec>();
  for (std::size_t i = 0; i < count; ++i) {
    auto const n = rows[i % rows.size()];
    all.push_back({"weight" + std::to_string(i), {n * 40, n}});
  }
  return all;
}

template <class C, pith::executor E>
struct run {
  E exec;
  pith::self_communicator comm;
  pith::gradient_exchange<float, E, pith::self_communicator> exchange;
  pith::buffer<float, E> gradients;

  run(E const& on, std::vector<pith::tensor_spec> const& tensors, C const& codec, pith::exchange_options options = {})
      : exec(on),
        exchange(
            pith::make_exchange<float>(exec, comm, tensors, pith::any_codec<float, E>(codec), in_one_bucket(options))),
        gradients(exec, exchange.size()) {}
  static pith::exchange_options in_one_bucket(pith::exchange_options options) {
    options.bucket_bytes = std::size_t{1} << 30;
    return options;
  }

  void step() { exchange.all_reduce_mean(gradients.view()); }
  std::vector<float> means_of(unsigned seed) {
    auto values = narrow<float>(normal_vector(gradients.size(), seed));
    exec.upload(gradients.data(), values.data(), gradients.size_bytes());
    step();
    exec.download(values.data(), gradients.data(), gradients.size_bytes());
    return values;
  }
};

/// The nodes of a captured step.
template <class C>
std::size_t nodes_of(C const& codec, std::vector<pith::tensor_spec> const& tensors,
                     pith::exchange_options const& o = {}) {
  auto const stream = own_stream();
  auto one = run<C, pith::cuda_executor>(pith::on(stream.get()), tensors, codec, o);
  one.step();
  return captured(stream.get(), [&] { one.step(); }).nodes();
}

template <class C>
void has_means_of_seq(C const& codec, std::vector<pith::tensor_spec> const& tensors, unsigned steps,
                      pith::exchange_options const& o = {}) {
  auto const stream = own_stream();
  auto expected = run<C, pith::seq_executor>(pith::seq, tensors, codec, o);
  auto got = run<C, pith::cuda_executor>(pith::on(stream.get()), tensors, codec, o);
  for (unsigned step = 0; step < steps; ++step) CHECK(got.means_of(step) == expected.means_of(step));
}

template <class C>
void grouped(C const& codec, std::uint64_t rows, std::size_t few, std::size_t many) {
  CAPTURE(codec.name());
  auto const alike = nodes_of(codec, matrices(1, {rows}));
  CHECK(nodes_of(codec, matrices(few, {rows})) == alike);
  CHECK(nodes_of(codec, matrices(many, {rows})) == alike);

  auto const mix = std::vector<std::uint64_t>{rows, 3, rows + 1, rows / 2};
  CHECK(nodes_of(codec, matrices(few, mix)) == nodes_of(codec, matrices(many, mix)));
  for (auto const count : {few, many}) has_means_of_seq(codec, matrices(count, mix), 2);
}

/// An exchange of tensors that a flat codec joins, whose gradients lie apart in memory.
template <pith::executor E>
struct joined {
  E exec;
  pith::self_communicator comm;
  pith::gradient_exchange<float, E, pith::self_communicator> exchange;
  pith::buffer<float, E> memory;

  joined(E const& on, std::vector<pith::tensor_spec> const& tensors)
      : exec(on),
        exchange(pith::make_exchange<float>(exec, comm, tensors, pith::flat(pith::error_feedback(pith::top_k(0.01))))),
        memory(exec, exchange.size() + tensors.size()) {}

  void step() {
    exchange.begin();
    std::size_t first = 0;
    for (std::size_t i = 0; i < exchange.tensors().size(); ++i) {
      auto const n = exchange.tensors()[i].dims.n;
      exchange.ready(i, memory.view().subspan(first, n));
      first += n + 1;
    }
    exchange.wait();
  }
  std::vector<float> means_of(unsigned seed) {
    auto values = narrow<float>(normal_vector(memory.size(), seed));
    exec.upload(memory.data(), values.data(), memory.size_bytes());
    step();
    exec.download(values.data(), memory.data(), memory.size_bytes());
    return values;
  }
};

/// The values of two gradients after eight steps for them in turn. `step(exchange, which, gradient)` runs a step. The
/// host does not wait between the steps.
template <pith::executor E, class Step>
std::vector<float> in_turn(E const& exec, Step&& step) {
  auto one = run<decltype(pith::error_feedback(pith::qsgd<8>())), E>(exec, matrices(16, {10, 3}),
                                                                     pith::error_feedback(pith::qsgd<8>()));
  auto const n = one.exchange.size();
  auto const both = pith::buffer<float, E>(exec, 2 * n);
  auto values = narrow<float>(normal_vector(2 * n, 7));
  exec.upload(both.data(), values.data(), both.size_bytes());
  exec.wait();
  for (unsigned t = 0; t < 8; ++t) step(one.exchange, t % 2, both.view().subspan(t % 2 * n, n));
  exec.download(values.data(), both.data(), both.size_bytes());
  return values;
}

/// The buffers of `count` tensors that are compressed in lanes.
template <class C>
class compressed {
 public:
  using E = pith::cuda_executor;

  compressed(E const& exec, C const& codec, std::size_t count, std::uint64_t rows) : exec_(exec), codec_(codec) {
    for (auto const& tensor : matrices(count, {rows, rows + 3})) {
      auto const& dims = tensor.dims;
      auto values = narrow<float>(normal_vector(dims.n, static_cast<unsigned>(count)));
      tensors_.push_back({{exec, dims.n},
                          {exec, pith::payload_bytes<float>(codec, dims)},
                          {exec, pith::workspace_bytes<float>(exec, codec, dims)},
                          pith::make_state<float>(exec, codec, dims)});
      exec.upload(tensors_.back().gradient.data(), values.data(), tensors_.back().gradient.size_bytes());
      exec.wait();
    }
  }

  void encode_in_lanes() {
    auto const work = encoded_.record(exec_);
    for (auto& t : tensors_) encode(work.next_lane(), t);
    work.run();
  }
  void decode_in_lanes() {
    auto const work = decoded_.record(exec_);
    for (auto& t : tensors_) decode(work.next_lane(), t);
    work.run();
  }
  void run_one_by_one() {
    for (auto& t : tensors_) encode(exec_, t);
    for (auto& t : tensors_) decode(exec_, t);
  }

  /// Changes the first byte of a payload.
  void damage(std::size_t tensor) {
    auto byte = std::byte();
    exec_.download(&byte, tensors_[tensor].payload.data(), 1);
    byte ^= std::byte{1};
    exec_.upload(tensors_[tensor].payload.data(), &byte, 1);
    exec_.wait();
  }

  /// The payloads and the decoded tensors.
  std::vector<std::byte> bytes() const {
    auto all = std::vector<std::byte>();
    for (auto const& t : tensors_) {
      append(all, t.payload.data(), t.payload.size());
      append(all, t.gradient.data(), t.gradient.size_bytes());
    }
    return all;
  }

 private:
  struct tensor {
    pith::buffer<float, E> gradient;
    pith::buffer<std::byte, E> payload, scratch;
    pith::codec_state<float, C, E> state;
  };

  void encode(E const& exec, tensor& t) const {
    auto ws = pith::workspace_on<E>(t.scratch.view());
    pith::compress<float>(exec, codec_, t.gradient.view(), t.payload.view(), t.state, ws);
  }
  void decode(E const& exec, tensor& t) const {
    auto ws = pith::workspace_on<E>(t.scratch.view());
    pith::decompress<float>(exec, codec_, t.payload.view(), t.gradient.view(), t.state, ws);
  }
  void append(std::vector<std::byte>& all, void const* from, std::size_t n) const {
    all.resize(all.size() + n);
    exec_.download(all.data() + all.size() - n, from, n);
  }

  E exec_;
  C codec_;
  std::vector<tensor> tensors_;
  pith::lanes<E> encoded_, decoded_;
};

struct nodes {
  std::size_t encoding, decoding;
  friend bool operator==(nodes const&, nodes const&) = default;
  friend std::ostream& operator<<(std::ostream& to, nodes const& n) { return to << n.encoding << ", " << n.decoding; }
};

/// The nodes of encoding and decoding 16 tensors in lanes, without the step's node. The bytes equal those of single
/// calls.
template <class C>
nodes lanes_of(C const& codec, std::uint64_t rows) {
  CAPTURE(codec.name());
  auto const stream = own_stream();
  auto const exec = pith::on(stream.get());
  auto in_lanes = compressed<C>(exec, codec, 16, rows), one_by_one = compressed<C>(exec, codec, 16, rows);
  for (int step = 0; step < 2; ++step) {
    in_lanes.encode_in_lanes();
    in_lanes.decode_in_lanes();
    one_by_one.run_one_by_one();
    CHECK(in_lanes.bytes() == one_by_one.bytes());
  }
  return {captured(stream.get(), [&] { in_lanes.encode_in_lanes(); }).nodes() - 1,
          captured(stream.get(), [&] { in_lanes.decode_in_lanes(); }).nodes()};
}

}  // namespace

TEST_CASE("encoding and decoding many tensors take few launches") {
  using namespace pith;
  CHECK(lanes_of(cast<bfloat16>(), 100) == nodes{1, 1});
  CHECK(lanes_of(error_feedback(qsgd<8>()), 100) == nodes{1, 1});
  CHECK(lanes_of(error_feedback(block_int<4>()), 100) == nodes{2, 1});  // zeros before the scales of some tensors
  CHECK(lanes_of(scaled_sign(), 100) == nodes{2, 1});
  CHECK(lanes_of(error_feedback(scaled_sign()), 100) == nodes{3, 1});
  CHECK(lanes_of(error_feedback(top_k(0.01)), 500) == nodes{13, 3});
}

TEST_CASE("a flag has the faults of all lanes") {
  auto const stream = own_stream();
  auto const exec = pith::on(stream.get());
  for (std::size_t damaged = 0; damaged < 8; ++damaged) {
    auto flag = pith::error_flag(exec);
    auto const codec = pith::checked(pith::scaled_sign(), flag);
    auto all = compressed(exec, codec, 8, 10), one_by_one = compressed(exec, codec, 8, 10);
    all.encode_in_lanes();
    all.decode_in_lanes();
    one_by_one.run_one_by_one();
    CHECK(all.bytes() == one_by_one.bytes());
    flag.require_none();
    all.damage(damaged);
    all.decode_in_lanes();
    CHECK_THROWS_AS(flag.require_none(), pith::wire_error);
  }
}

TEST_CASE("the first run of lanes can be captured") {
  auto const stream = own_stream();
  auto const exec = pith::on(stream.get());
  auto const codec = pith::error_feedback(pith::scaled_sign());
  auto in_graph = compressed(exec, codec, 8, 100), expected = compressed(exec, codec, 8, 100);
  auto const graph = captured(stream.get(), [&] {
    in_graph.encode_in_lanes();
    in_graph.decode_in_lanes();
  });
  for (int step = 0; step < 3; ++step) {
    graph.replay();
    expected.run_one_by_one();
    CHECK(in_graph.bytes() == expected.bytes());
  }
}

TEST_CASE("small tensors share the launches of one tensor") {
  using namespace pith;
  auto const of = [](auto const& codec) { grouped(codec, 10, 16, 161); };
  of(identity());
  of(cast<bfloat16>());
  of(two_shot(qsgd<8>()));
  of(error_feedback(two_shot(block_int<4>(), error_feedback(block_int<4>()))));
  of(error_feedback(power_sgd(4)));
  of(error_feedback(scaled_sign()));
  of(error_feedback(top_k(0.01)));
  of(error_feedback(qsgd<8>()));
  of(error_feedback(top_k(0.01) | qsgd<8>()));
}

TEST_CASE("the copies to a vector share a launch, and so do the copies back") {
  auto const nodes = [&](std::size_t count, std::uint64_t rows) {
    auto const stream = own_stream();
    auto one = joined<pith::cuda_executor>(pith::on(stream.get()), matrices(count, {rows}));
    one.step();
    return captured(stream.get(), [&] { one.step(); }).nodes();
  };
  CHECK(nodes(16, 110) == nodes(176, 10));  // vectors of the same size
  auto const stream = own_stream();
  auto got = joined<pith::cuda_executor>(pith::on(stream.get()), matrices(16, {10, 3, 11}));
  auto expected = joined<pith::seq_executor>(pith::seq, matrices(16, {10, 3, 11}));
  for (unsigned step = 0; step < 3; ++step) CHECK(got.means_of(step) == expected.means_of(step));
}

TEST_CASE("the copies of a recoverable exchange share a launch") {
  auto const codec = pith::error_feedback(pith::qsgd<8>());
  auto const nodes = [&](std::size_t count) {
    return nodes_of(codec, matrices(count, {10}), {.is_recoverable = true});
  };
  CHECK(nodes(16) == nodes(161));
}

TEST_CASE("exact gathers of many tensors have the means of seq") {
  has_means_of_seq(pith::error_feedback(pith::threshold(1.5)), matrices(16, {10, 3, 11}), 3,
                   {.gather_mode = pith::gather::exact});
}

TEST_CASE("more than a thousand tensors have the means of seq") {
  has_means_of_seq(pith::cast<pith::bfloat16>(), matrices(1100, {1, 60, 2}), 2);
}

TEST_CASE("steps that do not wait for each other, and replays between them, have the means of seq") {
  auto const stream = own_stream();
  auto const exec = pith::on(stream.get());
  auto const at_once = support::at_once();
  auto const expected = in_turn(pith::seq, [&](auto& exchange, unsigned, auto g) { at_once(exchange, g); });
  CHECK(in_turn(exec, [&](auto& exchange, unsigned, auto g) { at_once(exchange, g); }) == expected);
  auto in_graph = replayed(stream.get(), at_once);
  auto const got = in_turn(exec, [&](auto& exchange, unsigned which, auto g) {
    if (which == 0) {
      in_graph(exchange, g);
    } else {
      at_once(exchange, g);
    }
  });
  CHECK(got == expected);
}

TEST_CASE("large tensors share the launches of one tensor") {
  using namespace pith;
  auto const of = [](auto const& codec) { grouped(codec, 500, 4, 8); };
  of(error_feedback(top_k(0.01)));
  of(error_feedback(scaled_sign()));
  of(two_shot(top_k(0.01)));
}
