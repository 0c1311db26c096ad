// tests/exchange/exchange_report_test.cpp — what a report says of a step, beside what is counted and measured otherwise.
#include <pith/adaptor/rated.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/report_lines.hpp>
#include <pith/pith.hpp>
#include <pith/sparsify/threshold.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <locale>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

namespace {

using any = pith::any_codec<float, pith::seq_executor>;
using counter = std::atomic<std::uint64_t>;

/// Counts the bytes that leave a rank, per message: the gathered bytes to each other rank, a piece to each in an
/// all-to-all, and the pieces that a ring adds up and forwards in a sum.
class counting_communicator {
 public:
  counting_communicator(pith::thread_communicator comm, counter& sent) : comm_(comm), sent_(&sent) {}

  unsigned rank() const { return comm_.rank(); }
  unsigned size() const { return comm_.size(); }
  counting_communicator split(unsigned color) { return {comm_.split(color), *sent_}; }

  template <pith::detail::host_executor E>
  auto all_gather(E const& exec, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    for (unsigned to = 0; to < size(); ++to) *sent_ += to == rank() ? 0 : mine.size();
    return comm_.all_gather(exec, mine, all);
  }
  template <pith::detail::host_executor E>
  auto all_to_all(E const& exec, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    for (unsigned to = 0; to < size(); ++to) *sent_ += to == rank() ? 0 : mine.size() / size();
    return comm_.all_to_all(exec, mine, all);
  }
  template <pith::detail::host_executor E>
  auto send_recv(E const& exec, pith::span<std::byte const> mine, unsigned to, pith::span<std::byte> theirs,
                 unsigned from) {
    *sent_ += to == rank() ? 0 : mine.size();
    return comm_.send_recv(exec, mine, to, theirs, from);
  }
  template <pith::detail::host_executor E, class T>
  auto all_reduce(E const& exec, pith::span<T> x, pith::reduction how) {
    for (unsigned pass = 0; pass < 2; ++pass) {
      for (unsigned step = 0; step + 1 < size(); ++step) {
        auto const piece = (rank() + pass + size() - step) % size();
        *sent_ += (x.size() / size() + (piece < x.size() % size() ? 1 : 0)) * sizeof(T);
      }
    }
    return comm_.all_reduce(exec, x, how);
  }

 private:
  pith::thread_communicator comm_;
  counter* sent_;
};

std::vector<pith::tensor_spec> const reported = {
    {"weight", {40 * 24, 40}}, {"bias", {40}}, {"none", {0}}, {"head", {24 * 7, 24}}, {"last", {301}}};

std::vector<float> reported_gradient(std::size_t n, unsigned rank) {
  auto g = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i) g[i] = static_cast<float>(static_cast<int>((i * 37 + rank * 11) % 33) - 16) / 16;
  return g;
}

/// What a step of so many ranks sent, counted, and what they reported.
struct sent_bytes {
  counter counted = 0;
  std::vector<double> reported;
};
void send(sent_bytes& all, unsigned ranks, any const& codec, pith::exchange_options const& options) {
  all.reported.assign(ranks, 0);
  pith::run_ranks(ranks, [&](pith::thread_communicator threads) {
    auto built = counter();
    auto comm = counting_communicator(threads, built);
    auto exchange = pith::make_exchange<float>(pith::seq, comm, reported, codec, options);
    auto g = reported_gradient(exchange.size(), comm.rank());
    exchange.all_reduce_mean(g);
    built = 0;
    exchange.all_reduce_mean(g);
    all.counted += built;
    all.reported[comm.rank()] = exchange.report().total.wire_bytes;
  });
}

}  // namespace

TEST_CASE("the bytes of all ranks are those that are counted message by message") {
  struct setting {
    char const* codec;
    pith::gather how = pith::gather::padded;
  };
  for (auto const& s : std::vector<setting>{{"identity"},
                                            {"cast<half>"},
                                            {"ef(top_k(0.1)|qsgd<4>)"},
                                            {"ef(power_sgd(2))"},
                                            {"summed_terngrad"},
                                            {"two_shot(qsgd<8>)"},
                                            {"reduce_scatter(qsgd<8>,rows)"},
                                            {"ring(qsgd<8>)"},
                                            {"g_top_k(0.1)"},
                                            {"hierarchical(qsgd<8>,two_shot(scaled_sign),1)"},
                                            {"ef(threshold(0.5,0.5))", pith::gather::exact},
                                            {"ef(threshold(0.5,0.5))", pith::gather::predicted}}) {
    for (unsigned ranks : {1u, 2u, 4u}) {
      CAPTURE(s.codec);
      CAPTURE(ranks);
      auto all = sent_bytes();
      send(all, ranks, pith::parse<float>(s.codec), {.seed = 3, .gather_mode = s.how, .bucket_bytes = 1000});
      // Whole bytes below 2^53, but for what is divided by 4 and shares of a few sums: 100 roundings of 2^-53 at most.
      CHECK(std::accumulate(all.reported.begin(), all.reported.end(), 0.0) ==
            doctest::Approx(static_cast<double>(all.counted)).epsilon(100 * 0x1p-53));
    }
  }
}

