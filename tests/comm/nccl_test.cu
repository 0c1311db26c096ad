// tests/comm/nccl_test.cu — a NCCL communicator of one rank, on the device.
#include <pith/comm/nccl.hpp>
#include <pith/exec/stream.hpp>

#include <comm/conformance.hpp>

#include <vector>

namespace {

static_assert(pith::exchanges<pith::nccl_communicator, pith::cuda_executor> &&
              pith::communicates_in_full<pith::nccl_communicator, pith::cuda_executor>);

/// NCCL does not serve host memory, and says so by having no such call.
struct on_host {
  using space = pith::host_space;
};
static_assert(!pith::gathers<pith::nccl_communicator, on_host> && !pith::reduces<pith::nccl_communicator, on_host>);

/// A NCCL communicator of this rank alone.
ncclComm_t of_one() {
  ncclComm_t raw = nullptr;
  int device = 0;
  REQUIRE(ncclCommInitAll(&raw, 1, &device) == ncclSuccess);
  return raw;
}

}  // namespace

TEST_CASE("NCCL ranks conform") {
  auto* const raw = of_one();
  {
    auto comm = pith::nccl_communicator(raw);
    conformance::check(pith::cuda_executor(), comm);
    CHECK_NOTHROW(comm.check());
  }
  ncclCommDestroy(raw);
}

TEST_CASE("after abort every call throws") {
  auto comm = pith::nccl_communicator(of_one());
  comm.abort();
  CHECK_THROWS_WITH_AS(comm.check(), "pith::nccl: the communicator was aborted", pith::communication_error);
  CHECK_THROWS_WITH_AS(conformance::gathers(pith::cuda_executor(), comm, 5), "pith::nccl: the communicator was aborted",
                       pith::communication_error);
}

TEST_CASE("bad arguments are refused in words") {
  auto* const raw = of_one();
  {
    auto comm = pith::nccl_communicator(raw);
    auto const none = pith::device_span<std::byte>();
    CHECK_THROWS_WITH_AS(comm.broadcast(pith::cuda_executor(), none, 1),
                         "pith::nccl: broadcast has ranks below 1, got 1", std::invalid_argument);
  }
  ncclCommDestroy(raw);
}
