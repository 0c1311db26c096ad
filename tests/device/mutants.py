#!/usr/bin/env python3
# tests/device/mutants.py — whether a test notices each of these one-line faults in device code.
#
#   mutants.py --runtime DIR --main OBJECT [--nvcc NVCC] [--include DIR]... [NAME]...   the mutants that are named, or all
#   mutants.py --list                                                                   their names
#   mutants.py --check                                                                  whether each has its place in the code
#
# Each is made in a copy of include/, compiled for the emulator in DIR (where libcudart.so lies) and run with races of all
# memory looked for. It is noticed where the program fails. The program must pass as it is.
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
team, then = "exec/detail/cuda_team.cuh", "core/detail/last_block.hpp"
barrier = "__syncthreads();"


class mutant:
    """After the text `after` in a file of include/pith, the text `old` becomes `new`. A program of tests/device/ runs."""

    def __init__(self, name, file, after, old, new="", program="team", order="0"):
        self.name, self.file, self.after, self.old, self.new = name, file, after, old, new
        self.program, self.order = program, order

    def made(self, include):
        """The file and its text with the fault."""
        path = include / "pith" / self.file
        text = path.read_text()
        begin = text.find(self.after)
        at = text.find(self.old, begin) if begin >= 0 else -1
        if at < 0:
            sys.exit(f"mutants.py: {self.name}: {self.file} has no {self.old!r} after {self.after!r}")
        return path, text[:at] + self.new + text[at + len(self.old):]

    def make(self, include):
        path, text = self.made(include)
        path.write_text(text)


mutants = [
    # Barriers.
    mutant("for_each/barrier", team, "void for_each(", barrier),
    mutant("for_each_run/barrier", team, "void for_each_run(", barrier),
    mutant("merge_rows/barrier", team, "void merge_rows(", barrier),
    mutant("compact/barrier", team, "std::uint32_t compact(", barrier),
    mutant("filter_magnitude/barrier", team, "std::uint32_t filter_magnitude(", barrier),
    mutant("filter_to_slots/barrier_before", team, "place = claim(warps.all);", barrier),
    mutant("filter_to_slots/barrier_after", team, "places.emit(reach", barrier),
    mutant("is_last/barrier_before", team, "bool is_last(", barrier),
    mutant("is_last/barrier_after", team, "last = arrives_last(", barrier),
    mutant("sums_of_warps/barrier_before", team, "static sums sums_of_warps(", barrier),
    mutant("sums_of_warps/barrier_after", team, "found.all += of_warp[w];", barrier),
    # Fences, and the word that counts blocks.
    mutant("arrives_last/fence_before", team, "bool arrives_last(", "__threadfence();"),
    mutant("arrives_last/fence_after", team, "auto const last = atomicAdd(", "__threadfence();"),
    mutant("arrives_last/reset", team, "bool arrives_last(", "if (last) *arrived = 0;"),
    mutant("arrives_last/count", team, "bool arrives_last(", "+ 1 == all", "== all"),
    # Lanes, warps and places.
    mutant("merge_rows/lane", team, "void merge_rows(", "if (lane == 0)", "if (lane == 1)"),
    mutant("merge_rows/half", team, "void merge_rows(", "auto half = 16u", "auto half = 8u"),
    mutant("compact/lower_lanes", team, "std::uint32_t compact(", "(1u << lane) - 1", "(2u << lane) - 1"),
    mutant("compact/round", team, "std::uint32_t compact(", "kept += warps.all;"),
    mutant("filter_magnitude/round", team, "std::uint32_t filter_magnitude(", "kept += warps.all;"),
    mutant("filter_magnitude/place", team, "std::uint32_t filter_magnitude(", "__ffs(reach)) - 1", "__ffs(reach))"),
    mutant("reaching_rows/end", team, "static std::uint32_t reaching_rows(", "well && i + all - row + width <= n", "well"),
    mutant("row_places/rows", team, "explicit row_places(", "(through << 16)", "through"),
    mutant("row_places/next", team, "void emit(std::uint32_t reach,", "next += std::uint64_t{1} << 16 * row;"),
    mutant("sums_of_warps/before", team, "static sums sums_of_warps(", "w < warp", "w <= warp"),
    mutant("poll/end", team, "static ballot poll(", "i < n && "),
    # Alignment, and what is left of a group.
    mutant("is_vector_aligned/alignment", "core/detail/runs.hpp", "bool is_vector_aligned(", "% best_alignment(octet * sizeof(T)) == 0",
           "% sizeof(T) == 0"),
    mutant("reaching/left", team, "static std::uint32_t reaching(", "well && left >= octet", "well"),
    mutant("for_each_run/whole", team, "void for_each_run(", "(n / (32 * octet)) * 32", "(n / (32 * octet) + 1) * 32"),
    mutant("warp_octet/half", "exec/detail/warp_octet.cuh", "void write_in_pairs(", "odd ? half[0] : half[1]",
           "odd ? half[1] : half[0]"),
    # Selections.
    mutant("choose/equals", "sparsify/detail/choose.hpp", "choice choose(", "place == equals", "place + 1 == equals",
           program="ties"),
    mutant("emit_kept/equals", "sparsify/detail/radix_select.hpp", "struct emit_kept", "equals -= kept.equal;",
           program="ties"),
    mutant("count_digits/bins", "sparsify/detail/radix_select.hpp", "struct count_digits", "bins[i] = 0;", ";",
           program="ties"),
    mutant("order_candidates/room", "sparsify/detail/candidates.hpp", "struct order_candidates",
           " || state->found > of.room", program="ties"),
    mutant("order_candidates/moved", "sparsify/detail/candidates.hpp", "struct order_candidates", "*moved = 1", "*moved = 0",
           program="ties", order="1"),
]


