// tests/wire/frame_test.cpp — a frame gives back what was sealed, and anything else is an error that says why.
#include <pith/adaptor/bypass.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/codec/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>
#include <pith/wire/frame.hpp>

#include <doctest/doctest.h>

#include <cstring>

#include "support/parsed.hpp"
#include "support/roundtrip.hpp"

using namespace support;
namespace wire = pith::wire;

namespace {

template <class In>
using any = pith::any_codec<In, pith::seq_executor>;

/// A codec with all that frames of one tensor take.
template <class In, class C = any<In>>
struct desk {
  desk(C c, pith::shape d, pith::tensor_id owner = {7, 5, 3})
      : codec(std::move(c)),
        dims(d),
        state(pith::make_state<In>(pith::seq, codec, dims, owner)),
        memory(wire::workspace_bytes<In>(pith::seq, codec, dims)) {}
  desk(char const* text, pith::shape d, pith::tensor_id owner = {7, 5, 3}) : desk(pith::parse<float>(text), d, owner) {}

  std::vector<std::byte> seal(std::vector<In> const& x) {
    auto frame = std::vector<std::byte>(wire::frame_bytes<In>(codec, dims), std::byte{0xa5});
    seal(x, frame);
    return frame;
  }
  void seal(std::vector<In> const& x, pith::span<std::byte> frame) {
    auto ws = pith::workspace<>(memory);
    wire::seal(pith::seq, codec, pith::span<In const>(x), frame, state, ws);
  }
  wire::header open(pith::span<std::byte const> frame, std::vector<In>& x) {
    auto ws = pith::workspace<>(memory);
    return wire::open(pith::seq, codec, frame, pith::span<In>(x), state, ws);
  }
  std::vector<In> open(std::vector<std::byte> const& frame) {
    auto x = std::vector<In>(dims.n);
    open(frame, x);
    return x;
  }

  /// Opening throws this, and leaves the gradient alone.
  void refuses(pith::span<std::byte const> frame, std::string const& message) {
    auto const before = std::vector<In>(dims.n, pith::element_cast<In>(0.625));
    auto x = before;
    CHECK_THROWS_WITH_AS(open(frame, x), doctest::Contains(message.c_str()), pith::wire_error);
    CHECK(same_bytes(x, before));
  }

