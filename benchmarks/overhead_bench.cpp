// benchmarks/overhead_bench.cpp — the overhead of a call, a tensor and an exchange.
//
//   overhead_bench [--codec TEXT]... [--rounds N] [--benchmark_format=json]
//
//   call/CODEC        compressing 8 elements; copied: the elements, of 2^22, that memcpy copies in that time
//   resnet50/CODEC    gradient_exchange of ResNet-50's 161 tensors on one rank; x_memcpy: over copying them;
//                     x_one: over one tensor of their size; copied_a_tensor: the difference per tensor
//   transformer/CODEC, small/CODEC    the same for a transformer's 292 tensors, and for 325 of 1 to 4096 elements
//   mean/CODEC        all_reduce_mean of 2^22 elements on one rank; x_parts: over compress and decompress
//   sharded/CODEC     reduce_scatter of 2^22 elements on one of four ranks; x_parts: over compress, a copy of the payload
//                     in place of the transfer, and the mean of four payloads of a quarter of the elements
//   parsed/CHAIN      compress of 2^22 elements by a chain from a text; x_typed: over the chain composed in C++, in which a
//                     rotation and a quantizer run in one pass
//   memory/CODEC      bytes per element of workspace, state and payload, for 2^22 elements
#include "report.hpp"
#include "resnet50.hpp"
#include "subject.hpp"
#include "transformer.hpp"

#include <pith/exchange/gradient_exchange.hpp>

#include <CLI/CLI.hpp>
#include <range/v3/numeric/accumulate.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/enumerate.hpp>
#include <range/v3/view/transform.hpp>
#include <range/v3/view/zip.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using gradient = pith::buffer<float, pith::seq_executor>;
constexpr unsigned log2n = 22;

/// Times things in rounds with copies of 2^22 floats.
class beside_memcpy {
 public:
  explicit beside_memcpy(std::size_t rounds) : rounds_(rounds) {}

  static std::size_t sets() { return bench::sets_for(bytes); }
  auto operator()(std::vector<bench::thing> things) const {
    return bench::measure(std::move(things), memory_, bytes, sets(), rounds_);
  }

 private:
  static constexpr std::size_t bytes = sizeof(float) << log2n;

  std::size_t rounds_;
  bench::yardstick<pith::seq_executor> memory_{pith::seq, bytes, sets()};
};

/// The floats that memcpy copies in a time.
double floats_copied(bench::rates const& memory, double seconds) { return memory.copied(seconds) / sizeof(float); }

struct options {
  std::vector<std::string> codecs;
  std::size_t rounds = 31;
};

