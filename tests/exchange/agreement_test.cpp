// tests/exchange/agreement_test.cpp — if ranks differ, all of them throw with the difference, and no rank waits.
#include <pith/adaptor/identity.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

using specs = std::vector<pith::tensor_spec>;

namespace {

using any = pith::any_codec<float, pith::seq_executor>;
specs const model = {{"weight", {64, 8}}, {"bias", {8}}, {"head", {40, 8}}};

any top_k(double density) { return pith::error_feedback(pith::top_k(density)); }

/// The error that all three ranks throw in the constructor; empty without an error.
template <class Build>
std::string told(Build const& build) {
  auto words = std::string();
  auto guard = std::mutex();
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto own = std::string();
    try {
      build(comm);
    } catch (pith::agreement_error const& e) {
      own = e.what();
    }
    auto const lock = std::lock_guard(guard);
    if (comm.rank() == 0) words = own;
  });
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    if (words.empty()) return build(comm);
    CHECK_THROWS_WITH_AS(build(comm), words.c_str(), pith::agreement_error);  // on all ranks the same
  });
  return words;
}

/// Where rank 1 or 2 has another model, codec or option.
std::string told_of(unsigned odd, specs const& its, any const& codec, pith::exchange_options const& options) {
  return told([&](pith::thread_communicator comm) {
    if (comm.rank() == odd) {
      pith::make_exchange<float>(pith::seq, comm, its, codec, options);
    } else {
      pith::make_exchange<float>(pith::seq, comm, model, top_k(0.1));
    }
  });
}

/// Rank 1 receives the next all-gather with one bit flipped.
struct damaging {
  pith::thread_communicator comm;
  bool* damages;

  unsigned rank() const { return comm.rank(); }
  unsigned size() const { return comm.size(); }
  damaging split(unsigned color) { return {comm.split(color), damages}; }
  auto all_gather(pith::seq_executor const& exec, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    comm.all_gather(exec, mine, all).wait(exec);
    if (*damages && rank() == 1) all.data()[0] ^= std::byte{1};
    *damages = false;
    return pith::completed();
  }
  template <class T>
  auto all_reduce(pith::seq_executor const& exec, pith::span<T> x, pith::reduction how) {
    return comm.all_reduce(exec, x, how);
  }
};

/// One of two ranks. The other one sends the same, but for how many tensors it has, and that it sees a difference.
struct boasting {
  std::uint64_t tensors;

  unsigned rank() const { return 0; }
  unsigned size() const { return 2; }
  boasting split(unsigned) { return *this; }
  auto all_gather(pith::seq_executor const&, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    for (unsigned r = 0; r < 2; ++r) std::memcpy(all.data() + r * mine.size(), mine.data(), mine.size());
    auto const claim = [&](std::size_t at, std::uint64_t value) {
      std::memcpy(all.data() + mine.size() + at, &value, sizeof value);
    };
    if (mine.size() == sizeof(pith::detail::agreement)) claim(offsetof(pith::detail::agreement, tensors), tensors);
    if (mine.size() == sizeof(std::uint64_t)) claim(0, 1);
    return pith::completed();
  }
  template <class T>
  auto all_reduce(pith::seq_executor const&, pith::span<T>, pith::reduction) {
    return pith::completed();
  }
};

}  // namespace

TEST_CASE("ranks with equal models and codecs throw no error") { CHECK(told_of(1, model, top_k(0.1), {}).empty()); }

TEST_CASE("another density is named with its tensor") {
  CHECK(told_of(2, model, top_k(0.2), {}) ==
        "pith::gradient_exchange: rank 2 differs from rank 0 in tensor 0: \"weight\" of 8 x 8, codec "
        "ef(top_k(0.2)), "
        "not \"weight\" of 8 x 8, codec ef(top_k(0.1))");
}

TEST_CASE("another codec of one tensor is named") {
  auto const odd = told([](pith::thread_communicator comm) {
    auto const policy = [&](pith::tensor_spec const& tensor) -> any {
      if (comm.rank() == 1 && tensor.name == "head") return pith::identity();
      return top_k(0.1);
    };
    pith::make_exchange<float>(pith::seq, comm, model, policy);
  });
  CHECK(odd ==
        "pith::gradient_exchange: rank 1 differs from rank 0 in tensor 2: \"head\" of 8 x 5, codec "
        "identity, not "
        "\"head\" of 8 x 5, codec ef(top_k(0.1))");
}

