#!/usr/bin/env python3
# tests/fuzz/coverage.py — the covered branches of functions that read untrusted bytes, over all instantiations.
#
#   llvm-cov export ... | coverage.py [--missed]
#
# A branch is a condition that is true, or that is false. --missed lists the branches that were not reached.
import collections
import json
import os
import re
import subprocess
import sys

# Functions that decode, and their callees, by name without arguments or by the name of the class.
readers = {
    "decode": r"decode\w*|unpack\w*|scatter\w*|expand\w*|dequantize\w*|thin_times_thin|spoil|check_\w+|trusted\w*|"
              r"clamp_count\w*|hash_\w+|read_header|open|require_same|unseal|inverse_\w+",
    "state": r"open_states|require_words|import_state|require_state|restore|load|loaded\w*|byte_reader|is_sound|codebook",
    "message": r"absorb\w*|receive\w*|add_up\w*|require_equal\w*|require_built|first_difference|all_see_difference|"
               r"require_success|require_count|gather_counts|collect_pairs|adopt_begins|mean_begin|regions|take_basis|"
               r"share_bases|largest_count|words",
}
STATES = "comm/|exchange/|collective/|control/|vector_quantize/|core/detail/host_bytes"  # the folders of functions that read states
kinds = {kind: re.compile(names) for kind, names in readers.items()}


def own_names(demangled):
    """The scopes of a function, without template arguments and parameters."""
    text = demangled.replace("operator<<", "operator").replace("operator()", "operator").replace("->", "")
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", "", text)) != text:
        text = shorter
    return re.split(r"::|\s", text)


def kind_of(demangled):
    names = own_names(demangled)
    return next((kind for kind, reads in kinds.items() if any(reads.fullmatch(n) for n in names)), None)


functions = json.load(sys.stdin)["data"][0]["functions"]
names = subprocess.run(["c++filt"], input="\n".join(f["name"].split(":")[-1] for f in functions), text=True,
                       capture_output=True, check=True).stdout.splitlines()
reached = {kind: collections.Counter() for kind in kinds}
for function, name in zip(functions, names):
    kind = kind_of(name)
    folder = function["filenames"][0].partition("/include/pith/")[2]
    if kind is None or not folder or (kind == "state" and not re.match(STATES, folder)):
        continue
    for line, column, _, _, true, false, *_ in function["branches"]:
        place = (function["filenames"][0], line, column)
        reached[kind][(*place, True)] += true
        reached[kind][(*place, False)] += false

for kind, branches in reached.items():
    hit = sum(count > 0 for count in branches.values())
    print(f"{kind} branches: reached {hit} of {len(branches)}, {100 * hit / max(1, len(branches)):.1f} %")
    if "--missed" in sys.argv:
        for (file, line, column, truth), count in sorted(branches.items()):
            if count == 0:
                print(f"  {os.path.relpath(file)}:{line}:{column} is never {str(truth).lower()}")
