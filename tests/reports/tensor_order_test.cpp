// tests/reports/tensor_order_test.cpp — import_state matches tensors by name, not by their order in the list. The
// report of this kind is pytorch/pytorch#1489, where a parameter gets the optimizer state of another parameter.
#include <pith/comm/threads.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/control/warm_up.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using pith::thread_communicator;
using tensor_list = std::vector<pith::tensor_spec>;
using state = std::vector<std::byte>;

/// A tensor with the codec that is its name, so that a tensor of each state is among them. No codec draws random
/// numbers, which would depend on a tensor's number in the list.
pith::any_codec<float, pith::seq_executor> named_codec(pith::tensor_spec const& tensor) {
  return pith::parse<float, pith::seq_executor>(tensor.name.substr(0, tensor.name.find('\n')));
}

tensor_list const saved_order = {{"ef(top_k(0.2))", {40}},
                                 {"identity", {3}},
                                 {"ef(power_sgd(1))\n\\\"of \" of 7 elements", {40, 8}},
                                 {"ef(sidco(0.2))", {0}},
                                 {"ef(two_shot(scaled_sign(8),ef(scaled_sign(8))))", {50}},
                                 {"ef(scaled_sign(8),ef21(0.5))", {30}},
                                 {"ef(top_k(0.5))", {1}}};
/// The tensor at place i of the importing job's list is tensor new_order[i] of `saved_order`.
std::vector<std::size_t> const new_order = {5, 3, 0, 6, 1, 4, 2};

tensor_list reordered() {
  auto tensors = tensor_list();
  for (auto const i : new_order) tensors.push_back(saved_order[i]);
  return tensors;
}

/// The gradient of a tensor of `saved_order`.
std::vector<float> gradient_of(std::size_t tensor, unsigned rank, unsigned step) {
  auto g = std::vector<float>(saved_order[tensor].dims.n);
  for (std::size_t i = 0; i < g.size(); ++i)
    g[i] = (static_cast<float>((i * 37 + tensor * 7 + rank * 11 + step * 5) % 33) - 16) / 16;
  return g;
}

/// Makes a step. The means of the tensors have the order of `saved_order`; `order` is that of the exchange.
template <class Exchange>
std::vector<std::vector<float>> means(Exchange& exchange, std::vector<std::size_t> const& order, unsigned rank,
                                      unsigned step) {
  auto all = std::vector<std::vector<float>>(order.size());
  exchange.begin();
  for (std::size_t i = 0; i < order.size(); ++i) {
    all[order[i]] = gradient_of(order[i], rank, step);
    exchange.ready(i, pith::span<float>(all[order[i]]));
  }
  exchange.wait();
  return all;
}

