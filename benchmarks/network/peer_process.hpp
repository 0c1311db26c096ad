// benchmarks/network/peer_process.hpp — another program that runs a step for each line it reads.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace network {

/// A child process that reads requests as lines of its standard input and writes one line for each. Its input
/// closes when this object is destroyed, and the child must then exit.
class peer_process {
 public:
  explicit peer_process(std::vector<std::string> const& command) {
    auto const [in, to] = make_pipe();
    auto const [from, out] = make_pipe();
    auto const child = fork();
    if (child < 0) throw std::runtime_error("cannot fork");
    if (child == 0) {
      dup2(in, STDIN_FILENO), dup2(out, STDOUT_FILENO);
      for (auto const end : {in, to, from, out}) close(end);
      execute(command);
    }
    close(in), close(out);
    to_ = fdopen(to, "w");
    from_ = fdopen(from, "r");
  }
  peer_process(peer_process const&) = delete;
  peer_process& operator=(peer_process const&) = delete;
  ~peer_process() {
    std::fclose(to_);
    std::fclose(from_);
  }

  void ask(std::string const& line) {
    std::fprintf(to_, "%s\n", line.c_str());
    std::fflush(to_);
  }
  /// Empty if it has ended.
  std::string answer() {
    auto line = std::string();
    for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) line += static_cast<char>(c);
    return line;
  }

 private:
  static std::array<int, 2> make_pipe() {
    auto ends = std::array<int, 2>();
    if (pipe(ends.data()) != 0) throw std::runtime_error("cannot make a pipe");
    return ends;
  }
  [[noreturn]] static void execute(std::vector<std::string> command) {
    auto arguments = std::vector<char*>();
    for (auto& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    std::printf("skipped: cannot run %s\n", arguments[0]);
    std::fflush(stdout);
    _exit(127);
  }

  std::FILE* to_;
  std::FILE* from_;
};

}  // namespace network
