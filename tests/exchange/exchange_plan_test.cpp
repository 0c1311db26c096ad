// tests/exchange/exchange_plan_test.cpp — which tensors' bytes travel together.
#include <pith/exchange/detail/exchange_plan.hpp>

#include <doctest/doctest.h>

using pith::transport;
using plan = pith::detail::exchange_plan;

namespace {

constexpr auto bytes = pith::element_kind::bytes;

}  // namespace

TEST_CASE("transfers of one kind over one distance form a group") {
  auto p = plan();
  p.add(0, 0, {transport::pairwise, bytes, 16, 1}, 4);
  p.add(1, 0, {transport::pairwise, bytes, 24, 2}, 4);
  p.add(2, 0, {transport::pairwise, bytes, 9, 1}, 4);
  p.add(3, 0, {transport::ring_shift, bytes, 8, 1}, 4);
  p.place();
  auto const& groups = p.rounds()[0];
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].slots.size() == 2);
  CHECK(groups[0].distance == 1);
  CHECK(groups[0].bytes == 32);
  CHECK(groups[1].distance == 2);
  CHECK(groups[2].how == transport::ring_shift);
}

TEST_CASE("a transfer from a partner receives one buffer, an all-gather or all-to-all one per rank, and a sum none") {
  auto const received = [](transport how) {
    auto p = plan();
    p.add(0, 0, {how, bytes, 256, 1}, 4);
    p.place();
    return p.gathered_bytes();
  };
  CHECK(received(transport::pairwise) == 256);
  CHECK(received(transport::ring_shift) == 256);
  CHECK(received(transport::all_gather) == 1024);
  CHECK(received(transport::all_to_all) == 1024);
  CHECK(received(transport::all_reduce_sum) == 0);
}

TEST_CASE("transfers among other ranks are other groups, which receive from as many as are in them") {
  auto p = plan();
  auto const rows = pith::subgroup{4, 1}, columns = pith::subgroup{2, 4};
  p.add(0, 0, {transport::all_gather, bytes, 256, 0, rows}, 8);
  p.add(1, 0, {transport::all_gather, bytes, 256, 0, columns}, 8);
  p.add(2, 0, {transport::all_gather, bytes, 256}, 8);
  p.add(3, 0, {transport::all_to_all, bytes, 256, 0, rows}, 8);
  p.add(4, 0, {transport::all_gather, bytes, 256, 0, rows}, 8);
  p.place();
  auto const& groups = p.rounds()[0];
  REQUIRE(groups.size() == 4);
  CHECK(groups[0].slots.size() == 2);
  CHECK(groups[0].ranks == 4);
  CHECK(groups[1].among == columns);
  CHECK(groups[2].ranks == 8);
  CHECK(groups[3].pieces == 4);
  CHECK_FALSE(groups[1].is_gathered());
  CHECK(groups[2].is_gathered());
  CHECK(p.gathered_bytes() == 4 * 512 + 2 * 256 + 8 * 256 + 4 * 256);
  CHECK(p.out_bytes() == 512 + 256 + 256 + 4 * 256);
  CHECK(p.sent_bytes(transport::all_gather) == 4 * 256);
  CHECK(p.sent_bytes(transport::all_gather, rows) == 512);
  CHECK(p.sent_bytes(transport::all_gather, pith::subgroup()) == 256);
  p.resize([](std::size_t, unsigned) { return std::size_t{8}; });
  CHECK(groups[0].bytes == 512);
  CHECK(groups[2].bytes == 8);
}
