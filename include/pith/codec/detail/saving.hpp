// pith/codec/detail/saving.hpp — serialisation of states to bytes in host memory, and the inverse.
#pragma once

#include <pith/codec/state.hpp>

#include <cstddef>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

struct field_counter final : field_visitor {
  std::size_t bytes = 0;

  void visit(void*, std::size_t n) override { bytes += n; }
};

/// The size of a state's values.
std::size_t state_bytes(auto& state) {
  auto counted = field_counter();
  state.fields(counted);
  return counted.bytes;
}

template <executor E>
struct field_saver final : field_visitor {
  explicit field_saver(E const& e) : exec(e) {}

  void visit(void* data, std::size_t n) override {
    bytes.resize(bytes.size() + n);
    exec.download(bytes.data() + bytes.size() - n, data, n);
  }

  E const& exec;
  std::vector<std::byte> bytes;
};

template <executor E>
struct field_loader final : field_visitor {
  field_loader(E const& e, std::byte const* b) : exec(e), from(b) {}

  void visit(void* data, std::size_t n) override {
    exec.upload(data, from, n);
    from += n;
  }

  E const& exec;
  std::byte const* from;
};

}}}  // namespace pith::PITH_ABI::detail
