// benchmarks/peers/pith_peers.cpp — the peers' methods as codecs of this library, on one thread.
//
//   pith_peers values LOG2N            writes 2^LOG2N normal floats to the standard output
//   pith_peers time FILE [ROUNDS]      prints the rows of benchmarks/peers/run.sh for the floats of a file
//
// Codecs are concrete types, not made by parse. Buffers are those of yardstick.hpp.
#include "contender.hpp"
#include "nearest8.hpp"

#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <bit>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

/// As many as the peers take.
constexpr unsigned steps_of_feedback = 4;

struct operation {
  std::string method;
  char const* verb;
  std::size_t bytes;
  double error;
  char const* computes;
};

/// Values, and the codecs that are timed on them.
template <pith::executor E>
class contest {
 public:
  contest(E const& exec, std::vector<float> const& values)
      : exec_(exec),
        values_(values),
        dims_(bench::matrix_of(static_cast<unsigned>(std::countr_zero(values.size())))),
        bytes_(values.size() * sizeof(float)),
        sets_(bench::sets_for(bytes_)),
        x_(exec, dims_.n, sets_),
        y_(exec, dims_.n, sets_) {
    for (std::size_t set = 0; set < sets_; ++set) exec.upload(x_[set].data(), values.data(), bytes_);
  }

  template <class C>
  void add(std::string const& method, C const& codec, char const* computes) {
    auto const made = std::make_shared<bench::contender<C, E>>(exec_, codec, dims_, sets_);
    auto const what = operation{method, "encode", made->payload_bytes(), error_of(*made, 1), computes};
    for (std::size_t set = 0; set < sets_; ++set) made->encode(set, x_[set]);
    add(what, [this, made](std::size_t set) { made->encode(set, x_[set]); });
    add({method, "decode", what.bytes, what.error, computes},
        [this, made](std::size_t set) { made->decode(set, y_[set]); });
  }
  /// With feedback; decoding is the same as without.
  template <class C>
  void add_fed_back(std::string const& method, C const& codec, char const* computes) {
    auto const fed_back = pith::error_feedback(codec);
    using made_type = bench::contender<std::remove_const_t<decltype(fed_back)>, E>;
    auto const made = std::make_shared<made_type>(exec_, fed_back, dims_, sets_);
    auto const error = error_of(*made, steps_of_feedback);
    add({"ef(" + method + ")", "encode", made->payload_bytes(), error, computes},
        [this, made](std::size_t set) { made->encode(set, x_[set]); });
  }

  void print(std::size_t rounds) {
    auto const memory = bench::yardstick<E>(exec_, bytes_, sets_);
    auto const [times, rates] = bench::measure(things_, memory, bytes_, sets_, rounds);
    print({"memcpy", "copy", bytes_, 0, "memcpy"}, rates.copy.median, rounds);
    for (std::size_t i = 0; i < times.size(); ++i) print(operations_[i], times[i].median, rounds);
  }

 private:
  void add(operation const& what, std::function<void(std::size_t)> run) {
    operations_.push_back(what);
    things_.push_back({std::move(run)});
  }
  double error_of(auto& made, unsigned steps) const { return made.error(steps, values_, x_[0], y_[0]); }
  void print(operation const& o, double seconds, std::size_t rounds) const {
    std::printf("pith (%s),%s,%s,%zu,%.6g,%zu,%zu,%.8g,%s\n", PITH_COMPILER, o.method.c_str(), o.verb, values_.size(),
                seconds, rounds, o.bytes, o.error, o.computes);
  }

  E exec_;
  std::vector<float> values_;
  pith::shape dims_;
  std::size_t bytes_, sets_;
  bench::rotated<float, E> x_, y_;
  std::vector<operation> operations_;
  std::vector<bench::thing> things_;
};

/// The codecs, with the parameters of the peers.
void add_methods(auto& to) {
  constexpr double density = 0.01;
  to.add("one_bit", pith::scaled_sign(), "mean magnitude; packed signs");
  to.add_fed_back("one_bit", pith::scaled_sign(), "fused feedback");
  to.add("one_bit_means", pith::one_bit(), "two means; packed signs");
  to.add("qsgd8", pith::qsgd<8>(), "buckets of 128; l2; 127 levels");
  to.add_fed_back("qsgd8", pith::qsgd<8>(), "fused feedback");
  to.add("int8", bench::nearest8(), "nearest of the largest / 127");
  to.add("top_k", pith::top_k(density), "exact 1 %; Elias-Fano indices");
  to.add_fed_back("top_k", pith::top_k(density), "fused feedback");
  to.add("random_k", pith::random_k(density), "1 % from strata; no indices");
  to.add("half", pith::cast<pith::half>(), "cast");
  to.add("bfloat16", pith::cast<pith::bfloat16>(), "cast");
  to.add("power_sgd", pith::power_sgd(4), "rank 4; products in double");
  to.add_fed_back("power_sgd", pith::power_sgd(4), "fused feedback");
}

void write_values(std::size_t log2n) {
  auto const x = bench::normal_values<float>(std::size_t{1} << log2n);
  if (std::fwrite(x.data(), sizeof(float), x.size(), stdout) != x.size()) throw std::runtime_error("cannot write");
}

std::vector<float> read_values(std::string const& path) {
  auto file = std::ifstream(path, std::ios::binary | std::ios::ate);
  auto x = std::vector<float>(file ? static_cast<std::size_t>(file.tellg()) / sizeof(float) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(x.data()), static_cast<std::streamsize>(x.size() * sizeof(float)));
  if (!std::has_single_bit(x.size()) || x.size() < 1 << 12) {
    throw std::runtime_error(path + ": expected 2^12 floats or more, their number a power of two, got " +
                             std::to_string(x.size()));
  }
  return x;
}

void time_methods(std::string const& path, std::size_t rounds) {
  auto methods = contest(pith::seq, read_values(path));
  add_methods(methods);
  methods.print(rounds);
}

}  // namespace

int main(int argc, char** argv) {
  auto const arguments = std::vector<std::string>(argv + 1, argv + argc);
  try {
    if (arguments.size() == 2 && arguments[0] == "values") return write_values(std::stoul(arguments[1])), 0;
    if (arguments.size() > 1 && arguments[0] == "time") {
      return time_methods(arguments[1], arguments.size() > 2 ? std::stoul(arguments[2]) : 31), 0;
    }
    std::fputs("pith_peers values LOG2N | pith_peers time FILE [ROUNDS]\n", stderr);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "pith_peers: %s\n", error.what());
  }
  return 2;
}
