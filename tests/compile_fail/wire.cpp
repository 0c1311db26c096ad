// tests/compile_fail/wire.cpp — frames and checked payloads of what cannot have them.
#include <pith/adaptor/checked.hpp>
#include <pith/pith.hpp>
#include <pith/wire/frame.hpp>

#include <vector>

namespace sample {

/// An executor on device memory, declared only.
struct gpu {
  using space = pith::device_space;
  static constexpr std::uint32_t items_per_block = 512;
  static constexpr char const* name() { return "gpu"; }

  template <class F>
  void for_each_index(std::uint64_t, F const&) const;
  template <class Body>
  void for_each_block(std::uint64_t, Body const&) const;
  void copy(void*, void const*, std::size_t) const;
  void fill(void*, std::byte, std::size_t) const;
  void upload(void*, void const*, std::size_t) const;
  void download(void*, void const*, std::size_t) const;
  void wait() const;
  static int device_number();
  static bool is_capturing();
  void* allocate(std::size_t) const;
  void deallocate(void*, std::size_t) const noexcept;
};
static_assert(pith::executor<gpu>);

}  // namespace sample

int main() {
  auto const codec = pith::top_k(0.1);
  auto const flag = pith::error_flag(pith::seq);
  auto scratch = std::vector<std::byte>(4096);
  auto x = std::vector<float>(16);
  [[maybe_unused]] auto ws = pith::workspace<>(scratch);
  [[maybe_unused]] auto const gpu = sample::gpu();
#if defined(DEVICE_FRAME)
  // expected-error {{pith: frames are sealed and opened in host memory: download the payload first}}
  auto state = pith::make_state<float>(gpu, codec, {16});
  auto device_ws = pith::workspace<pith::device_space>({});
  pith::wire::seal(gpu, codec, pith::device_span<float const>(), pith::device_span<std::byte>(), state, device_ws);
#elif defined(FLAG_OF_OTHER_MEMORY)
  // expected-error {{pith: this span lies in another memory space than the executor's}}
  auto const safe = pith::checked(codec, flag);
  auto state = pith::make_state<float>(gpu, safe, {16});
  auto device_ws = pith::workspace<pith::device_space>({});
  pith::compress(gpu, safe, pith::device_span<float const>(), pith::device_span<std::byte>(), state, device_ws);
#elif defined(CHECKED_IN_A_CHAIN)
  // expected-error {{pith: this codec ends a pipeline}}
  auto const wrong = pith::checked(codec, flag) | pith::qsgd<8>();
#else
  auto const safe = pith::checked(pith::error_feedback(codec | pith::qsgd<8>()), flag);
  auto state = pith::make_state<float>(pith::seq, safe, {16});
  auto frame = std::vector<std::byte>(pith::wire::frame_bytes<float>(safe, {16}));
  pith::wire::seal(pith::seq, safe, x, frame, state, ws);
  pith::wire::open(pith::seq, safe, frame, x, state, ws);
#endif
}