TEST_CASE("a tensor that is missing is named") {
  CHECK(told_of(1, {model[0], model[1]}, top_k(0.1), {}) ==
        "pith::gradient_exchange: rank 1 differs from rank 0 in tensor 2: none, not \"head\" of 8 x 5, "
        "codec "
        "ef(top_k(0.1))");
  CHECK(told_of(1, {model[0], model[2]}, top_k(0.1), {}) ==
        "pith::gradient_exchange: rank 1 differs from rank 0 in tensor 1: \"head\" of 8 x 5, codec "
        "ef(top_k(0.1)), "
        "not "
        "\"bias\" of 8 elements, codec ef(top_k(0.1))");
  auto more = model;
  more.push_back({"more", {5}});
  CHECK(told_of(2, more, top_k(0.1), {}) ==
        "pith::gradient_exchange: rank 2 differs from rank 0 in tensor 3: \"more\" of 5 elements, codec "
        "ef(top_k(0.1)), not "
        "none");
}

TEST_CASE("another order or shape of tensors is named") {
  CHECK(told_of(1, {model[1], model[0], model[2]}, top_k(0.1), {})
            .find("rank 1 differs from rank 0 in tensor 0: \"bias\"") != std::string::npos);
  CHECK(told_of(1, {model[0], model[1], {"head", {40, 4}}}, top_k(0.1), {}).find("\"head\" of 4 x 10") !=
        std::string::npos);
}

TEST_CASE("other options are named") {
  auto const differs = [](pith::exchange_options const& options) {
    auto const all = told_of(2, model, top_k(0.1), options);
    auto const start = std::string("pith::gradient_exchange: rank 2 differs from rank 0 in ");
    REQUIRE(all.substr(0, start.size()) == start);
    return all.substr(start.size());
  };
  CHECK(differs({.seed = 7}) == "seed: 7, not 0");
  CHECK(differs({.gather_mode = pith::gather::exact}) == "gather_mode: exact, not padded");
  CHECK(differs({.bucket_bytes = 100}) == "bucket_bytes: 100, not unset");
  CHECK(differs({.is_weighted = true}) == "is_weighted: true, not false");
  CHECK(differs({.verification = pith::verify::each_step}) == "verification: each_step, not when_built");
}

TEST_CASE("another executor or element type is named") {
  auto const executors = told([](pith::thread_communicator comm) {
    if (comm.rank() == 1) {
      pith::make_exchange<float>(pith::par_executor<pith::thread_pool>(), comm, model, pith::identity());
    } else {
      pith::make_exchange<float>(pith::seq, comm, model, pith::identity());
    }
  });
  CHECK(executors == "pith::gradient_exchange: rank 1 differs from rank 0 in the executor: par, not seq");
  auto const elements = told([](pith::thread_communicator comm) {
    if (comm.rank() == 2) {
      pith::make_exchange<double>(pith::seq, comm, model, pith::identity());
    } else {
      pith::make_exchange<float>(pith::seq, comm, model, pith::identity());
    }
  });
  CHECK(elements == "pith::gradient_exchange: rank 2 differs from rank 0 in the element type: double, not float");
}

TEST_CASE(
    "a rank that cannot build its exchange throws its own error, and the other ranks throw one that names the rank") {
  std::atomic<int> heard = 0;
  auto const build = [&] {
    pith::run_ranks(3, [&](pith::thread_communicator comm) {
      auto const policy = [&](pith::tensor_spec const& tensor) -> any {
        if (comm.rank() == 1 && tensor.name == "head") throw std::runtime_error("no codec for head");
        return top_k(0.1);
      };
      if (comm.rank() == 1) {
        pith::make_exchange<float>(pith::seq, comm, model, policy);
        return;
      }
      CHECK_THROWS_WITH_AS(pith::make_exchange<float>(pith::seq, comm, model, policy),
                           "pith::gradient_exchange: rank 1 failed: no codec for head", pith::agreement_error);
      ++heard;
    });
  };
  CHECK_THROWS_WITH_AS(build(), "no codec for head", std::runtime_error);
  CHECK(heard == 2);
}

TEST_CASE("whatever a rank throws while it builds, no other one waits for it") {
  std::atomic<int> heard = 0;
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto const policy = [&](pith::tensor_spec const&) -> any {
      if (comm.rank() == 1) throw 7;
      return top_k(0.1);
    };
    try {
      pith::make_exchange<float>(pith::seq, comm, model, policy);
    } catch (int seven) {
      heard += seven;
    } catch (pith::agreement_error const&) {
      ++heard;
    }
  });
  CHECK(heard == 8);
}

