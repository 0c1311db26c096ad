// examples/train/executors.hpp — exchanges on executors other than seq, each registered by its own source file.
#pragma once

#include "rank_exchange.hpp"

#include <pith/comm/threads.hpp>
#include <pith/exchange/codec_policy.hpp>
#include <pith/exchange/exchange_options.hpp>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace train {

/// The ranks, tensors and codec of an exchange.
struct exchange_task {
  pith::thread_communicator ranks;
  std::vector<pith::tensor_spec> tensors;
  std::string codec;
  pith::exchange_options options;
};

using exchange_maker = std::unique_ptr<rank_exchange> (*)(exchange_task const&);

/// By the executors' names. A variable, since g++ and clang++ name that of a function differently.
inline std::map<std::string, exchange_maker> exchange_makers;

/// A static object of a source that serves an executor.
struct added_executor {
  added_executor(char const* name, exchange_maker maker) { exchange_makers[name] = maker; }
};

inline std::unique_ptr<rank_exchange> exchange_on(std::string const& executor, exchange_task const& t) {
  return exchange_makers.at(executor)(t);
}

/// Throws before any training if the program lacks the executor.
inline void require_executor(std::string const& executor) {
  if (executor == "seq" || exchange_makers.contains(executor)) return;
  throw std::invalid_argument("train: this program was built without the executor " + executor +
                              ": cuda needs nvcc and NCCL");
}

}  // namespace train
