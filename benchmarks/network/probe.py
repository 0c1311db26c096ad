"""Prints the round trip and the rate of TCP between two hosts.

    python3 probe.py serve ADDRESS PORT               # on one host: serves one client
    python3 probe.py measure ADDRESS PORT SECONDS     # on the other host, after `serve`
"""

import socket
import statistics
import sys
import time

CHUNK = 1 << 16


def serve(address, port):
    with socket.create_server((address, int(port))) as listener:
        client, _ = listener.accept()
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while client.recv(1) == b"?":
            client.sendall(b"!")
        received, begun = 0, time.monotonic()
        while part := client.recv(CHUNK):
            received += len(part)
        client.sendall(f"{8 * received / (time.monotonic() - begun)}".encode())


def round_trip(server):
    begun = time.monotonic()
    server.sendall(b"?")
    server.recv(1)
    return time.monotonic() - begun


def connected(address, port):
    for _ in range(50):
        try:
            return socket.create_connection((address, port))
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit(f"probe.py: no server at {address}")


def measure(address, port, seconds):
    with connected(address, int(port)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        median = statistics.median(round_trip(server) for _ in range(20))
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            server.sendall(bytes(CHUNK))
        server.shutdown(socket.SHUT_WR)
        rate = float(server.recv(64))
    print(f"round trip {1e3 * median:.2f} ms, stream {rate / 1e6:.1f} Mbit/s")


if __name__ == "__main__":
    {"serve": serve, "measure": measure}[sys.argv[1]](*sys.argv[2:])
