// pith/executors.hpp — the host executors; those of exec/cuda_executor.hpp and exec/thrust.hpp need a library.
#pragma once

#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>
