// tests/emulator/machine_test.cpp — instructions that nvcc rarely makes, and PTX that is at fault, as text.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <memory>

#include "ptx/machine.hpp"

namespace {

using emulator::fault, emulator::heap, emulator::machine;

constexpr unsigned threads = 32;
using words = std::array<std::uint32_t, threads>;

/// A kernel that stores %result of each thread; first: declarations before it.
std::string kernel_of(std::string const& body, std::string const& first = "") {
  return ".version 8.0\n.target sm_90\n.address_size 64\n" + first + R"(
.visible .entry kernel(.param .u64 out) {
  .reg .pred %p<4>;
  .reg .b32 %r<9>, %result, %lane;
  .reg .b64 %rd<4>;
  .reg .f32 %f<4>;
  mov.u32 %lane, %laneid;
  ld.param.u64 %rd1, [out];
)" + body +
         R"(
  mul.wide.u32 %rd2, %lane, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %result;
  ret;
})";
}

/// What the threads of one warp store.
words run(std::string const& ptx) {
  heap pinned(1 << 20, heap::visible::to_host_too);
  machine device(1 << 20, pinned);
  auto const m = emulator::parse(ptx.c_str(), device.memory);
  auto* const out = device.memory.allocate(sizeof(words), "an allocation");
  auto const address = reinterpret_cast<std::uint64_t>(out);
  device.run(*m->functions.at("kernel"), {}, {threads}, 0, reinterpret_cast<unsigned char const*>(&address));
  words made;
  std::memcpy(made.data(), device.memory.bytes(out), sizeof made);
  return made;
}
std::uint32_t result_of(std::string const& body) { return run(kernel_of(body))[0]; }

