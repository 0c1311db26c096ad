// pith/exchange/detail/state_copies.hpp — copies of an exchange's states from before its last two steps.
#pragma once

#include <pith/codec/any_codec.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/codec/state.hpp>
#include <pith/core/buffer.hpp>
#include <pith/exchange/detail/exchanged_tensors.hpp>
#include <pith/exec/lanes.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A visitor that copies the visited fields to one buffer, one after another. Each copy is a lane.
template <executor E>
struct field_copier final : field_visitor {
  using recording = typename lanes<E>::recording;

  field_copier(recording const& w, std::byte* t) : work(w), to(t) {}

  void visit(void* data, std::size_t n) override {
    work.next_lane().copy(to, data, n);
    to += n;
  }

  recording const& work;
  std::byte* to;
};

/// Copies of the states, made before each of the last two steps. Two copies suffice: a rank may complete a step that
/// another rank cannot complete, but no rank can complete the following step without all ranks.
template <real In, executor E>
class state_copies {
 public:
  /// Allocates memory for copies of the current states. Existing copies are kept.
  void fit(E const& exec, exchanged_tensors<In, E>& all) {
    auto const size = state_bytes(all);
    for (auto& c : copies_) {
      c.codecs.reserve(all.codecs().size());
      c.owes.reserve(all.codecs().size());
      if (size <= c.states.size()) continue;
      auto larger = buffer<std::byte, E>(exec, size);
      exec.copy(larger.data(), c.states.data(), c.states.size());
      c.states = std::move(larger);
    }
  }

  /// Copies the states at the start of a step. Allocates nothing.
  void take(E const& exec, exchanged_tensors<In, E>& all) {
    std::swap(copies_[0], copies_[1]);
    auto& c = copies_[0];
    auto const work = lanes_.record(exec);
    auto copier = field_copier<E>(work, c.states.data());
    all.fields(copier);
    work.run();
    c.size = static_cast<std::size_t>(copier.to - c.states.data());
    c.codecs = all.codecs();
    c.owes.clear();
    for (std::size_t i = 0; i < c.codecs.size(); ++i) c.owes.push_back(all.owes(i));
    count_ = std::min(count_ + 1, copies_.size());
  }
  void forget() { count_ = 0; }

  std::size_t size() const { return count_; }
  /// The codecs of copy `which`. Copy 0 was made before the most recent step began. Copy 1 was made one step earlier.
  std::vector<any_codec<In, E>> const& codecs(std::size_t which) const { return copies_[which].codecs; }
  /// Returns, for copy `which`, whether each tensor had an undelivered residual.
  std::vector<bool> const& owes(std::size_t which) const { return copies_[which].owes; }
  std::vector<std::byte> states(E const& exec, std::size_t which) const {
    auto const& c = copies_[which];
    auto bytes = std::vector<std::byte>(c.size);
    exec.download(bytes.data(), c.states.data(), c.size);
    return bytes;
  }

 private:
  struct copy {
    buffer<std::byte, E> states;
    std::size_t size = 0;
    std::vector<any_codec<In, E>> codecs;
    std::vector<bool> owes;
  };

  std::array<copy, 2> copies_;
  lanes<E> lanes_;
  std::size_t count_ = 0;
};

}}}  // namespace pith::PITH_ABI::detail
