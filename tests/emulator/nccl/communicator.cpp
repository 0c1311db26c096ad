// tests/emulator/nccl/communicator.cpp — communicators: creation, split, queries and destruction.
#include "nccl/error.hpp"
#include "nccl/group.hpp"
#include "nccl/member.hpp"
#include "runtime/device.hpp"
#include "runtime/leaks.hpp"

#include <algorithm>
#include <cstring>

using namespace emulator;
using namespace emulator::nccl;

namespace {

using member_pointer = std::shared_ptr<member>;

/// Cliques whose ranks still come, by the number in their id.
struct founding {
  std::shared_ptr<clique> all;
  std::string objection = {};
  bool is_over = false;  ///< from then on ranks may end
};
std::map<std::uint64_t, std::shared_ptr<founding>>& foundings() {
  static auto& all = *new std::map<std::uint64_t, std::shared_ptr<founding>>;
  return all;
}

std::uint64_t number_of(ncclUniqueId const& id) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  return number;
}

ncclComm_t handle_of(member_pointer const& m) {
  ++living(object::communicator);
  return new ncclComm{m};
}

/// The founding that an id stands for. One that is complete is forgotten; one that failed, so that late ranks fail too, is not.
std::shared_ptr<founding> join(std::uint64_t id, unsigned ranks, member_pointer& m) {
  auto& place = foundings()[id];
  if (!place) place = std::make_shared<founding>(founding{std::make_shared<clique>(ranks)});
  auto const found = place;
  m->all = found->all;
  if (found->all->size() != ranks) found->objection = "the ranks disagree about their number";
  if (found->objection.empty()) found->objection = found->all->join(m);
  found->is_over = !found->objection.empty() || found->all->is_complete();
  if (found->objection.empty() && found->is_over) foundings().erase(id);
  return found;
}

ncclResult_t make_rank(ncclComm_t* made, int ranks, ncclUniqueId const& id, int rank, int device) {
  *made = nullptr;
  if (ranks < 1 || rank < 0) return report(ncclInvalidArgument, "a rank below 0, or no ranks");
  auto m = std::make_shared<member>(member{nullptr, static_cast<unsigned>(rank), device});
  auto const joined = join(number_of(id), static_cast<unsigned>(ranks), m);
  return await({[=] { return joined->is_over; },
                [=] {
                  if (!joined->objection.empty()) return report(ncclInvalidUsage, joined->objection);
                  *made = handle_of(m);
                  return ncclSuccess;
                }});
}

/// The end of a communicator for its program. Work of streams may still hold its rank.
ncclResult_t end(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  delete comm;
  --living(object::communicator);
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return entered([=] {
    static std::uint64_t last = 0;
    *id = {};
    ++last;
    std::memcpy(id->internal, &last, sizeof last);
    return ncclSuccess;
  });
}
ncclResult_t ncclCommInitRank(ncclComm_t* made, int ranks, ncclUniqueId id, int rank) {
  return entered([&] { return make_rank(made, ranks, id, rank, current_device().number); });
}
/// Always blocking.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  return ncclCommInitRank(made, ranks, id, rank);
}
ncclResult_t ncclCommInitAll(ncclComm_t* made, int ranks, int const* devices) {
  auto list = std::vector<int>(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) list[static_cast<std::size_t>(r)] = devices != nullptr ? devices[r] : r;
  auto const exists = [](int d) { return d >= 0 && d < device_count(); };
  if (!std::ranges::all_of(list, exists)) return report(ncclInvalidArgument, "a device that is not there");
  auto id = ncclUniqueId();
  ncclGetUniqueId(&id);
  ncclGroupStart();
  for (int r = 0; r < ranks; ++r)
    entered([&] { return make_rank(&made[r], ranks, id, r, list[static_cast<std::size_t>(r)]); });
  return ncclGroupEnd();
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  return entered([=] {
    *made = nullptr;
    auto const part = comm->of->all->split(comm->of->rank, color, key);
    return await({[=] { return part->is_made; },
                  [=] {
                    if (part->made) *made = handle_of(part->made);
                    return ncclSuccess;
                  }});
  });
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  *count = static_cast<int>(comm->of->all->size());
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = static_cast<int>(comm->of->rank);
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  *device = comm->of->device;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return entered([=] {
    *error = comm->of->error;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return entered([=] { return end(comm); });
}
/// Streams that wait for its calls go on.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return entered([=] {
    if (comm == nullptr) return ncclSuccess;
    comm->of->is_aborted = true;
    comm->of->all->leave(comm->of->rank);
    schedule::of_process().wake_others();
    return end(comm);
  });
}
