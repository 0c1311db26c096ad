// tests/emulator/ptx/module.hpp — a module of PTX: its functions, whose bodies are decoded when they are first run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace emulator {

class heap;
struct function;
struct instruction;
struct module;
struct thread;

/// Runs an instruction. False: the thread cannot run its next one yet.
using handler = bool (*)(thread&, instruction const&);

enum class space : std::uint8_t { generic, global, shared, local, param };

/// Operands are slots of a thread's frame: registers, constants, special registers and addresses of variables. Slot 0
/// is none.
struct instruction {
  handler run = nullptr;
  std::int32_t predicate = -1;  // a slot, or none
  bool negated = false;
  space where = space::generic;
  std::uint8_t lanes = 1;  // of a vector
  std::uint8_t mode = 0;   // of its modifiers, described at its handler
  std::uint32_t line = 0;  // of the PTX
  std::uint32_t d = 0, d2 = 0, a = 0, b = 0, c = 0, e = 0;
  std::int64_t imm = 0;
  std::vector<std::uint32_t> more;  // slots of vectors and arguments, or targets
  function* callee = nullptr;
};

struct source_place {
  std::uint32_t file, line, column;
  bool operator==(source_place const&) const = default;
};
/// A place in source files, then the place that the compiler inlined it into, and so on. Empty without -lineinfo.
using source_places = std::vector<source_place>;

/// Where an instruction comes from.
struct origin {
  std::string text;
  std::size_t source = 0;  // of the function's sources
};

enum class special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  dynamic_smem_size,
  total_smem_size,
};

enum class base : std::uint8_t { shared, dynamic_shared, local, argument, entry_argument };

/// A slot that holds an address: an offset from where a thread's memory of a kind begins.
struct address_slot {
  std::uint32_t slot;
  base from;
  std::uint64_t offset;
};

struct parameter {
  std::string name;
  std::uint64_t offset, size;
};

struct function {
  std::string name;
  module* owner = nullptr;
  bool entry = false;
  std::vector<parameter> params, returns;  // of a function that is called, the returns come first
  std::uint64_t param_bytes = 0;
  unsigned max_threads = 1024;
  int max_dynamic_shared = 48 * 1024;  // the limit of a launch, which the runtime sets

  std::string body;
  std::size_t body_line = 0;

  // What decode makes of the body.
  bool decoded = false;
  std::vector<instruction> code;
  std::vector<origin> origins;  // of each instruction
  std::vector<source_places> sources{{}};
  std::vector<std::uint64_t> frame;  // what slots hold at first
  std::vector<std::pair<std::uint32_t, special>> specials;
  std::vector<address_slot> addresses;
  std::uint64_t shared_bytes = 0, local_bytes = 0;
  std::uint64_t fused = 0;  // multiplications and additions that became one, until they are counted
};

struct variable {
  enum class kind { global, shared, dynamic_shared } of = kind::global;
  std::uint64_t size = 0, align = 1;
  std::uint64_t address = 0;  // of a global one
};

struct module {
  int architecture = 0;  // ten times the compute capability
  std::map<std::string, std::unique_ptr<function>> functions;
  std::map<std::string, variable> variables;
  std::map<std::uint32_t, std::string> files;  // that .loc names
};

/// Reads a module for a device, in whose memory its variables are allocated.
std::unique_ptr<module> parse(char const* text, heap& memory);

/// Bytes of a type such as .u32; 1 of a predicate.
std::uint64_t size_of(std::string const& type);

/// n, or what is larger and a multiple of a.
inline std::uint64_t align_up(std::uint64_t n, std::uint64_t a) { return (n + a - 1) / a * a; }

/// Makes instructions of a function's body, once.
void decode(function& f);

}  // namespace emulator
