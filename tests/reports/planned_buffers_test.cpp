// tests/reports/planned_buffers_test.cpp — buffers are large enough for every step after a call between steps: a step
// with other buckets, codecs or states, and with larger or smaller payloads. A report of this kind is
// InfiniTensor/InfiniTrain#183, where rebuilt buckets lead to wrong gradients.
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/redsync_mean.hpp>
#include <pith/sparsify/sidco.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace planned_buffers {
namespace {

using pith::gather;
using codec = pith::any_codec<float, pith::seq_executor>;
using planned = pith::gradient_exchange<float, pith::seq_executor, pith::thread_communicator>;
using order = std::vector<std::size_t>;

/// By default, the buckets of at most 700 elements are {d, c}, {b}, {a}; in the order d, b, c, a, fit_buckets() makes
/// {d, b}, {c, a}.
std::vector<pith::tensor_spec> const planned_tensors = {{"a", {400}}, {"b", {400}}, {"c", {300}}, {"d", {300}}};
order const backward = {3, 2, 1, 0}, crossed = {3, 1, 2, 0};

/// The share of large values in each step before and after the call.
struct series {
  char const* name;
  std::vector<double> before, after;
};
std::vector<series> const all_series = {{"zeros, then all", {0, 0, 0}, {1, 1, 1}},
                                        {"all, then zeros", {1, 1, 1}, {0, 0, 0.01}},
                                        {"growing", {0.01, 0.02, 0.04}, {0.1, 0.3, 0.9}},
                                        {"shrinking", {0.9, 0.3, 0.1}, {0.04, 0.02, 0.01}},
                                        {"a burst", {0.02, 0.02, 0.02}, {1, 0.02, 1}}};

struct kind {
  char const* name;
  codec first, second;
};
template <class C>
codec fed(C const& c) {
  return pith::error_feedback(c);
}
std::vector<kind> const kinds = {{"threshold", fed(pith::threshold(1)), fed(pith::threshold(1, 0.5))},
                                 {"narrow threshold", fed(pith::threshold(1, 0.01)), fed(pith::threshold(1, 1))},
                                 {"sidco", fed(pith::sidco(0.01)), fed(pith::sidco(0.4))},
                                 {"redsync_mean", fed(pith::redsync_mean(0.01)), fed(pith::redsync_mean(0.3))},
                                 {"fixed rate", fed(pith::top_k(0.01)), fed(pith::threshold(1))}};

/// A call between steps. After a call that `restarts`, no payload is predicted from earlier steps. So the next steps
/// are those of a new exchange with the same states. After other calls, they are those of an exchange without the call.
struct call {
  char const* name;
  bool restarts;
  std::vector<void (*)(planned&, std::vector<std::byte> const& saved, kind const&)> parts;
};

void import_all(planned& ex, std::vector<std::byte> const& saved, kind const&) { ex.import_state(saved); }
void change(planned& ex, std::vector<std::byte> const&, kind const& of) {
  ex.change(std::vector<codec>(planned_tensors.size(), of.second));
}
void fit(planned& ex, std::vector<std::byte> const&, kind const&) { ex.fit_buckets(); }
std::vector<call> const calls = {{"none", false, {}},
                                 {"fit_buckets", false, {fit}},
                                 {"import_state", true, {import_all}},
                                 {"change", true, {change}},
                                 {"fit_buckets, import_state", true, {fit, import_all}},
                                 {"import_state, fit_buckets", true, {import_all, fit}},
                                 {"fit_buckets, change", true, {fit, change}}};

std::vector<float> gradients(unsigned rank, unsigned step, double share) {
  auto g = std::vector<float>(1400);
  for (unsigned i = 0; i < g.size(); ++i) {
    auto const is_large = (i * 7919u + rank * 31u + step * 17u) % 1000u < share * 1000;
    g[i] = (is_large ? 3.0f : share > 0 ? 0.03125f : 0.0f) * (i % 3 == 0 ? -1.0f : 1.0f);
  }
  return g;
}

std::vector<float> mean_of(planned& ex, std::vector<float> g, order const& readied) {
  ex.begin(pith::span(g));
  for (auto const t : readied) ex.ready(t);
  ex.wait();
  return g;
}

struct trial {
  pith::thread_communicator& comm;
  gather how;
  kind const& of;
  series const& shares;

  planned made(codec const& c) const {
    return {pith::seq, comm, planned_tensors, c, {.seed = 3, .gather_mode = how, .bucket_bytes = 700 * 4}};
  }
  std::vector<float> step(planned& ex, unsigned t) const {
    auto const n = shares.before.size();
    auto const share = t < n ? shares.before[t] : shares.after[t - n];
    return mean_of(ex, gradients(comm.rank(), t, share), t % 2 == 0 ? crossed : backward);
  }
  void check(call const& c) const {
    auto ex = made(of.first), twin = made(of.first);
    auto const begin = ex.export_state();
    for (unsigned t = 0; t < shares.before.size(); ++t) REQUIRE(step(ex, t) == step(twin, t));
    for (auto* const part : c.parts) part(ex, begin, of);
    auto fresh = made(ex.codecs()[0]);
    fresh.import_state(ex.export_state());
    for (unsigned t = 3; t < 3 + shares.after.size(); ++t) CHECK(step(ex, t) == step(c.restarts ? fresh : twin, t));
  }
};

void check_all(pith::thread_communicator& comm, gather how, kind const& of) {
  for (auto const& shares : all_series) {
    for (auto const& c : calls) {
      CAPTURE(of.name);
      CAPTURE(shares.name);
      CAPTURE(c.name);
      trial{comm, how, of, shares}.check(c);
    }
  }
}

}  // namespace

TEST_CASE("means after a call between steps are those of an exchange without the call") {
  for (auto const how : {gather::padded, gather::exact, gather::predicted}) {
    pith::run_ranks(2, [&](pith::thread_communicator comm) {
      CAPTURE(pith::detail::gather_name(how));
      for (auto const& of : kinds) check_all(comm, how, of);
    });
  }
}

TEST_CASE("payloads fit after fit_buckets has joined tensors of different buckets") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto const of = series{"zeros, then all", {0, 0, 0}, {1, 1, 1}};
    auto const t = trial{comm, gather::predicted, kinds[0], of};
    auto ex = t.made(kinds[0].first);
    auto const begin = ex.export_state();
    for (int i = 0; i < 50 && ex.bucket_of(3) != ex.bucket_of(1); ++i) t.step(ex, 0), ex.fit_buckets();
    CHECK(ex.bucket_of(3) == ex.bucket_of(1));
    ex.import_state(begin);
    auto const g = gradients(comm.rank(), 3, 1);
    CHECK(mean_of(ex, g, crossed) == g);
  });
}

}  // namespace planned_buffers