TEST_CASE_TEMPLATE("the bytes of 16-bit means and of payloads that vary in size add up to the traffic", In, pith::half,
                   pith::bfloat16, float) {
  for (auto const how : {pith::gather::padded, pith::gather::exact, pith::gather::predicted}) {
    for (unsigned const ranks : {1u, 3u, 4u}) {
      pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
        auto const sparse = [](pith::tensor_spec const& t) -> pith::any_codec<In, pith::seq_executor> {
          if (t.name != "head") return pith::identity();
          return pith::error_feedback(pith::threshold(0.5, 1));
        };
        auto exchange =
            pith::make_exchange<In>(pith::seq, comm, reported, sparse, {.gather_mode = how, .bucket_bytes = 1000});
        for (int step = 0; step < 3; ++step) {
          auto g = std::vector<In>(exchange.size(), pith::element_cast<In>(0.f));
          g[1100] = pith::element_cast<In>(1.f);
          exchange.all_reduce_mean(pith::span<In>(g));
          CAPTURE(ranks);
          CHECK(exchange.report().total.wire_bytes ==
                doctest::Approx(exchange.traffic().sent(ranks)).epsilon(100 * 0x1p-53));
        }
      });
    }
  }
}

TEST_CASE("a report has each tensor, and their sums") {
  pith::run_ranks(4, [](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, reported, pith::matrices(pith::scaled_sign()),
                                               {.bucket_bytes = 1500});
    auto g = reported_gradient(exchange.size(), comm.rank());
    exchange.all_reduce_mean(g);
    auto const report = exchange.report();
    REQUIRE(report.tensors.size() == 5);
    CHECK(report.buckets == exchange.buckets());
    auto const& weight = report.tensors[0];
    CHECK(weight.name == "weight");
    CHECK(weight.elements == 960);
    CHECK(weight.bucket == exchange.bucket_of(0));
    CHECK(weight.dense_bytes == 2 * 3 * 960 * 4 / 4.0);
    CHECK(weight.wire_bytes == 3 * (960 / 8 + 8));  // bits, and a scale to a multiple of 8 bytes
    CHECK(weight.ratio() == 2 * 3 * 960.0 / (3 * 128));
    CHECK(report.tensors[1].wire_bytes == 2 * 3 * 40 * 4 / 4.0);
    CHECK(report.tensors[1].ratio() == 1);
    CHECK(report.tensors[2].wire_bytes == 0);
    CHECK(std::isnan(report.tensors[2].ratio()));
    double wire = 0, dense = 0, ready = 0;
    for (auto const& t : report.tensors) {
      wire += t.wire_bytes, dense += t.dense_bytes;
      ready = std::max(ready, t.ready_seconds);
      CHECK(std::isnan(t.error()));
      CHECK(std::isnan(t.gain()));
    }
    CHECK(report.total.elements == exchange.size());
    CHECK(report.total.wire_bytes == wire);
    CHECK(report.total.dense_bytes == dense);
    CHECK(report.total.ready_seconds == ready);
    CHECK(report.wait_seconds > 0);
  });
}

TEST_CASE("seconds are those of a trace, shared out in each bucket") {
  using work = pith::exchange_trace::work;
  auto trace = pith::exchange_trace();
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, reported, pith::power_sgd(1),
                                               {.bucket_bytes = 1500, .trace = comm.rank() == 0 ? &trace : nullptr});
    auto g = reported_gradient(exchange.size(), comm.rank());
    exchange.begin(g);
    exchange.ready(4);
    exchange.wait();
    if (comm.rank() != 0) return;
    auto const report = exchange.report();
    auto traced = pith::detail::bucket_seconds(), shared = traced;
    for (auto const& e : trace.entries()) {
      if (e.bucket != report.tensors[3].bucket) continue;
      auto const seconds = std::chrono::duration<double>(e.end - e.begin).count();
      (e.what == work::encode ? traced.encode : e.what == work::transfer ? traced.transfer : traced.decode) += seconds;
    }
    for (auto const& t : report.tensors) {
      if (t.bucket != report.tensors[3].bucket) continue;
      shared.encode += t.encode_seconds, shared.transfer += t.transfer_seconds, shared.decode += t.decode_seconds;
    }
    // A quotient, a product and a sum for each of at most five tensors.
    CHECK(shared.encode == doctest::Approx(traced.encode).epsilon(15 * 0x1p-53));
    CHECK(shared.transfer == doctest::Approx(traced.transfer).epsilon(15 * 0x1p-53));
    CHECK(shared.decode == doctest::Approx(traced.decode).epsilon(15 * 0x1p-53));
    CHECK(report.tensors[4].ready_seconds <= report.tensors[0].ready_seconds);
  });
}