TEST_CASE("verification in each step finds ranks that have taken other numbers of steps") {
  auto const checked = pith::exchange_options{.verification = pith::verify::each_step};
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, model, top_k(0.1), checked);
    auto g = std::vector<float>(exchange.size(), 1.0f);
    exchange.all_reduce_mean(g);
    auto const saved = exchange.export_state();
    exchange.all_reduce_mean(g);
    if (comm.rank() == 2) exchange.import_state(saved);
    CHECK_THROWS_WITH_AS(
        exchange.all_reduce_mean(g),
        "pith::gradient_exchange: rank 2 differs from rank 0 in the step of tensor \"weight\": 1, not 2",
        pith::agreement_error);
  });
}

TEST_CASE("the first step after an import finds states of different steps, and states of one step mend it") {
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, model, top_k(0.1));
    auto g = std::vector<float>(exchange.size(), 1.0f);
    exchange.all_reduce_mean(g);
    auto const early = exchange.export_state();
    exchange.all_reduce_mean(g);
    auto const late = exchange.export_state();
    exchange.import_state(comm.rank() == 2 ? early : late);
    CHECK_THROWS_WITH_AS(
        exchange.all_reduce_mean(g),
        "pith::gradient_exchange: rank 2 differs from rank 0 in the step of tensor \"weight\": 1, not 2",
        pith::agreement_error);
    exchange.import_state(late);
    for (int step = 0; step < 2; ++step) CHECK_NOTHROW(exchange.all_reduce_mean(g));
  });
}

TEST_CASE("verification in each step finds replicated states that differ") {
  auto const checked = pith::exchange_options{.bucket_bytes = 0, .verification = pith::verify::each_step};
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto const policy = [](pith::tensor_spec const& tensor) -> any {
      if (tensor.name == "head") return pith::error_feedback(pith::power_sgd(1));
      return top_k(0.1);
    };
    auto exchange = pith::make_exchange<float>(pith::seq, comm, model, policy, checked);
    auto g = std::vector<float>(exchange.size());
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(i % 7 + comm.rank());
    exchange.begin(g);
    for (auto i = model.size(); i-- > 0;) exchange.ready(i);
    exchange.wait();
    auto const saved = exchange.export_state();
    auto const parts = pith::detail::open_states("export_state", saved);
    auto states = std::vector<std::byte>(parts.states.begin(), parts.states.end());
    // The states lie one after another: of each tensor its step, what is agreed, and its residual.
    auto const residuals = (64 + 8) * sizeof(float);
    auto const agreed_of_head = 2 * sizeof(std::uint64_t) + residuals + sizeof(std::uint64_t);
    if (comm.rank() == 1) states[agreed_of_head + 2] ^= std::byte{1};
    exchange.import_state(pith::detail::save_states(std::string(parts.words), states));
    CHECK_THROWS_WITH_AS(
        exchange.all_reduce_mean(g),
        "pith::gradient_exchange: rank 1 differs from rank 0 in the replicated state of tensor \"head\" after step 1",
        pith::agreement_error);
    CHECK_THROWS_AS(exchange.all_reduce_mean(g), std::invalid_argument);
  });
}

TEST_CASE("residuals are a rank's own and need not agree") {
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto exchange =
        pith::make_exchange<float>(pith::seq, comm, model, top_k(0.1), {.verification = pith::verify::each_step});
    for (int step = 0; step < 4; ++step) {
      auto g = std::vector<float>(exchange.size());
      for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>((i * 7 + comm.rank()) % 5);
      CHECK_NOTHROW(exchange.all_reduce_mean(g));
    }
  });
}

TEST_CASE("messages that one rank receives damaged make no rank wait") {
  std::atomic<int> heard = 0;
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto damages = false;
    auto through = damaging{comm, &damages};
    auto const checked = pith::exchange_options{.verification = pith::verify::each_step};
    auto exchange = pith::make_exchange<float>(pith::seq, through, model, top_k(0.1), checked);
    auto g = std::vector<float>(exchange.size(), 1.0f);
    exchange.all_reduce_mean(g);
    damages = true;
    try {
      exchange.all_reduce_mean(g);
    } catch (pith::communication_error const& e) {
      CHECK(std::string(e.what()) ==
            "pith::gradient_exchange: 1 of 3 ranks received descriptions that differ, the first is rank 1: "
            "messages were damaged in transit");
      ++heard;
    }
  });
  CHECK(heard == 3);
}

TEST_CASE(
    "however many tensors a damaged message says that a rank has, there is memory to look for the first that differs") {
  for (std::uint64_t const tensors : {1ull, 2ull, 4ull, 1ull << 40, ~0ull}) {
    auto comm = boasting{tensors};
    CHECK_THROWS_WITH_AS(
        pith::make_exchange<float>(pith::seq, comm, model, top_k(0.1)),
        "pith::gradient_exchange: digests differ, but the tensors of all ranks are equal: messages were "
        "damaged in transit",
        pith::communication_error);
  }
}
