// tests/support/launches.hpp — an executor that counts the launches that a device would have.
#pragma once

#include <pith/exec/seq.hpp>

#include <cstddef>
#include <cstdint>

namespace support {

/// Programs, copies and fills: the nodes of a graph.
class counting_executor : public pith::seq_executor {
 public:
  explicit counting_executor(unsigned& launches) : launches_(&launches) {}
  counting_executor() = default;

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    count(n);
    pith::seq_executor::for_each_index(n, f);
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    count(blocks);
    pith::seq_executor::for_each_block(blocks, body);
  }
  void copy(void* to, void const* from, std::size_t bytes) const {
    count(bytes);
    pith::seq_executor::copy(to, from, bytes);
  }
  void fill(void* to, std::byte value, std::size_t bytes) const {
    count(bytes);
    pith::seq_executor::fill(to, value, bytes);
  }

 private:
  void count(std::uint64_t work) const {
    if (work > 0) ++*launches_;
  }

  unsigned* launches_ = nullptr;
};

}  // namespace support