TEST_CASE("seconds begin again with other buckets") {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<float>(pith::seq, comm, reported, pith::identity(), {.bucket_bytes = 0});
  auto const before = exchange.report();
  CHECK(before.total.encode_seconds == 0);
  CHECK(before.wait_seconds == 0);
  auto g = reported_gradient(exchange.size(), 0);
  exchange.all_reduce_mean(g);
  CHECK(exchange.report().total.encode_seconds > 0);
  exchange.fit_buckets();
  CHECK(exchange.report().total.encode_seconds == 0);
}

TEST_CASE("a skipped step keeps the seconds of the last step") {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<float>(pith::seq, comm, reported, pith::identity());
  auto g = reported_gradient(exchange.size(), 0);
  exchange.all_reduce_mean(g);
  auto const seconds = exchange.report().total.encode_seconds;
  exchange.begin(g);
  exchange.skip();
  CHECK(exchange.report().total.encode_seconds == seconds);
  CHECK_NOTHROW(exchange.fit_buckets());
}

TEST_CASE("errors are those of the codec alone, whatever was fed back, and change nothing") {
  auto comm = pith::self_communicator();
  auto const codec = pith::top_k(0.1);
  auto exchange = pith::make_exchange<float>(pith::seq, comm, reported, pith::error_feedback(codec));
  auto g = reported_gradient(exchange.size(), 0);
  exchange.all_reduce_mean(g);
  g = reported_gradient(exchange.size(), 1);
  auto const same = g;
  auto const state = exchange.export_state();
  exchange.measure_errors(g);
  CHECK(g == same);
  CHECK(exchange.export_state() == state);
  auto const report = exchange.report();
  auto const* from = g.data();
  double lost_of_all = 0, of_all = 0;
  for (std::size_t i = 0; i < reported.size(); ++i) {
    auto magnitudes = std::vector<double>(from, from + reported[i].dims.n);
    from += reported[i].dims.n;
    for (auto& m : magnitudes) m = m * m;
    std::sort(magnitudes.rbegin(), magnitudes.rend());
    auto const kept = static_cast<std::ptrdiff_t>(codec.kept(reported[i].dims.n));
    auto const all = std::accumulate(magnitudes.begin(), magnitudes.end(), 0.0);
    auto const lost = std::accumulate(magnitudes.begin() + kept, magnitudes.end(), 0.0);
    of_all += all, lost_of_all += lost;
    // Squares of sixteenths and their sums are exact.
    CHECK(report.tensors[i].error() == (all == 0 ? 0 : std::sqrt(lost / all)));
  }
  CHECK(report.total.error() == std::sqrt(lost_of_all / of_all));
  exchange.change(exchange.codecs());
  CHECK(std::isnan(exchange.report().total.error()));
  CHECK_THROWS_WITH_AS(exchange.measure_errors(pith::span<float const>(g.data(), 3)),
                       "pith::gradient_exchange::measure_errors: gradients must have 1469 elements, got 3",
                       std::invalid_argument);
}

TEST_CASE("every codec's error can be measured") {
  auto comm = pith::self_communicator();
  for (auto const* text : {"identity", "qsgd<8>", "ef(power_sgd(2))", "two_shot(qsgd<8>)", "ring(qsgd<8>)",
                           "g_top_k(0.1)", "ok_top_k(0.1)", "summed_terngrad", "ef(threshold(0.5,0.5))"}) {
    CAPTURE(text);
    auto exchange = pith::make_exchange<float>(pith::seq, comm, reported, pith::parse<float>(text));
    auto const g = reported_gradient(exchange.size(), 0);
    exchange.measure_errors(g);
    CHECK(exchange.report().total.error() <= 1);
    CHECK((exchange.report().total.error() == 0) == (std::string(text) == "identity"));
  }
}

