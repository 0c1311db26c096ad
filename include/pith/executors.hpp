// pith/executors.hpp — the host executors, but not those for CUDA and Thrust, whose headers need a library.
#pragma once

#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>
