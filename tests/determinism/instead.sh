#!/bin/sh
# tests/determinism/instead.sh — a compiler launcher that runs another compiler.
#
#   instead.sh COMPILER PROJECTS_COMPILER ARGUMENT...
compiler=$1
shift 2
exec "$compiler" "$@"