std::string refusal_of_state(auto& exchange, state const& bytes) {
  try {
    exchange.import_state(bytes);
  } catch (std::exception const& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("an exchange imports the state of an exchange with another order of tensors") {
  auto const first_order = std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6};
  pith::run_ranks(2, [&](thread_communicator comm) {
    auto saving = pith::make_exchange<float>(pith::seq, comm, saved_order, named_codec);
    for (unsigned step = 0; step < 3; ++step) means(saving, first_order, comm.rank(), step);
    auto importing = pith::make_exchange<float>(pith::seq, comm, reordered(), named_codec);
    importing.import_state(saving.export_state());
    for (unsigned step = 3; step < 6; ++step)
      CHECK(means(importing, new_order, comm.rank(), step) == means(saving, first_order, comm.rank(), step));
    saving.import_state(importing.export_state());
    CHECK(means(importing, new_order, comm.rank(), 6) == means(saving, first_order, comm.rank(), 6));
  });
}

TEST_CASE("an undelivered residual stays with its tensor") {
  pith::run_ranks(2, [](thread_communicator comm) {
    auto const codec = pith::parse<float, pith::seq_executor>("ef(top_k(0.2))");
    auto const identity = pith::parse<float, pith::seq_executor>("identity");
    auto const a = pith::tensor_spec{"a", {40}}, b = pith::tensor_spec{"b", {40}};
    auto saving = pith::make_exchange<float>(pith::seq, comm, tensor_list{a, b}, codec);
    auto g = std::vector<float>(80, 1);
    for (std::size_t i = 0; i < 40; ++i) g[i] = static_cast<float>(i + comm.rank());
    saving.all_reduce_mean(g);
    saving.change({identity, codec});
    auto importing = pith::make_exchange<float>(pith::seq, comm, tensor_list{b, a}, codec);
    importing.import_state(saving.export_state(), {codec, identity});
    CHECK(importing.fed_back(1) == saving.fed_back(0));
    CHECK(importing.fed_back(0) == saving.fed_back(1));
  });
}

TEST_CASE("tensors with one name are matched in their order") {
  pith::run_ranks(1, [](thread_communicator comm) {
    auto const codec = pith::parse<float, pith::seq_executor>("ef(top_k(0.2))");
    auto saving =
        pith::make_exchange<float>(pith::seq, comm, tensor_list{{"twin", {10}}, {"first", {4}}, {"twin", {20}}}, codec);
    auto importing =
        pith::make_exchange<float>(pith::seq, comm, tensor_list{{"first", {4}}, {"twin", {10}}, {"twin", {20}}}, codec);
    auto g = std::vector<float>(34);
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(i);
    saving.all_reduce_mean(g);
    importing.import_state(saving.export_state());
    CHECK(importing.fed_back(0) == saving.fed_back(1));
    CHECK(importing.fed_back(1) == saving.fed_back(0));
    CHECK(importing.fed_back(2) == saving.fed_back(2));
  });
}

TEST_CASE("a state in another order is refused if a tensor differs, and nothing changes") {
  pith::run_ranks(1, [](thread_communicator comm) {
    auto const codec = pith::parse<float, pith::seq_executor>("ef(top_k(0.2))");
    auto const saved = [&](tensor_list const& tensors) {
      return pith::make_exchange<float>(pith::seq, comm, tensors, codec).export_state();
    };
    auto importing = pith::make_exchange<float>(pith::seq, comm, tensor_list{{"a", {40}}, {"b", {8}}}, codec);
    auto g = std::vector<float>(48, 1);
    importing.all_reduce_mean(g);
    auto const before = importing.export_state();
    CHECK(refusal_of_state(importing, saved({{"b", {8}}, {"a", {41}}})) ==
          "pith::gradient_exchange::import_state: the state must be of tensor \"a\" of 40 elements in 1 rows, codec "
          "ef(top_k(0.2)), got one of tensor \"a\" of 41 elements in 1 rows, codec ef(top_k(0.2))");
    for (auto const& other : {tensor_list{{"b", {8}}, {"c", {40}}}, tensor_list{{"b", {8}}},
                              tensor_list{{"b", {8}}, {"a", {40}}, {"a", {40}}}})
      CHECK(refusal_of_state(importing, saved(other)) != "accepted");
    CHECK(importing.export_state() == before);
  });
}

TEST_CASE("adaptive_exchange refuses a state in another order, since a controller's state has no names") {
  pith::run_ranks(1, [](thread_communicator comm) {
    auto const codec = pith::parse<float, pith::seq_executor>("ef(rated(top_k(0.2),dense))");
    auto const make = [&](tensor_list const& tensors) {
      return pith::make_adaptive_exchange<float>(pith::seq, comm, tensors, codec, pith::warm_up(0.2, 4));
    };
    auto saving = make({{"a", {40}}, {"b", {40}}}), importing = make({{"b", {40}}, {"a", {40}}});
    CHECK(refusal_of_state(importing, saving.export_state()) ==
          "pith::adaptive_exchange::import_state: the tensors must be listed in the order of the job that saved the "
          "state, got another order: the controller's state has no names");
    CHECK(refusal_of_state(saving, saving.export_state()) == "accepted");
  });
}