std::string fault_of(std::string const& ptx) {
  try {
    run(ptx);
  } catch (fault const& e) {
    return e.what();
  }
  return "none";
}
bool contains(std::string const& text, char const* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("fields of bits") {
  CHECK(result_of("bfe.u32 %result, 0xabcd1234, 8, 12;") == 0xd12);
  CHECK(result_of("bfe.s32 %result, 0xabcd1234, 8, 8;") == 0x12);
  CHECK(result_of("bfe.s32 %result, 0xabcd1234, 28, 8;") == 0xfffffffa);
  CHECK(result_of("bfe.s32 %result, 0xabcd1234, 40, 8;") == 0xffffffff);
  CHECK(result_of("bfi.b32 %result, 0xff, 0, 4, 8;") == 0xff0);
  CHECK(result_of("bfi.b32 %result, 0xff, 0x12345678, 32, 8;") == 0x12345678);
  CHECK(result_of("bfind.u32 %result, 0x00010000;") == 16);
  CHECK(result_of("bfind.shiftamt.u32 %result, 0x00010000;") == 15);
  CHECK(result_of("bfind.s32 %result, -1;") == 0xffffffff);
  CHECK(result_of("bmsk.clamp.b32 %result, 4, 8;") == 0xff0);
  CHECK(result_of("lop3.b32 %result, 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0x96;") ==
        (0xf0f0f0f0 ^ 0xcccccccc ^ 0xaaaaaaaa));
  CHECK(result_of("prmt.b32 %result, 0x00000080, 0, 0x8888;") == 0xffffffff);
  CHECK(result_of("shr.s32 %result, -8, 40;") == 0xffffffff);
  CHECK(result_of("shl.b32 %result, 1, 32;") == 0);
}

TEST_CASE("predicates") {
  auto const joined = [](std::string const& compare) {
    return result_of("setp.ne.u32 %p1, %lane, 0;\n" + compare + "\nselp.u32 %result, 1, 0, %p2;");
  };
  CHECK(joined("setp.lt.and.s32 %p2, -1, 0, !%p1;") == 1);
  CHECK(joined("setp.lt.and.u32 %p2, -1, 0, !%p1;") == 0);
  CHECK(joined("setp.gt.or.s32 %p2, -1, 0, %p1;") == 0);
  CHECK(joined("setp.eq.xor.s32 %p2, 3, 3, !%p1;") == 0);
  CHECK(joined("setp.lt.f32 %p2, 0f7fc00000, 0f00000000;") == 0);
  CHECK(joined("setp.ltu.f32 %p2, 0f7fc00000, 0f00000000;") == 1);
  CHECK(joined("setp.lt.s32 %p3|%p2, 1, 2;") == 0);
  CHECK(result_of("mov.u32 %result, 1;\nsetp.ne.u32 %p1, %lane, 0;\n@%p1 mov.u32 %result, 2;") == 1);
  CHECK(result_of("mov.u32 %result, 1;\nsetp.ne.u32 %p1, %lane, 0;\n@!%p1 mov.u32 %result, 2;") == 2);
}

TEST_CASE("conversions") {
  CHECK(result_of("cvt.sat.u8.s32 %result, 300;") == 255);
  CHECK(result_of("cvt.sat.u8.s32 %result, -3;") == 0);
  CHECK(result_of("cvt.s8.s32 %result, 0x180;") == 0xffffff80);
  CHECK(result_of("cvt.sat.f32.f32 %result, 0f40000000;") == 0x3f800000);
  CHECK(result_of("cvt.sat.f32.f32 %result, 0f7fc00000;") == 0);
  CHECK(result_of("cvt.rn.f16.f32 %result, 0f3f801000;") == 0x3c00);  // a tie, to even
  CHECK(result_of("cvt.rn.f16.f32 %result, 0f47800000;") == 0x7c00);
  CHECK(result_of("cvt.rn.bf16.f32 %result, 0f3f808000;") == 0x3f80);
  CHECK(result_of("cvt.rn.bf16.f32 %result, 0fff800001;") == 0x7fff);
  CHECK(result_of("cvt.f32.f16 %result, 0x0001;") == 0x33800000);
  CHECK(result_of("cvt.rni.f32.f32 %result, 0f40200000;") == 0x40000000);
}

TEST_CASE("jumps by a table, and functions that are called") {
  CHECK(run(kernel_of(R"(
  and.b32 %r1, %lane, 1;
targets: .branchtargets even, odd;
  brx.idx %r1, targets;
even:
  mov.u32 %result, 10;
  bra.uni done;
odd:
  mov.u32 %result, 11;
done:)"))[5] == 11);

  auto const square = R"(
.func (.param .b32 result) square(.param .b32 x) {
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [x];
  mul.lo.s32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
})";
  CHECK(run(kernel_of(R"(
  { .param .b32 argument;
    .param .b32 made;
    st.param.b32 [argument], %lane;
    call.uni (made), square, (argument);
    ld.param.b32 %result, [made]; })",
                      square))[7] == 49);
}

TEST_CASE("barriers that reduce, and atomic operations") {
  CHECK(result_of("setp.lt.u32 %p1, %lane, 7;\nbar.red.popc.u32 %result, 0, %p1;") == 7);
  CHECK(result_of("setp.lt.u32 %p1, %lane, 7;\nbar.red.and.pred %p2, 0, %p1;\nselp.u32 %result, 1, 0, %p2;") == 0);
  auto const counter = ".global .align 4 .u32 counter = 5;";
  auto const counts = [&](std::string const& add) {
    return run(kernel_of(
        "mov.u64 %rd2, counter;\n" + add + " [%rd2], %lane;\nbar.sync 0;\nld.global.u32 %result, [%rd2];", counter))[0];
  };
  CHECK(counts("red.global.add.u32") == 5 + 31 * 16);
  CHECK(counts("red.global.max.u32") == 31);
  CHECK(counts("red.global.or.b32") == 31);
}

TEST_CASE("vectors and packing") {
  CHECK(result_of("mov.b64 %rd2, {0x1234, 0x5678};\nmov.b64 {%r1, %r2}, %rd2;\nadd.u32 %result, %r1, %r2;") == 0x68ac);
  CHECK(result_of("{ .shared .align 16 .b8 s[512];\nmov.u32 %r1, s;\nshl.b32 %r2, %lane, 4;\nadd.s32 %r1, %r1, %r2;\n"
                  "st.shared.v2.u32 [%r1+8], {1, 2};\nld.shared.v2.u32 {_, %result}, [%r1+8]; }") == 2);
}

TEST_CASE("a module is of the architecture that its PTX names") {
  heap memory(1 << 20, heap::visible::to_device);
  CHECK(emulator::parse(".version 8.0\n.target sm_80\n.address_size 64\n", memory)->architecture == 80);
  CHECK(emulator::parse(".version 8.0\n.target sm_90a, debug\n.address_size 64\n", memory)->architecture == 90);
}

TEST_CASE("PTX that is at fault is described") {
  CHECK(fault_of(kernel_of("mov.u32 %result, 1;")) == "none");
  CHECK(contains(fault_of(kernel_of("mov.u32 %result, %missing;")),
                 "the emulator lacks the instruction 'mov.u32 %result"));
  CHECK(contains(fault_of(kernel_of("add.u32 %result, {%missing}, 1;")), "unknown name %missing"));
  CHECK(contains(fault_of(kernel_of("bra nowhere;")), "no label nowhere"));
  CHECK(contains(fault_of(".entry kernel(.param .u64 out) { ret;"), "PTX ends within function kernel"));
  CHECK(contains(fault_of(".vertex kernel"), "'.vertex' begins no declaration"));
  CHECK(
      contains(fault_of(kernel_of("add.ftz.f32 %result, 0f00000000, 0f00000000;")), "lacks the instruction 'add.ftz"));
  CHECK(contains(fault_of(kernel_of("trap;")), "trap\n  kernel kernel\n  block  0 (0, 0, 0)\n  thread 0 (0, 0, 0)"));
  CHECK(
      contains(fault_of(kernel_of("setp.eq.u32 %p1, %lane, 0;\n@%p1 bar.sync 1, 64;\n@!%p1 bar.sync 0;")), "deadlock"));
}
