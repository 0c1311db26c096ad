// benchmarks/codec_bench.cpp — times of encoding and decoding, relative to those of memory.
//
//   codec_bench [--codec TEXT]... [--executor NAME]... [--log2n N]... [--rounds N] [--benchmark_format=json]
//
// There is one program per element type: codec_bench_double and so on. All rows of an executor and size are timed in
// the same rounds (yardstick.hpp). A row is an operation of a codec: encode, decode, or decode_sum4, which adds up the
// payloads of four ranks. Its columns are
//
//   ns_per_element, q10    the median over the rounds, and the tenth percentile
//   x_memcpy               the time over that of copying the values; x_memcpy_q10: of the tenth percentiles
//   bytes_per_element      minimal memory traffic, from the sizes of values, payload and state
//   of_memcpy              minimal traffic per second, over that of memcpy
//   of_bound               (bytes read / rate of reading + bytes written / rate of writing) / time
//   ratio, error           bytes of values / bytes of payload; |D(C(x)) - x|^2 / |x|^2 in the first step
#include "report.hpp"
#include "subject.hpp"

#include <pith/exec/par.hpp>

#include <CLI/CLI.hpp>
#include <range/v3/view/zip.hpp>

#include <deque>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

struct options {
  std::vector<std::string> codecs{std::begin(bench::default_codecs), std::end(bench::default_codecs)};
  std::vector<std::string> executors{"seq"};
  std::vector<unsigned> sizes{22};
  std::size_t rounds = 31;
};

void add_options(CLI::App& app, options& o) {
  app.add_option("--codec", o.codecs, "a codec to measure, such as 'ef(qsgd<8>)'; repeatable")->allow_extra_args(false);
  app.add_option("--executor", o.executors)
      ->check(CLI::IsMember({"seq", "par"}))
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--log2n", o.sizes, "2^N elements; repeatable")
      ->check(CLI::Range(12, 24))
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--rounds", o.rounds)->check(CLI::Range(31, 100'000))->capture_default_str();
}

/// One element type, executor and size: values, and the codecs that encode them.
template <pith::real In, pith::executor E>
class group {
 public:
  group(E const& exec, unsigned log2n, options const& o)
      : dims_(bench::matrix_of(log2n)),
        bytes_(dims_.n * sizeof(In)),
        sets_(bench::sets_for(bytes_)),
        name_("/" + std::string(pith::element_name<In>()) + "/" + E::name() + "/2^" + std::to_string(log2n)),
        x_(exec, dims_.n, sets_),
        y_(exec, dims_.n, sets_),
        memory_(exec, bytes_, sets_) {
    auto const values = bench::normal_values<In>(dims_.n);
    for (std::size_t set = 0; set < sets_; ++set) exec.upload(x_[set].data(), values.data(), bytes_);
    for (auto const& text : o.codecs) add(exec, text);
  }

  std::vector<bench::row> measure(std::size_t rounds) {
    benchmark::AddCustomContext("huge_pages" + name_, bench::huge_pages());
    auto const [times, memory] = bench::measure(things_, memory_, bytes_, sets_, rounds);
    auto rows = memory_rows(memory);
    for (auto const& [of, time] : ranges::views::zip(operations_, times)) {
      rows.push_back(row_of(of.name, time, of.least, memory));
      rows.back().counters.insert(rows.back().counters.end(), {{"ratio", of.ratio}, {"error", of.error}});
    }
    return rows;
  }

 private:
  struct operation {
    std::string name;
    bench::traffic least;
    double ratio, error;
  };

  void add(E const& exec, std::string const& text) {
    auto& s = subjects_.emplace_back(exec, text, dims_, sets_);
    for (std::size_t set = 0; set < sets_; ++set) s.encode(set, x_[set]);
    s.decode(0, y_[0]);
    auto const ratio = static_cast<double>(bytes_) / static_cast<double>(s.payload_bytes());
    auto const error = error_of_first(exec);
    add({text + "/encode", s.encoding(), ratio, error}, [this, &s](std::size_t set) { s.encode(set, x_[set]); });
    add({text + "/decode", s.decoding(), ratio, error}, [this, &s](std::size_t set) { s.decode(set, y_[set]); });
    if (!s.sums()) return;
    for (std::size_t set = 0; set < sets_; ++set) s.gather(set);
    add({text + "/decode_sum4", s.summing(), ratio, error},
        [this, &s](std::size_t set) { s.decode_ranks(set, y_[set]); });
  }
  void add(operation const& what, std::function<void(std::size_t)> run) {
    operations_.push_back(what);
    things_.push_back({std::move(run)});
  }

  double error_of_first(E const& exec) const {
    auto x = std::vector<In>(dims_.n), y = x;
    exec.download(x.data(), x_[0].data(), bytes_);
    exec.download(y.data(), y_[0].data(), bytes_);
    return bench::relative_error<In>(x, y);
  }

  bench::row row_of(std::string const& name, bench::timing const& time, bench::traffic const& least,
                    bench::rates const& memory) const {
    auto const n = static_cast<double>(dims_.n);
    return {name + name_,
            time.median,
            {{"ns_per_element", time.median / n * 1e9},
             {"q10", time.q10 / n * 1e9},
             {"x_memcpy", time.median / memory.copy.median},
             {"x_memcpy_q10", time.q10 / memory.copy.q10},
             {"bytes_per_element", least.total() / n},
             {"of_memcpy", memory.of_memcpy(least, time.median)},
             {"of_bound", memory.bound(least) / time.median}}};
  }
  std::vector<bench::row> memory_rows(bench::rates const& memory) const {
    auto const b = memory.bytes;
    return {row_of("memory/memcpy", memory.copy, {b, b}, memory), row_of("memory/read", memory.read, {b, 0}, memory),
            row_of("memory/write", memory.write, {0, b}, memory)};
  }

  pith::shape dims_;
  std::size_t bytes_, sets_;
  std::string name_;
  bench::rotated<In, E> x_, y_;
  bench::yardstick<E> memory_;
  std::deque<bench::subject<In, E>> subjects_;
  std::vector<operation> operations_;
  std::vector<bench::thing> things_;
};

/// One line per executor.
std::vector<bench::row> measure(std::string const& executor, unsigned log2n, options const& o) {
  using In = PITH_BENCH_ELEMENT;
  if (executor == "par") return group<In, decltype(pith::par())>(pith::par(), log2n, o).measure(o.rounds);
  return group<In, pith::seq_executor>(pith::seq, log2n, o).measure(o.rounds);
}

void measure_all(options const& o) {
  for (auto const& executor : o.executors) {
    for (auto const log2n : o.sizes) bench::print(measure(executor, log2n, o));
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto app = CLI::App("Times of codecs relative to memcpy.", "codec_bench");
  auto o = options();
  add_options(app, o);
  return bench::command(app, argc, argv, [&] { measure_all(o); });
}
