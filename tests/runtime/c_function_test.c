// tests/runtime/c_function_test.c — the C interface over sockets of the program, with three ranks that are processes.
#include <pith/runtime.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { elements = 40, ranks = 3, broken = 7 };
static pith_tensor const tensors[] = {{"weight", 8, 4}, {"bias", 1, 8}};
static int failures = 0;
static unsigned rank = 0;

static void check(int line, int holds, char const* words) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "rank %u, line %d: %s; the last error is: %s\n", rank, line, words, pith_error());
}
#define CHECK(holds) check(__LINE__, holds, #holds)
#define CHECK_ERROR(call, status, words) \
  check(__LINE__, (call) == (status) && strstr(pith_error(), words) != NULL, #call)

/// One end of a stream to each other rank, and whether the transport fails.
typedef struct sockets {
  int to[ranks];
  int fails;
} sockets;

/// The messages are smaller than the buffer of a socket, so sending does not wait for the receiver.
static int send_recv(void* context, void const* sent, size_t sent_bytes, uint32_t to, void* received,
                     size_t received_bytes, uint32_t from) {
  sockets const* const at = context;
  CHECK(to < ranks && to != rank && from < ranks && from != rank);
  if (at->fails) return broken;
  if (write(at->to[to], sent, sent_bytes) != (ssize_t)sent_bytes) return 1;
  for (size_t done = 0; done < received_bytes;) {
    ssize_t const more = read(at->to[from], (char*)received + done, received_bytes - done);
    if (more <= 0) return 2;
    done += (size_t)more;
  }
  return 0;
}

/// Starts two processes more. Returns the sockets of this rank.
static sockets start(void) {
  int ends[ranks][ranks];
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      int pair[2];
      CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
      ends[a][b] = pair[0], ends[b][a] = pair[1];
    }
  }
  for (unsigned r = 1; r < ranks && rank == 0; ++r)
    if (fork() == 0) rank = r;
  sockets mine = {{0}, 0};
  for (unsigned other = 0; other < ranks; ++other)
    if (other != rank) mine.to[other] = ends[rank][other];
  return mine;
}

/// Rank r passes gradients of r + 1, so the means are 2. A scale per tensor is exact for equal elements.
static int step(pith_exchange* exchange, float* g) {
  for (int i = 0; i < elements; ++i) g[i] = (float)rank + 1;
  return pith_exchange_all_reduce_mean(exchange, g, elements, 1);
}

static void means_are_those_of_all_ranks(pith_communicator* comm, char const* codec) {
  float g[elements];
  pith_exchange* exchange = NULL;
  CHECK(pith_exchange_make(PITH_INTERFACE, comm, tensors, 2, &codec, 1, NULL, &exchange) == PITH_SUCCESS);
  CHECK(step(exchange, g) == PITH_SUCCESS);
  for (int i = 0; i < elements; ++i) CHECK(g[i] == 2);
  pith_exchange_destroy(exchange);
}

static void failures_are_communication_errors(pith_communicator* comm, sockets* mine) {
  char const* const codec = "identity";
  float g[elements];
  pith_exchange* exchange = NULL;
  CHECK(pith_exchange_make(PITH_INTERFACE, comm, tensors, 2, &codec, 1, NULL, &exchange) == PITH_SUCCESS);
  mine->fails = 1;
  CHECK_ERROR(step(exchange, g), PITH_COMMUNICATION_ERROR, "pith_send_recv: must return 0, got 7 when sending");
  uint32_t failed = 0;
  CHECK(pith_exchange_has_failed(exchange, &failed) == PITH_SUCCESS && failed == 1);
  pith_exchange_destroy(exchange);
}

static void arguments_are_refused(void) {
  pith_communicator* made = (pith_communicator*)&failures;
  CHECK_ERROR(pith_communicator_make_function(PITH_INTERFACE, 0, 0, send_recv, NULL, &made), PITH_INVALID_ARGUMENT,
              "ranks must be at least 1, got 0");
  CHECK(made == NULL);
  CHECK_ERROR(pith_communicator_make_function(PITH_INTERFACE, 2, 2, send_recv, NULL, &made), PITH_INVALID_ARGUMENT,
              "rank must be below 2, got 2");
  CHECK_ERROR(pith_communicator_make_function(PITH_INTERFACE, 0, 2, NULL, NULL, &made), PITH_INVALID_ARGUMENT,
              "send_recv must be a function, got null");
  CHECK_ERROR(pith_communicator_make_function(PITH_INTERFACE, 0, 2, send_recv, NULL, NULL), PITH_INVALID_ARGUMENT,
              "made must be a valid pointer, got null");
  CHECK_ERROR(pith_communicator_make_function(0, 0, 2, send_recv, NULL, &made), PITH_INVALID_ARGUMENT,
              "interface_version must be 1, got 0");
}

int main(void) {
  arguments_are_refused();
  sockets mine = start();
  pith_communicator* comm = NULL;
  CHECK(pith_communicator_make_function(PITH_INTERFACE, rank, ranks, send_recv, &mine, &comm) == PITH_SUCCESS);
  means_are_those_of_all_ranks(comm, "identity");
  means_are_those_of_all_ranks(comm, "scaled_sign");
  means_are_those_of_all_ranks(comm, "two_shot(scaled_sign)");
  means_are_those_of_all_ranks(comm, "ring(scaled_sign)");
  failures_are_communication_errors(comm, &mine);
  pith_communicator_destroy(comm);
  if (rank > 0) return failures == 0 ? 0 : 1;
  for (int r = 1; r < ranks; ++r) {
    int status = 1;
    CHECK(wait(&status) > 0 && status == 0);
  }
  return failures == 0 ? 0 : 1;
}