  C codec;
  pith::shape dims;
  pith::codec_state<In, C, pith::seq_executor> state;
  std::vector<std::byte> memory;
};

template <class In = float>
std::vector<In> gradient(std::size_t n) {
  return narrow<In>(normal_vector(n, 31));
}

/// The frame with another header, whose checksum is right.
std::vector<std::byte> forged(std::vector<std::byte> frame, auto change) {
  auto h = wire::read_header(pith::span<std::byte const>(frame));
  auto const payload = std::vector<std::byte>(frame.begin() + static_cast<std::ptrdiff_t>(h.bytes()), frame.end());
  change(h);
  frame.assign(h.bytes() + payload.size(), std::byte{});
  wire::write_header(h, pith::span<std::byte>(frame));
  std::copy(payload.begin(), payload.end(), frame.begin() + static_cast<std::ptrdiff_t>(h.bytes()));
  return frame;
}

/// The frame with a byte of its fixed part changed, and the checksum of its header made right.
std::vector<std::byte> patched(std::vector<std::byte> frame, std::size_t at, int value) {
  auto const size = wire::read_header(pith::span<std::byte const>(frame)).bytes();
  frame[at] = static_cast<std::byte>(value);
  auto const sum = pith::checksum({frame.data(), size - 8});
  std::memcpy(frame.data() + size - 8, &sum, sizeof sum);
  return frame;
}

/// A frame's header with another version and name, and the right checksum.
std::vector<std::byte> header_with(std::vector<std::byte> const& frame, std::uint16_t version, std::string_view name) {
  auto const name_bytes = static_cast<std::uint32_t>(name.size());
  auto header = std::vector<std::byte>(pith::detail::header_bytes(name.size()));
  std::copy_n(frame.begin(), sizeof(pith::detail::header_fields), header.begin());
  std::memcpy(header.data() + 4, &version, sizeof version);
  std::memcpy(header.data() + 8, &name_bytes, sizeof name_bytes);
  std::memcpy(header.data() + sizeof(pith::detail::header_fields), name.data(), name.size());
  auto const sum = pith::checksum({header.data(), header.size() - 8});
  std::memcpy(header.data() + header.size() - 8, &sum, sizeof sum);
  return header;
}

/// What is opened is what decompress gives.
template <class In>
void opens_what_was_sealed(any<In> const& codec) {
  for (auto const dims : {pith::shape{0}, pith::shape{1}, pith::shape{129}, pith::shape{600, 20}}) {
    CAPTURE(codec.name());
    CAPTURE(dims.n);
    auto frames = desk<In>(codec, dims);
    auto plain = trial<In, any<In>>(codec, dims, {7, 5, 3});
    for (int step = 0; step < 2; ++step) {
      auto const x = gradient<In>(dims.n);
      auto const frame = frames.seal(x);
      auto const payload = plain.compress(x);
      REQUIRE(frame.size() >= payload.size());
      CHECK(std::equal(payload.begin(), payload.end(), frame.end() - static_cast<std::ptrdiff_t>(payload.size())));
      CHECK(same_bytes(frames.open(frame), plain.decompress(payload)));
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("open decodes a frame to the values of decompress", In, float, double, pith::half, pith::bfloat16) {
  opens_what_was_sealed<In>(pith::identity());
  opens_what_was_sealed<In>(pith::cast<pith::half>());
  opens_what_was_sealed<In>(pith::bypass(pith::error_feedback(pith::top_k(0.1) | pith::qsgd<4>()), 129));
}

TEST_CASE("open decodes a frame of any parsed codec to the values of decompress") {
  for (auto const* text :
       {"identity", "cast<half>", "scaled_sign", "qsgd<4>", "top_k(0.1)", "random_k(0.2)", "power_sgd(2)",
        "top_k(0.2)|qsgd<8>", "ef(top_k(0.1)|qsgd<4>)", "bypass(ef(scaled_sign),1000)"}) {
    opens_what_was_sealed<float>(pith::parse<float>(text));
  }
}

TEST_CASE("the header states the codec, tensor, step and owner, which suffice to open the frame") {
  auto sender = desk<float>("random_k(0.1)", {60, 6}, {42, 9, 2});
  sender.seal(gradient(60));
  auto const frame = sender.seal(gradient(60));
  auto const h = wire::read_header(pith::span<std::byte const>(frame));
  CHECK(h.codec == "random_k(0.1)");
  CHECK(h.element == pith::element_kind::f32);
  CHECK(h.dims == pith::shape{60, 6});
  CHECK(h.step == 2);
  CHECK(h.owner.seed == 42);
  CHECK(h.owner.tensor == 9);
  CHECK(h.owner.rank == 2);
  CHECK(h.payload_bytes == 6 * sizeof(float));

  auto receiver = desk<float>(h.codec.c_str(), h.dims, h.owner);  // its state is at step 0
  CHECK(same_bytes(receiver.open(frame), sender.open(frame)));
  auto stranger = desk<float>(h.codec.c_str(), h.dims, {1, 1, 1});
  auto x = std::vector<float>(60);
  CHECK(stranger.open(frame, x) == h);
  CHECK(same_bytes(x, sender.open(frame)));
}

TEST_CASE("the header is read from the beginning of a frame, wherever it lies") {
  auto sender = desk<float>("qsgd<8>", {100});
  auto const frame = sender.seal(gradient(100));
  auto const size = wire::read_header(pith::span<std::byte const>(frame)).bytes();
  CHECK(size == 88);
  auto moved = std::vector<std::byte>(size + 1);
  std::copy_n(frame.begin(), size, moved.begin() + 1);
  CHECK(wire::read_header({moved.data() + 1, size}).codec == "qsgd<8>");
  CHECK_THROWS_WITH_AS(wire::read_header({frame.data(), size - 1}),
                       "pith::wire::read_header: the header must have at least 88 bytes, got 87", pith::wire_error);
  CHECK_THROWS_WITH_AS(wire::read_header({frame.data(), 79}),
                       "pith::wire::read_header: the header must have at least 80 bytes, got 79", pith::wire_error);
}

TEST_CASE("every single-bit flip of a frame is an error and leaves the gradient alone") {
  auto d = desk<float>("qsgd<8>", {3800});
  auto frame = d.seal(gradient(3800));
  REQUIRE(frame.size() > 3 * 1024);
  REQUIRE(frame.size() <= 4096);
  auto const before = std::vector<float>(3800, 0.625f);
  auto x = before;
  std::size_t caught = 0;
  for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    auto const flipped = static_cast<std::byte>(1u << bit % 8);
    frame[bit / 8] ^= flipped;
    try {
      d.open(frame, x);
    } catch (pith::wire_error const&) {
      ++caught;
    }
    frame[bit / 8] ^= flipped;
  }
  CHECK(caught == 8 * frame.size());
  CHECK(same_bytes(x, before));
  d.open(frame, x);
  CHECK(!same_bytes(x, before));
}

TEST_CASE("open refuses a frame that does not match and states the expected and the actual value") {
  auto d = desk<float>("qsgd<8>", {100});
  auto const frame = d.seal(gradient(100));
  auto longer = frame, shorter = frame, other = frame;
  longer.push_back(std::byte{});
  shorter.pop_back();
  other.back() ^= std::byte{1};
  d.refuses(longer, "pith::wire::open: the frame must have 196 bytes, got 197");
  d.refuses(shorter, "pith::wire::open: the frame must have 196 bytes, got 195");
  d.refuses(other, "pith::wire::open: the payload is damaged: its checksum must be ");
  d.refuses({frame.data(), 10}, "pith::wire::read_header: the header must have at least 80 bytes, got 10");

  d.refuses(desk<float>("top_k(0.01)", {100}).seal(gradient(100)),
            "pith::wire::open: the frame's codec must be qsgd<8>, got top_k(0.01)");
  d.refuses(desk<double>(pith::qsgd<8>(), {100}).seal(gradient<double>(100)),
            "pith::wire::open: the frame's elements must be float, got double");
  d.refuses(desk<float>("qsgd<8>", {99}).seal(gradient(99)),
            "pith::wire::open: the frame's tensor must have 100 elements in 1 rows, got 99 in 1");
  d.refuses(desk<float>("qsgd<8>", {100, 10}).seal(gradient(100)),
            "pith::wire::open: the frame's tensor must have 100 elements in 1 rows, got 100 in 10");
  d.refuses(forged(frame, [](auto& h) { h.payload_bytes = 12; }),
            "pith::wire::open: the payload must have 108 bytes, got 12");
}

TEST_CASE("bytes that are no header are refused with this reason, even if their checksum is right") {
  auto d = desk<float>("qsgd<8>", {100});
  auto const frame = d.seal(gradient(100));
  auto flipped = frame;
  flipped[20] ^= std::byte{1};
  d.refuses(flipped, "pith::wire::read_header: the header is damaged: its checksum must be ");
  d.refuses(patched(frame, 0, 'x'), "pith::wire::read_header: a frame must begin with \"pith\", got \"xith\"");
  d.refuses(patched(frame, 0, 7), "got \"?ith\"");
  d.refuses(patched(frame, 4, 2), "pith::wire::read_header: the frame's version must be at most 1, got 2");
  d.refuses(patched(frame, 6, 0), "pith::wire::read_header: the element kind must be in [1, 4], got 0");
  d.refuses(patched(frame, 6, 5), "pith::wire::read_header: the element kind must be in [1, 4], got 5");
  d.refuses(patched(frame, 7, 2), "pith::wire::read_header: reserved bytes must be 0, got 2");
  d.refuses(patched(frame, 9, 4), "pith::wire::read_header: the codec's name must have at most 1024 bytes, got 1031");
  d.refuses(patched(frame, 15, 1), "pith::wire::read_header: tensor must be below 2^24, got 16777221");
  d.refuses(patched(frame, 53, 3), "pith::wire::read_header: reserved bytes must be 0, got 768");
  d.refuses(forged(frame, [](auto& h) { h.codec = "\x1b[31m" + std::string(90, 'a'); }),
            "got ?[31m" + std::string(75, 'a') + "...");
}

TEST_CASE("a header of version 0 gives the codec's name in this version") {
  struct renamed {
    char const *in_version_0, *now;
  };
  auto const frame = desk<float>("identity", {100}).seal(gradient(100));
  for (auto const& r :
       {renamed{"qsgd<8>", "qsgd<8>"},
        {"top_k(0.1)", "top_k(0.1,packed_indices)"},
        {"top_k(0.1,elias_fano)", "top_k(0.1)"},
        {"top_k(0.5)|top_k(0.25)|qsgd<4>", "top_k(0.5,packed_indices)|top_k(0.25,packed_indices)|qsgd<4>"},
        {"ef(rated(top_k(0.2)|qsgd<8>,0.5))", "ef(rated(top_k(0.2,packed_indices)|qsgd<8>,0.5))"},
        {"hierarchical(chunk_top_k(3,100),ef(top_k(0.2)),2)",
         "hierarchical(chunk_top_k(3,100),ef(top_k(0.2,packed_indices)),2)"},
        {"top_k(0.3,plain)", "top_k(0.3,plain)"},
        {"stop_k(0.3)", "stop_k(0.3)"},
        {"ok_top_k(0.2)", "ok_top_k(0.2)"}}) {
    auto const header = header_with(frame, 0, r.in_version_0);
    auto const h = wire::read_header(pith::span<std::byte const>(header));
    CHECK(h.codec == r.now);
    CHECK(h.frame_version == 0);
    CHECK(h.bytes() == header.size());
    auto copy = header;
    CHECK_THROWS_WITH_AS(wire::write_header(h, pith::span<std::byte>(copy)),
                         "pith::wire::write_header: frame_version must be 1, got 0", std::invalid_argument);
    CHECK(copy == header);
  }
  for (auto const* odd : {"top_k(0.1,packed_indices)", "checked(qsgd<8>)"}) {
    auto const header = header_with(frame, 0, odd);
    CHECK_THROWS_WITH_AS(
        wire::read_header(pith::span<std::byte const>(header)),
        (std::string("pith::wire::read_header: the codec's name must be valid in a frame of version 0, got ") + odd)
            .c_str(),
        pith::wire_error);
  }
  auto const unclosed = header_with(frame, 0, "ef(top_k(0.1");
  CHECK(wire::read_header(pith::span<std::byte const>(unclosed)).codec == "ef(top_k(0.1");
}

TEST_CASE("wrong use is refused before anything is written and does not begin a step") {
  auto d = desk<float>("top_k(0.1)", {100});
  auto room = std::vector<std::byte>(wire::frame_bytes<float>(d.codec, {100}) + 8, std::byte{0x77});
  auto const size = room.size() - 8;
  auto const x = gradient(100);
  CHECK_THROWS_WITH_AS(d.seal(x, {room.data(), size - 1}), "pith::wire::seal: frame must have 143 bytes, got 142",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(d.seal(x, {room.data() + 1, size}),
                       "pith::wire::seal: frame must be aligned to 8 bytes, got an address 1 bytes off",
                       std::invalid_argument);
  CHECK_THROWS_AS(d.seal(gradient(99), {room.data(), size}), std::invalid_argument);
  CHECK(room == std::vector<std::byte>(size + 8, std::byte{0x77}));
  CHECK(*d.state.id().step == 0);

  auto verbose = wire::header();
  verbose.codec = std::string(1025, 'a');
  auto y = std::vector<float>(100);
  auto short_one = std::vector<float>(99);
  d.seal(x, {room.data(), size});
  CHECK_NOTHROW(d.open({room.data(), size}, y));
  CHECK_THROWS_AS(d.open({room.data() + 1, size}, y), std::invalid_argument);
  CHECK_THROWS_WITH_AS(d.open({room.data(), size}, short_one),
                       "pith::wire::open: gradient must have 100 elements, got 99", std::invalid_argument);
  CHECK_THROWS_AS(wire::write_header(verbose, pith::span<std::byte>(room)), std::invalid_argument);
}

TEST_CASE("open decodes the frame of a state with a limited capacity") {
  auto const codec = pith::threshold(0.5);
  auto const dims = pith::shape{1000, 1, 100};
  auto state = pith::make_state<float>(pith::seq, codec, dims);
  auto scratch = std::vector<std::byte>(wire::workspace_bytes<float>(pith::seq, codec, dims));
  auto ws = pith::workspace(pith::span(scratch));
  auto x = std::vector<float>(1000), y = std::vector<float>(1000, 7);
  x[3] = 2, x[999] = -3;
  auto frame = std::vector<std::byte>(wire::frame_bytes<float>(codec, dims));
  wire::seal<float>(pith::seq, codec, pith::span<float const>(x), pith::span(frame), state, ws);
  wire::open<float>(pith::seq, codec, pith::span<std::byte const>(frame), pith::span<float>(y), state, ws);
  CHECK(y == x);
}
