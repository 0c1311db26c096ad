// machine.hpp — PTX as a module of decoded functions, and a machine that runs their grids on one host thread.
//
// Registers are 64-bit slots of a thread's frame; constants, special registers and addresses of variables are slots as
// well, so that an operand is always a slot. All state spaces are host addresses (shared memory lies below 4 GiB), so
// that cvta is a move. A thread runs until it waits at a barrier or for lanes of its warp, or until its quantum ends.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "ptx/heap.hpp"

namespace emulator {

/// What a kernel did that a device does not do. The text says where.
struct fault : std::runtime_error {
  enum class kind { other, illegal_address, misaligned };
  explicit fault(std::string const& text, kind k = kind::other) : std::runtime_error(text), what_kind(k) {}
  kind what_kind;
};

struct thread;
struct inst;
using handler = bool (*)(thread&, inst const&);  // false: the thread does not go on by itself

enum class space : std::uint8_t { generic, global, shared, local, param };

struct inst {
  handler run = nullptr;
  std::int32_t pred = -1;
  bool negated = false;
  space where = space::generic;
  std::uint8_t vec = 1;
  std::uint8_t mode = 0;
  std::uint32_t d = 0, d2 = 0, a = 0, b = 0, c = 0, e = 0;
  std::int64_t imm = 0;
  std::vector<std::uint32_t> more;  // slots of vectors, arguments, targets
  struct function* callee = nullptr;
  std::string text;
  std::uint32_t line = 0;
};

enum class special : std::uint8_t {
  tid_x, tid_y, tid_z, ntid_x, ntid_y, ntid_z, ctaid_x, ctaid_y, ctaid_z, nctaid_x, nctaid_y, nctaid_z,
  laneid, warpid, nwarpid, smid, nsmid, gridid, lanemask_eq, lanemask_lt, lanemask_le, lanemask_gt, lanemask_ge,
  dynamic_smem_size, total_smem_size, other,
};

struct address_slot {
  std::uint32_t slot;
  char kind;  // s: shared, x: dynamic shared, l: local, p: param
  std::uint64_t offset;
};

struct parameter {
  std::string name;
  std::uint64_t offset, size;
};

struct function {
  std::string name;
  bool entry = false;
  struct module* owner = nullptr;
  std::vector<inst> code;
  std::vector<std::uint64_t> frame;  // initial slots
  std::vector<std::pair<std::uint32_t, special>> specials;
  std::vector<address_slot> addresses;
  std::vector<parameter> params, returns;  // in the function's param space, returns first
  std::uint64_t param_bytes = 0, shared_bytes = 0, local_bytes = 0;
  unsigned max_threads = 1024;
  std::string body;  // decoded when first run
  std::size_t body_line = 0;
  bool decoded = false;
  std::map<std::string, std::uint64_t> shared_offsets;
  // of the runtime
  int most_dynamic_shared = 48 * 1024;
};

struct variable {
  char kind;  // g: global, c: const, s: shared, x: dynamic shared
  std::uint64_t size, align;
  std::uint64_t address = 0;
};

struct module {
  std::map<std::string, std::unique_ptr<function>> functions;
  std::map<std::string, variable> variables;
  std::map<std::string, std::uint64_t> files;
};

/// Variables of the module are allocated in the memory of the device that it is for.
std::unique_ptr<module> parse(char const* text, heap& memory);
void decode(function& f);

struct dims {
  unsigned x = 1, y = 1, z = 1;
};

/// Who touched a byte of global memory last.
struct global_shadow {
  std::uint32_t launch = 0, block = 0, warp_epoch = 0;
  std::uint16_t thread = 0;
  bool atomic = false, several = false;
  std::uint64_t epoch = 0;
};
struct global_shadows {
  global_shadow written, read;
};

struct options {
  bool check = true;       // PITH_EMULATOR_CHECK=0: no bounds
  bool undefined = true;   // PITH_EMULATOR_UNDEFINED=0: bytes may be read that were never written
  unsigned races = 1;      // PITH_EMULATOR_RACES: 0 none, 1 of shared memory, 2 of global memory too
  bool fuse = false;       // PITH_EMULATOR_FUSE=1: mul and add without .rn become fma, as ptxas may do
  unsigned order = 0;      // PITH_EMULATOR_ORDER: 0 upwards, 1 downwards, else a seed of random orders
  std::uint64_t quantum = 0;  // PITH_EMULATOR_QUANTUM: instructions a thread runs before another does; 0: until it waits
  unsigned resident = 1;   // PITH_EMULATOR_RESIDENT: blocks at once
  bool late = false;       // PITH_EMULATOR_LATE=1: streams run when they are waited for
  bool stats = false;      // PITH_EMULATOR_STATS=1: prints counts at the end
  bool trace = false;      // PITH_EMULATOR_TRACE=1: prints launches
};
extern options opt;

/// A device: its memory and what runs on it. Its users take turns; a function belongs to one machine.
class machine {
 public:
  /// pinned: memory of the host that the devices share.
  machine(std::uint64_t memory_bytes, heap& pinned);
  ~machine();
  machine(machine const&) = delete;
  machine& operator=(machine const&) = delete;

  /// Runs a grid to its end, or throws a fault.
  void run(function& f, dims grid, dims block, std::uint64_t dynamic_shared, unsigned char const* params);
  std::uint64_t instructions() const;
  std::uint64_t kernels() const;

  heap memory;

 private:
  std::unique_ptr<struct running> running_;
};

}  // namespace emulator
