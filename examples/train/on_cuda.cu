// examples/train/on_cuda.cu — a rank with a device, which exchanges its gradients by NCCL.
#include "executors.hpp"
#include "few_codecs.hpp"

#include <pith/comm/nccl.hpp>
#include <pith/core/buffer.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/seq.hpp>

#include <stdexcept>
#include <string>
#include <type_traits>

namespace train {

namespace {

/// Rank r uses device r, which becomes the current device of its thread.
void take_device(pith::thread_communicator const& ranks) {
  int devices = 0;
  pith::check_cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (static_cast<unsigned>(devices) < ranks.size())
    throw std::invalid_argument("train: " + std::to_string(ranks.size()) +
                                " ranks on cuda need as many devices, found " + std::to_string(devices));
  pith::check_cuda(cudaSetDevice(static_cast<int>(ranks.rank())), "cudaSetDevice");
}

struct destroy_communicator {
  void operator()(ncclComm_t comm) const { ncclCommDestroy(comm); }
};
using nccl_owner = std::unique_ptr<std::remove_pointer_t<ncclComm_t>, destroy_communicator>;

/// The first rank makes the id of the communicator.
nccl_owner join(pith::thread_communicator ranks) {
  take_device(ranks);
  auto id = ncclUniqueId();
  if (ranks.rank() == 0) ncclGetUniqueId(&id);
  ranks.broadcast(pith::seq, pith::span<std::byte>(reinterpret_cast<std::byte*>(&id), sizeof id), 0);
  ncclComm_t comm = nullptr;
  auto const code = ncclCommInitRank(&comm, static_cast<int>(ranks.size()), id, static_cast<int>(ranks.rank()));
  if (code != ncclSuccess) throw pith::communication_error(std::string("train: NCCL: ") + ncclGetErrorString(code));
  return nccl_owner(comm);
}

class cuda_exchange : public rank_exchange {
 public:
  explicit cuda_exchange(exchange_task const& t)
      : raw_(join(t.ranks)),
        comm_(raw_.get()),
        exchange_(exec_, comm_, t.tensors, pith::matrices(few_codec<pith::cuda_executor>(t.codec)), t.options),
        gradient_(exec_, exchange_.size()) {}
  ~cuda_exchange() override {
    if (comm_.is_aborted()) static_cast<void>(raw_.release());  // an abort has destroyed it
  }

  /// Transfers overlap with the stream, so they have no separate time.
  phases all_reduce_mean(std::vector<float>& gradient) override {
    stopwatch watch;
    exec_.upload(gradient_.data(), gradient.data(), gradient_.size_bytes());
    exchange_.all_reduce_mean(gradient_.view());
    exec_.download(gradient.data(), gradient_.data(), gradient_.size_bytes());
    return {0, 0, watch.lap(), 0};
  }
  pith::traffic bytes() const override { return exchange_.traffic(); }

 private:
  nccl_owner raw_;
  pith::cuda_executor exec_;
  pith::nccl_communicator comm_;
  pith::gradient_exchange<float, pith::cuda_executor, pith::nccl_communicator> exchange_;
  pith::buffer<float, pith::cuda_executor> gradient_;
};

added_executor const cuda("cuda", [](exchange_task const& t) -> std::unique_ptr<rank_exchange> {
  return std::make_unique<cuda_exchange>(t);
});

}  // namespace

}  // namespace train
