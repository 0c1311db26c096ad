// benchmarks/network/interface.hpp — the bytes that a network interface has sent.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>

namespace network {

/// A network interface of this host by name; with an empty name the count is 0.
class interface {
 public:
  explicit interface(std::string const& name)
      : path_(name.empty() ? "" : "/sys/class/net/" + name + "/statistics/tx_bytes") {}

  double sent_bytes() const {
    if (path_.empty()) return 0;
    double bytes = 0;
    if (!(std::ifstream(path_) >> bytes)) throw std::runtime_error("cannot read " + path_);
    return bytes;
  }

 private:
  std::string path_;
};

}  // namespace network