TEST_CASE("a gain is the share that a measuring codec kept") {
  auto comm = pith::self_communicator();
  auto const codec = any(pith::error_feedback(pith::rated(pith::top_k(0.1)))).measuring({0.1}).at(0.1);
  auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"one", {10}}}, codec);
  CHECK(std::isnan(exchange.report().total.gain()));
  auto g = std::vector<float>{1, -1, 1, 4, 1, -1, 0, 0, 0, 0};
  exchange.all_reduce_mean(g);
  CHECK(exchange.report().tensors[0].gain() == 16.0 / 21);
  CHECK(exchange.report().total.gain() == 16.0 / 21);
  exchange.change({any(pith::error_feedback(pith::rated(pith::top_k(0.2)))).measuring({0.2}).at(0.2)});
  CHECK(std::isnan(exchange.report().total.gain()));
}

TEST_CASE("write_lines writes JSON to a stream that groups digits or writes hexadecimal numbers") {
  struct grouping : std::numpunct<char> {
    char do_thousands_sep() const override { return ','; }
    std::string do_grouping() const override { return "\3"; }
  };
  auto report = pith::exchange_report();
  report.buckets = 12000;
  auto out = std::ostringstream();
  out.imbue(std::locale(out.getloc(), new grouping));
  out << std::hex;
  pith::write_lines(out, report);
  CHECK(out.str().starts_with(R"({"tensors":0,"buckets":12000,"elements":0,)"));
}

TEST_CASE("payloads that vary in size share the bytes that gather::exact sent") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto const policy = [](pith::tensor_spec const& t) -> pith::any_codec<float> {
      if (t.name == "fixed") return pith::qsgd<8>();
      return pith::threshold(10);
    };
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"fixed", {1024}}, {"varying", {1024}}}, policy,
                                               {.gather_mode = pith::gather::exact});
    auto g = std::vector<float>(2048, 1);
    exchange.all_reduce_mean(pith::span<float>(g));
    auto const report = exchange.report();
    CHECK(report.tensors[0].wire_bytes == 1024 + 8 * 4);
    CHECK(report.tensors[1].wire_bytes > 0);
    CHECK(report.tensors[1].wire_bytes < 100);
  });
}

TEST_CASE("write_lines writes JSON, with null for values that are not finite") {
  auto report = pith::exchange_report();
  auto& t = report.tensors.emplace_back();
  t.name = "a \"b\"\\\n\xc3\xa4";
  t.bucket = 2;
  t.elements = 3;
  t.dense_bytes = 12;
  t.wire_bytes = 1.5;
  t.ready_seconds = 0.5;
  t.encode_seconds = 0.25;
  t.transfer_seconds = std::numeric_limits<double>::infinity();
  t.lost = {4, 1};
  t.kept = {0, 0};
  report.total = pith::detail::total_of(report.tensors);
  report.buckets = 3;
  report.wait_seconds = 2;
  auto out = std::ostringstream();
  pith::write_lines(out, report);
  CHECK(out.str() ==
        R"({"tensor":"a \"b\"\\\u000a)"
        "\xc3\xa4"
        R"(","bucket":2,"elements":3,"dense_bytes":12,"wire_bytes":1.5,"ratio":8,"error":0.5,"gain":1,)"
        R"("ready_ms":500,"encode_ms":250,"transfer_ms":null,"decode_ms":0})"
        "\n"
        R"({"tensors":1,"buckets":3,"elements":3,"dense_bytes":12,"wire_bytes":1.5,"ratio":8,"error":0.5,"gain":1,)"
        R"("ready_ms":500,"encode_ms":250,"transfer_ms":null,"decode_ms":0,"wait_ms":2000})"
        "\n");
  out.str("");
  report.tensors[0].name = "a";
  pith::write_lines(out, report, {{"step", 7}, {"rank", 1}});
  CHECK(out.str().starts_with(R"({"step":7,"rank":1,"tensor":"a","bucket":2,)"));
  CHECK(out.str().find("\n{\"step\":7,\"rank\":1,\"tensors\":1,") != std::string::npos);
  out.str("");
  pith::write_lines(out, pith::exchange_report());
  CHECK(out.str() ==
        R"({"tensors":0,"buckets":0,"elements":0,"dense_bytes":0,"wire_bytes":0,"ratio":null,"error":null,"gain":null,)"
        R"("ready_ms":0,"encode_ms":0,"transfer_ms":0,"decode_ms":0,"wait_ms":0})"
        "\n");
}
