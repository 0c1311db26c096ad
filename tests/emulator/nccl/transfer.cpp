// tests/emulator/nccl/transfer.cpp — the bytes that calls move, once all ranks are there.
#include "nccl/transfer.hpp"

#include "runtime/memory.hpp"

#include <pith/core/element.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace emulator::nccl {

namespace {

/// f(a value of the type), for types that are reduced. Whether the type is one of them.
template <class F>
bool with_type(ncclDataType_t type, F const& f) {
  switch (type) {
    case ncclFloat32: return f(float()), true;
    case ncclFloat64: return f(double()), true;
    case ncclFloat16: return f(pith::half()), true;
    case ncclBfloat16: return f(pith::bfloat16()), true;
    case ncclInt32: return f(std::int32_t()), true;
    case ncclInt8: return f(std::int8_t()), true;
    default: return false;
  }
}

void* at(void* first, std::size_t bytes) { return static_cast<char*>(first) + bytes; }

template <class T>
T reduced(std::vector<arguments> const& all, std::size_t i) {
  using A = std::conditional_t<std::integral<T>, T, pith::accum<T>>;
  auto const element = [&](arguments const& a) {
    return pith::element_cast<A>(reinterpret_cast<T const*>(bytes_at(a.from))[i]);
  };
  auto total = element(all.front());
  for (std::size_t r = 1; r < all.size(); ++r) {
    auto const next = element(all[r]);
    total = all[r].reduction == ncclSum ? static_cast<A>(total + next) : std::max(total, next);
  }
  return pith::element_cast<T>(total);
}

/// The first n elements that all ranks have, reduced.
template <class T>
std::vector<T> totals(std::vector<arguments> const& all, std::size_t n) {
  auto values = std::vector<T>(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = reduced<T>(all, i);
  return values;
}

void all_reduce(std::vector<arguments> const& all) {
  auto const& first = all.front();
  with_type(first.type, [&]<class T>(T) {
    auto const values = totals<T>(all, first.count);
    for (auto const& a : all) move_bytes(a.to, values.data(), values.size() * sizeof(T));
  });
}
void reduce_scatter(std::vector<arguments> const& all) {
  auto const n = all.front().count;
  with_type(all.front().type, [&]<class T>(T) {
    auto const values = totals<T>(all, n * all.size());
    for (std::size_t r = 0; r < all.size(); ++r) move_bytes(all[r].to, values.data() + r * n, n * sizeof(T));
  });
}
void all_gather(std::vector<arguments> const& all) {
  auto const bytes = all.front().count * bytes_of(all.front().type);
  for (auto const& to : all) {
    for (std::size_t r = 0; r < all.size(); ++r) move_bytes(at(to.to, r * bytes), all[r].from, bytes);
  }
}
void broadcast(std::vector<arguments> const& all) {
  auto const& root = all[static_cast<std::size_t>(all.front().peer)];
  for (auto const& a : all) move_bytes(a.to, root.from, root.count * bytes_of(root.type));
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  if (type == ncclUint8) return 1;
  std::size_t bytes = 0;
  with_type(type, [&]<class T>(T) { bytes = sizeof(T); });
  return bytes;
}

bool can_reduce(ncclDataType_t type, ncclRedOp_t how) {
  return (how == ncclSum || how == ncclMax) && with_type(type, [](auto) {});
}

void transfer(std::vector<arguments> const& of_ranks) {
  switch (of_ranks.front().what) {
    case operation::all_reduce: return all_reduce(of_ranks);
    case operation::reduce_scatter: return reduce_scatter(of_ranks);
    case operation::all_gather: return all_gather(of_ranks);
    default: return broadcast(of_ranks);
  }
}

void transfer(arguments const& sent, arguments const& received) {
  move_bytes(received.to, sent.from, sent.count * bytes_of(sent.type));
}

}  // namespace emulator::nccl