void add_options(CLI::App& app, options& o) {
  app.add_option("--codec", o.codecs, "codecs in place of the default ones; repeatable")->allow_extra_args(false);
  app.add_option("--rounds", o.rounds)->check(CLI::Range(1, 100'000))->capture_default_str();
}

std::vector<std::string> codecs(options const& o) {
  if (!o.codecs.empty()) return o.codecs;
  return {std::begin(bench::default_codecs), std::end(bench::default_codecs)};
}
/// The codecs that are fast enough for a model's size.
std::vector<std::string> model_codecs(options const& o) {
  if (!o.codecs.empty()) return o.codecs;
  return {"identity",    "cast<bfloat16>", "scaled_sign",     "ef(scaled_sign)", "qsgd<8>",
          "ef(qsgd<8>)", "top_k(0.01)",    "ef(top_k(0.01))", "random_k(0.1)",   "power_sgd(4)"};
}

/// A call is too short to be timed alone.
bench::thing compress_eight(std::string const& text, unsigned times) {
  using subject = bench::subject<float, pith::seq_executor>;
  auto const codec = std::make_shared<subject>(pith::seq, text, pith::shape{8, 2}, 1);
  return {[codec, times, x = bench::normal_values<float>(8)](std::size_t) {
    for (unsigned i = 0; i < times; ++i) codec->encode(0, x);
  }};
}

std::vector<bench::row> calls(std::vector<std::string> const& texts, beside_memcpy const& time) {
  constexpr unsigned calls = 1000;
  auto const thing_of = [](std::string const& text) { return compress_eight(text, calls); };
  auto const [times, memory] = time(texts | ranges::views::transform(thing_of) | ranges::to<std::vector>());
  auto rows = std::vector<bench::row>();
  for (auto const& [text, taken] : ranges::views::zip(texts, times)) {
    auto const one = taken.median / calls;
    rows.push_back({"call/" + text, one, {{"copied", floats_copied(memory, one)}}});
  }
  return rows;
}

gradient normal_gradient(std::size_t n) {
  auto made = gradient(pith::seq, n);
  auto const values = bench::normal_values<float>(n);
  pith::seq.upload(made.data(), values.data(), n * sizeof(float));
  return made;
}

/// A gradient that is exchanged in place, in several buffers. Before each exchange another buffer is refilled,
/// whose turn comes half a round later, so that it has left the cache by then.
class exchanged {
 public:
  exchanged(gradient const& values, std::size_t sets)
      : values_(values), sets_(sets), work_(pith::seq, values.size(), sets) {
    for (std::size_t set = 0; set < sets; ++set) restore(set);
  }

  template <class Exchange>
  bench::thing by(Exchange const& exchange) const {
    return {[this, exchange](std::size_t set) { exchange(work_[set % sets_]); },
            [this](std::size_t set) { restore((set + sets_ / 2) % sets_); }};
  }

 private:
  void restore(std::size_t set) const { pith::seq.copy(work_[set].data(), values_.data(), values_.size_bytes()); }

  gradient const& values_;
  std::size_t sets_;
  bench::rotated<float, pith::seq_executor> work_;
};

struct model {
  std::string name;
  std::vector<pith::shape> tensors;

  std::vector<pith::tensor_spec> specs() const {
    auto made = std::vector<pith::tensor_spec>();
    for (auto const& [i, dims] : ranges::views::enumerate(tensors))
      made.push_back({"tensor " + std::to_string(i), dims});
    return made;
  }
  std::uint64_t size() const { return ranges::accumulate(tensors, std::uint64_t{0}, std::plus<>(), &pith::shape::n); }
};

/// 25 of each power of two up to 4096.
std::vector<pith::shape> small_tensors() {
  auto made = std::vector<pith::shape>();
  for (int i = 0; i < 25; ++i) {
    for (std::uint64_t n = 1; n <= 4096; n *= 2) made.push_back({n});
  }
  return made;
}

std::vector<model> models() {
  auto const& shapes = bench::resnet50.shapes();
  return {
      {"resnet50", {shapes.begin(), shapes.end()}}, {"transformer", bench::transformer()}, {"small", small_tensors()}};
}

/// A model's gradient is larger than a cache, so one buffer suffices. Small tensors stay in the cache on both sides.
/// The single tensor is a matrix, since low-rank codecs send vectors uncompressed. It omits the remainder modulo
/// 4096.
bench::row exchange_model(std::string const& text, model const& of, gradient const& values, beside_memcpy const& time) {
  auto comm = pith::self_communicator();
  auto const work = exchanged(values, 1);
  auto const codec = bench::codec_of<float, pith::seq_executor>(text);
  auto many = pith::make_exchange<float>(pith::seq, comm, of.specs(), codec);
  auto const all = pith::shape{values.size() / 4096 * 4096, 4096};
  auto one = pith::make_exchange<float>(pith::seq, comm, {{"all", all}}, codec);
  auto const [times, memory] = time({work.by([&](auto x) { many.all_reduce_mean(x); }),
                                     work.by([&](auto x) { one.all_reduce_mean(x.first(all.n)); })});
  auto const taken = times[0].median, more = taken - times[1].median;
  return {of.name + "/" + text,
          taken,
          {{"x_memcpy", floats_copied(memory, taken) / static_cast<double>(values.size())},
           {"x_one", taken / times[1].median},
           {"copied_a_tensor", floats_copied(memory, more) / static_cast<double>(of.tensors.size())}}};
}

/// A rank of four, which receives its own pieces in place of those of the others.
struct rank_of_four : pith::self_communicator {
  unsigned size() const { return 4; }

  template <pith::executor E>
  pith::completed all_to_all(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    exec.copy(all.data(), mine.data(), mine.size());
    return {};
  }
};

/// all_reduce_mean of one tensor, with its buffers and state.
template <class Comm>
class mean_of_one {
 public:
  mean_of_one(std::string const& text, pith::shape const& dims)
      : codec_(bench::codec_of<float, pith::seq_executor>(text)),
        state_(pith::make_state<float>(pith::seq, codec_, dims)),
        scratch_(pith::seq, pith::workspace_bytes<float>(pith::seq, codec_, dims, comm_.size())) {}

  void operator()(pith::span<float> x) {
    auto ws = pith::workspace(scratch_.view());
    pith::all_reduce_mean(pith::seq, comm_, codec_, x, state_, ws);
  }

 private:
  using codec_type = pith::any_codec<float, pith::seq_executor>;

  Comm comm_;
  codec_type codec_;
  pith::codec_state<float, codec_type, pith::seq_executor> state_;
  pith::buffer<std::byte, pith::seq_executor> scratch_;
};

bench::row exchange_tensor(std::string const& text, exchanged const& work, beside_memcpy const& time) {
  auto const dims = bench::matrix_of(log2n);
  auto mean = mean_of_one<pith::self_communicator>(text, dims);
  auto parts = bench::subject<float, pith::seq_executor>(pith::seq, text, dims, 1);
  auto const both = [&](auto x) {
    parts.encode(0, x);
    parts.decode(0, x);
  };
  auto const [times, memory] = time({work.by([&](auto x) { mean(x); }), work.by(both)});
  auto const n = static_cast<double>(dims.n);
  return {"mean/" + text,
          times[0].median,
          {{"x_memcpy", floats_copied(memory, times[0].median) / n}, {"x_parts", times[0].median / times[1].median}}};
}

/// The text of a reduce_scatter by this codec, whose feedback remains outermost.
std::string scattered(std::string const& text) {
  auto const is_fed_back = text.starts_with("ef(");
  auto const inner = is_fed_back ? text.substr(3, text.size() - 4) : text;
  return is_fed_back ? "ef(reduce_scatter(" + inner + "))" : "reduce_scatter(" + inner + ")";
}

bench::row exchange_shards(std::string const& text, exchanged const& work, beside_memcpy const& time) {
  auto const dims = pith::vector(std::uint64_t{1} << log2n), quarter = pith::vector(dims.n / 4);
  auto mean = mean_of_one<rank_of_four>(scattered(text), dims);
  auto whole = bench::subject<float, pith::seq_executor>(pith::seq, text, dims, 1);
  auto part = bench::subject<float, pith::seq_executor>(pith::seq, text, quarter, 1);
  auto const all = normal_gradient(dims.n);
  part.encode(0, all.view().first(quarter.n));
  part.gather(0);
  auto const sent = pith::buffer<std::byte, pith::seq_executor>(pith::seq, whole.payload_bytes());
  auto const received = pith::buffer<std::byte, pith::seq_executor>(pith::seq, sent.size());
  auto const both = [&](auto x) {
    whole.encode(0, x);
    pith::seq.copy(received.data(), sent.data(), sent.size());
    part.decode_ranks(0, x.first(quarter.n));
  };
  auto const [times, memory] = time({work.by([&](auto x) { mean(x); }), work.by(both)});
  auto const n = static_cast<double>(dims.n);
  return {"sharded/" + text,
          times[0].median,
          {{"x_memcpy", floats_copied(memory, times[0].median) / n}, {"x_parts", times[0].median / times[1].median}}};
}

/// Codecs whose payloads are gathered.
std::vector<std::string> sharded_codecs(options const& o) {
  if (!o.codecs.empty()) return o.codecs;
  return {"block_int<8>", "ef(block_int<8>)", "block_int<4>(32)", "ef(block_int<4>(32))", "qsgd<8>",
          "ef(qsgd<8>)",  "scaled_sign",      "ef(scaled_sign)",  "top_k(0.01)",          "ef(top_k(0.01))"};
}

/// The chains that subject.hpp composes in C++. A blank in the text keeps the parsed one from being one of them.
bench::row parse_chain(std::string const& text, exchanged const& work, beside_memcpy const& time) {
  using subject = bench::subject<float, pith::seq_executor>;
  auto const dims = bench::matrix_of(log2n);
  auto typed = subject(pith::seq, text, dims, 1), parsed = subject(pith::seq, text + " ", dims, 1);
  auto const [times, memory] =
      time({work.by([&](auto x) { parsed.encode(0, x); }), work.by([&](auto x) { typed.encode(0, x); })});
  auto const taken = times[0].median;
  return {
      "parsed/" + text,
      taken,
      {{"x_memcpy", floats_copied(memory, taken) / static_cast<double>(dims.n)}, {"x_typed", taken / times[1].median}}};
}

bench::row memory(std::string const& text) {
  auto const dims = bench::matrix_of(log2n);
  auto codec = bench::subject<float, pith::seq_executor>(pith::seq, text, dims, 1);
  auto const an_element = [&](std::size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(dims.n); };
  return {"memory/" + text,
          0,
          {{"workspace", an_element(codec.workspace_bytes())},
           {"state", an_element(codec.replicated_bytes() + codec.local_bytes())},
           {"payload", an_element(codec.payload_bytes())}}};
}

void measure_all(options const& o) {
  auto const time = beside_memcpy(o.rounds);
  bench::print(calls(codecs(o), time));
  for (auto const& of : models()) {
    auto const values = normal_gradient(of.size());
    for (auto const& text : model_codecs(o)) bench::print(exchange_model(text, of, values, time));
  }
  auto const values = normal_gradient(std::size_t{1} << log2n);
  auto const work = exchanged(values, time.sets());
  for (auto const& text : codecs(o)) bench::print(exchange_tensor(text, work, time));
  for (auto const& text : sharded_codecs(o)) bench::print(exchange_shards(text, work, time));
  for (auto const* const text : {"hadamard|qsgd<4>", "hadamard|eden<4>"}) bench::print(parse_chain(text, work, time));
  for (auto const& text : codecs(o)) bench::print(memory(text));
}

}  // namespace

int main(int argc, char** argv) {
  auto app = CLI::App("Times the overhead of calls, tensors and exchanges.", "overhead_bench");
  auto o = options();
  add_options(app, o);
  return bench::command(app, argc, argv, [&] { measure_all(o); });
}
