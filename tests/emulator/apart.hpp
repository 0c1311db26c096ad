// tests/emulator/apart.hpp — runs a function in a process of its own, for what it prints and how it ends.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>

namespace apart {

struct outcome {
  std::string text;  // what the process printed to stderr
  int status = 0;    // as waitpid gives it

  bool says(std::string const& pattern) const { return std::regex_search(text, std::regex(pattern)); }
  bool is_clean() const { return text.empty() && WIFEXITED(status) && WEXITSTATUS(status) == 0; }
};

/// What an open file has left.
inline std::string read_all(int file) {
  std::string text;
  char part[4096];
  for (auto n = read(file, part, sizeof part); n > 0; n = read(file, part, sizeof part))
    text.append(part, static_cast<std::size_t>(n));
  close(file);
  return text;
}

/// The function's result is the process's exit status; static objects are destroyed after it.
template <class F>
outcome run(F const& f) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  auto const child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    for (auto const s : {SIGABRT, SIGSEGV}) std::signal(s, SIG_DFL);  // not the test framework's
    close(ends[0]), close(ends[1]);
    std::exit(f());
  }
  close(ends[1]);
  outcome made;
  made.text = read_all(ends[0]);
  waitpid(child, &made.status, 0);
  return made;
}

}  // namespace apart
