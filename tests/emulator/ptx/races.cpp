// tests/emulator/ptx/races.cpp — accesses of one byte that nothing orders, at least one of them a write.
//
// A barrier orders the accesses of a block, and a warp operation those of its lanes. Blocks are ordered where one makes
// an atomic operation after a fence, and the other one an atomic operation on the same address later and then a fence.
// Writing the value that is there already is no race, for the result does not depend on the order.
#include <cstring>

#include "ptx/report.hpp"
#include "ptx/running.hpp"

namespace emulator {

namespace {

constexpr unsigned warp_size = 32;

bool leaves_equal(access const& a, std::uint64_t first, std::uint64_t n, unsigned char const* now) {
  auto const has_value = a.writes && !a.atomic && a.value;
  return has_value && std::memcmp(static_cast<unsigned char const*>(a.value) + first, now + first, n) == 0;
}

record record_of(thread const& t, access const& a) {
  auto const& b = *t.in;
  return {b.epoch, b.warp_epochs[t.warp], b.number, a.by.line, static_cast<std::uint16_t>(t.index), a.atomic, false};
}

[[noreturn]] void report(thread const& t, access const& a, record const& other, char const* did,
                         std::string const& place) {
  throw fault("race: thread " + std::to_string(t.index) + " of block " + std::to_string(t.in->number) +
              (a.writes ? " writes " : " reads ") + place + ", which thread " + std::to_string(other.thread) +
              " of block " + std::to_string(other.block) + ' ' + did + " at " + line_of(t, other.line) +
              "; nothing orders the two");
}

/// Faults unless all earlier accesses that matter to this one are ordered before it; then records this one.
template <class Ordered, class Place>
void check(thread& t, access const& a, records& r, bool equal, Ordered const& ordered, Place const& place) {
  auto const both_atomic = a.atomic && r.written.atomic;
  if (!both_atomic && !equal && !ordered(r.written)) report(t, a, r.written, "wrote", place());
  auto const& b = *t.in;
  auto const now = record_of(t, a);
  auto const read_in_epoch = r.read.epoch == b.epoch && r.read.block == b.number;
  if (a.writes) {
    auto const all_ordered = ordered(r.read) && !(read_in_epoch && r.read.several);
    if (!a.atomic && !equal && !all_ordered) report(t, a, r.read, "read", place());
    r.written = now;
  } else {
    auto const several = read_in_epoch && (r.read.several || r.read.thread / warp_size != t.warp);
    r.read = now;
    r.read.several = several;
  }
}

/// Whether an access of the thread's own block is ordered before what the thread does now.
bool is_ordered_in_block(thread const& t, record const& other) {
  auto const& b = *t.in;
  return other.epoch < b.epoch || other.thread == t.index ||
         (other.thread / warp_size == t.warp && other.warp_epoch < b.warp_epochs[t.warp]);
}

/// An atomic operation reads what other blocks published at its address, and publishes there in its turn.
void exchange_publications(thread& t, std::uint64_t address) {
  auto const& b = *t.in;
  auto& published = b.of->publications[address];
  for (auto const& [other, p] : published)
    if (other != b.number) t.read_since_fence[other] = p;
  if (t.fenced == b.epoch) published[b.number] = {b.epoch, static_cast<std::uint16_t>(t.index)};
}

bool is_ordered(thread const& t, record const& other) {
  auto const& b = *t.in;
  if (other.epoch < b.of->first_epoch) return true;
  if (other.block == b.number) return is_ordered_in_block(t, other);
  auto const at = b.seen.find(other.block);
  if (at == b.seen.end()) return false;
  auto const& p = at->second;
  return other.epoch < p.epoch || (other.epoch == p.epoch && other.thread == p.thread);
}

/// Checks words where an access is of whole ones and nothing split them, else bytes. Accesses before an epoch are all
/// ordered; place_at: the name of the byte k of the access.
template <class Ordered, class Place>
void check_all(thread& t, access const& a, record_store& all, std::uint64_t offset, unsigned char const* now,
               std::uint32_t epoch, Ordered const& ordered, Place const& place_at) {
  auto const step = a.n >= record_store::word ? record_store::word : a.n;
  for (std::uint64_t k = 0; k < a.n; k += step) {
    auto const at = offset + k;
    auto const place = [&] { return place_at(k); };
    if (step == record_store::word && (!all.is_split(at) || all.join(at, epoch))) {
      check(t, a, all.of_word(at), leaves_equal(a, k, step, now), ordered, place);
      continue;
    }
    all.split(at);
    for (auto byte = k; byte < k + step; ++byte)
      check(t, a, all.of_byte(offset + byte), leaves_equal(a, byte, 1, now), ordered, place);
  }
}

}  // namespace

void check_shared_races(thread& t, access const& a, std::uint64_t offset, unsigned char const* now) {
  auto const ordered = [&t](record const& other) { return is_ordered_in_block(t, other); };
  auto const place = [=](std::uint64_t k) { return "byte " + std::to_string(offset + k) + " of shared memory"; };
  check_all(t, a, t.in->shared_records, offset, now, t.in->epoch, ordered, place);
}

void check_global_races(thread& t, access const& a, record_store& all, std::uint64_t offset, unsigned char const* now) {
  if (a.atomic) exchange_publications(t, a.address);
  auto const ordered = [&t](record const& other) { return is_ordered(t, other); };
  auto const place = [&](std::uint64_t k) { return t.in->of->memory.describe(a.address + k); };
  check_all(t, a, all, offset, now, t.in->of->first_epoch, ordered, place);
}

}  // namespace emulator
