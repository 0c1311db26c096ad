# benchmarks/gate.sh — compares counts with a committed table. Sourced by instructions.sh and build_cost/counts.sh.
#
# A table begins with a comment about its counts, then "# with COMPILER". Each line is a count and its name.

skip() {
  echo "skipped: $*"
  exit 77
}

# measured_as "# ..." COMPILER : a table of the counts on standard input.
measured_as() {
  printf '%s\n# with %s\n' "$1" "$2"
  cat
}

# Counts of different compilers are not compared: skips if the table is of another compiler, or is missing.
require_compiler() {
  [[ -f $1 ]] || skip "no table with $2"
  grep -qx "# with $2" "$1" || skip "$(grep '^# with' "$1" | cut -c3-), but this is $2"
}

# compare TABLE MOST : fails if a count on standard input is above MOST times the table's, or if names differ.
compare() {
  awk -v most="$2" -v table="$1" '
    /^#/ { next }
    { count = $1; what = $2; for (i = 3; i <= NF; ++i) what = what " " $i }
    FILENAME == table { known[what] = count; next }
    !(what in known) { printf "%12s  not in the table: %s\n", count, what; bad = 1; next }
    {
      verdict = count > most * known[what] ? "  TOO MANY" : ""
      if (verdict) bad = 1
      printf "%12s  %5.1f %% of %-10s %s%s\n", count, 100 * count / known[what], known[what], what, verdict
      delete known[what]
    }
    END {
      for (what in known) { printf "not counted: %s\n", what; bad = 1 }
      exit bad
    }' "$1" -
}
