// tests/emulator/runtime/leaks.hpp — what was made and not destroyed; reported at the end of the process.
#pragma once

namespace emulator {

enum class object { stream, event, graph, executable_graph, communicator, count };

/// How many of a kind there are.
long& living(object kind);

}  // namespace emulator