def run(arguments, folder, one):
    """Whether a mutant's program passes, and the first line that says why not."""
    include = folder / "include"
    shutil.rmtree(include, ignore_errors=True)
    shutil.copytree(root / "include", include)
    one.make(include)
    return compile_and_run(arguments, include, one.program, folder / one.program, one.order)


def compile_and_run(arguments, include, program, out, order="0"):
    folders = [f"-I{path}" for path in [include, root / "tests", *arguments.include]]
    build = [arguments.nvcc, "-std=c++20", "-O0", "-DPITH_NO_ISA_DISPATCH", *folders, "--no-compress",
             "-gencode", "arch=compute_90,code=compute_90", "-cudart", "none", "-o", out,
             root / "tests/device" / f"{program}.cu", arguments.main, f"-L{arguments.runtime}", "-lcudart"]
    built = subprocess.run(build, capture_output=True, text=True)
    if built.returncode:
        sys.exit(f"mutants.py: {program} does not compile:\n{built.stderr}")
    variables = {**os.environ, "LD_LIBRARY_PATH": arguments.runtime, "PITH_EMULATOR_RACES": "2",
                 "PITH_EMULATOR_ORDER": order}
    try:
        ran = subprocess.run([out], env=variables, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return False, "does not end"
    reports = [line for line in ran.stderr.splitlines() + ran.stdout.splitlines() if "emulator:" in line or "ERROR:" in line]
    return ran.returncode == 0, reports[0].strip()[:150] if reports else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--runtime")
    parser.add_argument("--main")
    parser.add_argument("--include", action="append", default=[])
    arguments = parser.parse_args()
    if arguments.list:
        return print("\n".join(one.name for one in mutants))
    if arguments.check:
        return print(sum(one.made(root / "include") is not None for one in mutants), "faults have their places")
    chosen = [one for one in mutants if not arguments.names or one.name in arguments.names]
    unnoticed = []
    with tempfile.TemporaryDirectory() as made:
        for program in sorted({one.program for one in chosen}):
            passes, why = compile_and_run(arguments, root / "include", program, pathlib.Path(made) / program)
            if not passes:
                sys.exit(f"mutants.py: {program} fails without a fault: {why}")
        for one in chosen:
            passes, why = run(arguments, pathlib.Path(made), one)
            print(f"{one.name}: {'NOT NOTICED' if passes else 'noticed'} {why}", flush=True)
            unnoticed += [one.name] if passes else []
    if unnoticed or not chosen:
        sys.exit(f"mutants.py: {len(chosen)} faults, not noticed: {', '.join(unnoticed)}")


main()
