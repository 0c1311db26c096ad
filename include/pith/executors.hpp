// pith/executors.hpp — the executors of the host; pith/exec/cuda_executor.hpp and thrust.hpp need their libraries.
#pragma once

#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>
