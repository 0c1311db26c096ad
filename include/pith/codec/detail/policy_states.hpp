// pith/codec/detail/policy_states.hpp — the feedback state of a codec, which is kept when a tensor's codec changes.
#pragma once

#include <pith/codec/detail/saving.hpp>
#include <pith/codec/state.hpp>

#include <cstddef>
#include <utility>

namespace pith::inline PITH_ABI::detail {

/// References to the states of a codec's feedback policy. Without feedback, the references are empty.
class policy_states {
 public:
  policy_states() = default;
  template <class Replicated, class Local>
  policy_states(Replicated& replicated, Local& local)
      : replicated_{&replicated, type_of(replicated), state_bytes(replicated)},
        local_{&local, type_of(local), state_bytes(local)},
        swap_([](policy_states const& a, policy_states const& b) {
          std::swap(*static_cast<Replicated*>(a.replicated_.state), *static_cast<Replicated*>(b.replicated_.state));
          std::swap(*static_cast<Local*>(a.local_.state), *static_cast<Local*>(b.local_.state));
        }),
        show_([](void* state, field_visitor& f) { static_cast<Local*>(state)->fields(f); }) {}

  /// Swaps the states of two policies if the states have equal types and sizes.
  void swap_with(policy_states const& other) const {
    if (swap_ != nullptr && replicated_.is_like(other.replicated_) && local_.is_like(other.local_)) swap_(*this, other);
  }

  void local_fields(field_visitor& f) const {
    if (show_ != nullptr) show_(local_.state, f);
  }

 private:
  template <class S>
  static constexpr char tag = 0;

  struct part {
    void* state = nullptr;
    void const* type = nullptr;
    std::size_t bytes = 0;

    bool is_like(part const& other) const { return type == other.type && bytes == other.bytes; }
  };

  /// Returns an address that identifies the type of a state, or, for a type-erased state, the type of the wrapped
  /// state.
  template <class S>
  static void const* type_of(S const& state) {
    if constexpr (requires { state.type(); }) {
      return state.type();
    } else {
      return &tag<S>;
    }
  }

  part replicated_, local_;
  void (*swap_)(policy_states const&, policy_states const&) = nullptr;
  void (*show_)(void* state, field_visitor&) = nullptr;
};

}  // namespace pith::inline PITH_ABI::detail
