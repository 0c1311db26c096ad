#!/usr/bin/env python3
"""The C interface from another language: ctypes_test.py CXX LIBRARY HEADER

Makes a shared library of LIBRARY, libpith_runtime.a. Calls every function that HEADER, pith/runtime.h, declares with null and zero, and
then uses an exchange rightly, with wrong sizes, and at the wrong time.
"""
import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

INTERFACE, SUCCESS, INVALID = 1, 0, 1
C_TYPES = {"double": ctypes.c_double, "pith_send_recv": ctypes.c_void_p, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t}


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("rows", ctypes.c_uint64), ("columns", ctypes.c_uint64)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("seed", ctypes.c_uint64), ("bucket_bytes", ctypes.c_uint64)] + [
        (name, ctypes.c_uint32)
        for name in ("element", "gather_mode", "verification", "threads", "is_weighted", "is_recoverable")]


def shared(cxx, archive, folder):
    path = pathlib.Path(folder) / "libpith_test.so"
    subprocess.run([cxx, "-shared", "-o", path, "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive", "-pthread"],
                   check=True)
    return ctypes.CDLL(str(path))


def declared(header):
    """The functions that return a status, and their argument types; a pointer is None."""
    for name, words in re.findall(r"^int (pith_\w+)\(([^;]*)\);", header, re.M):
        arguments = [" ".join(a.split()) for a in words.split(",")]
        yield name, [None if "*" in a else C_TYPES[a.split()[0]] for a in arguments]


def declare(runtime, functions):
    runtime.pith_error.restype = ctypes.c_char_p
    runtime.pith_communicator_destroy.argtypes = runtime.pith_exchange_destroy.argtypes = [ctypes.c_void_p]
    for name, arguments in functions:
        getattr(runtime, name).argtypes = [kind or ctypes.c_void_p for kind in arguments]


class Refused:
    """Expects that calls return INVALID, with a text that contains words."""

    def __init__(self, runtime):
        self.runtime, self.calls = runtime, 0

    def __call__(self, words, name, *arguments):
        self.calls += 1
        status = getattr(self.runtime, name)(*arguments)
        error = self.runtime.pith_error().decode()
        assert status == INVALID and words in error, f"{name}: status {status}, {error!r} lacks {words!r}"


def call_with_nothing(refused, functions):
    for name, arguments in functions:
        refused(f"{name}: ", name, *(kind and kind(0) for kind in arguments))


def succeed(runtime, name, *arguments):
    status = getattr(runtime, name)(*arguments)
    assert status == SUCCESS, f"{name}: {runtime.pith_error().decode()}"


def made_exchange(runtime):
    comm, exchange = ctypes.c_void_p(), ctypes.c_void_p()
    tensors = (Tensor * 2)(Tensor(b"weight", 4, 6), Tensor(b"bias", 1, 4))
    codec = (ctypes.c_char_p * 1)(b"ef(top_k(0.25))")
    options = Options(size=ctypes.sizeof(Options), seed=3)
    succeed(runtime, "pith_communicator_make_self", INTERFACE, ctypes.byref(comm))
    succeed(runtime, "pith_exchange_make", INTERFACE, comm, tensors, 2, codec, 1, ctypes.byref(options), ctypes.byref(exchange))
    runtime.pith_communicator_destroy(comm)
    return exchange


def use(runtime, refused):
    exchange, gradients, state_bytes = made_exchange(runtime), (ctypes.c_float * 28)(*range(28)), ctypes.c_size_t()
    refused("must have 28 elements, got 27", "pith_exchange_all_reduce_mean", exchange, gradients, 27, 1)
    refused("call begin() first", "pith_exchange_wait", exchange)
    succeed(runtime, "pith_exchange_begin", exchange, gradients, 28, 1)
    refused("tensor must be below 2, got 2", "pith_exchange_ready", exchange, 2)
    refused("wait() first", "pith_exchange_state_bytes", exchange, 0, ctypes.byref(state_bytes))
    succeed(runtime, "pith_exchange_wait", exchange)
    assert list(gradients) == [0] * 18 + list(range(18, 24)) + [0, 0, 0, 27], list(gradients)
    succeed(runtime, "pith_exchange_state_bytes", exchange, 0, ctypes.byref(state_bytes))
    state = ctypes.create_string_buffer(state_bytes.value)
    refused("bytes must be", "pith_exchange_save", exchange, 0, state, state_bytes.value - 1)
    succeed(runtime, "pith_exchange_save", exchange, 0, state, state_bytes.value)
    refused("import_state", "pith_exchange_load", exchange, state, state_bytes.value - 1)
    succeed(runtime, "pith_exchange_load", exchange, state, state_bytes.value)
    runtime.pith_exchange_destroy(exchange)


def error_of_thread(runtime):
    found = []
    thread = threading.Thread(target=lambda: found.append(runtime.pith_error()))
    thread.start()
    thread.join()
    return found[0]


def main():
    cxx, archive, header = sys.argv[1:]
    functions = list(declared(pathlib.Path(header).read_text()))
    with tempfile.TemporaryDirectory() as folder:
        runtime = shared(cxx, archive, folder)
        declare(runtime, functions)
        refused = Refused(runtime)
        call_with_nothing(refused, functions)
        assert refused.calls == len(functions) >= 19, refused.calls
        assert runtime.pith_error() != b"" and error_of_thread(runtime) == b""
        use(runtime, refused)
    print(f"{len(functions)} functions, {refused.calls} wrong calls are refused")


if __name__ == "__main__":
    main()
