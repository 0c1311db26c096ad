// examples/train/progress.hpp — shows the progress of several trainings.
#pragma once

#include <fmt/format.h>

#include <unistd.h>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

namespace train {

/// On a terminal one line that changes, else one line per training.
class progress {
 public:
  progress(std::FILE* out, std::size_t runs) : out_(out), runs_(runs), is_terminal_(isatty(fileno(out)) != 0) {}

  ~progress() {
    if (is_terminal_) fmt::print(out_, "\r\033[K");
  }

  void begin(std::string name) {
    ++run_;
    name_ = std::move(name);
  }

  void at(double share) const {
    if (!is_terminal_) return;
    fmt::print(out_, "\r[{}/{}] {}: {:.0f} %\033[K", run_, runs_, name_, 100 * share);
    std::fflush(out_);
  }

  void end(double accuracy) const {
    if (!is_terminal_) fmt::print(out_, "[{}/{}] {}: {:.2f} % right\n", run_, runs_, name_, 100 * accuracy);
    std::fflush(out_);
  }

 private:
  std::FILE* out_;
  std::size_t runs_, run_ = 0;
  std::string name_;
  bool is_terminal_;
};

}  // namespace train
