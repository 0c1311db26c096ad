// tests/runtime/c_mpi_test.c — the C interface over MPI, with three ranks: means, and errors that ranks share.
#include <pith/runtime_mpi.h>

#include <stdio.h>
#include <string.h>

enum { elements = 40 };
static pith_tensor const tensors[] = {{"weight", 8, 4}, {"bias", 1, 8}};
static char const* const codecs[] = {"ef(top_k(0.5))", "identity"};
static char const* const others[] = {"ef(top_k(0.25))", "identity"};
static char const* const unknown[] = {"identity", "topk(0.1)"};
static int failures = 0;
static int rank = 0;

static void check(int line, int holds, char const* words) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "rank %d, line %d: %s; the last error is: %s\n", rank, line, words, pith_error());
}
#define CHECK(holds) check(__LINE__, holds, #holds)
#define CHECK_ERROR(call, status, words) \
  check(__LINE__, (call) == (status) && strstr(pith_error(), words) != NULL, #call)

static pith_communicator* make_communicator(double timeout) {
  pith_communicator* made = NULL;
  CHECK(pith_communicator_make_mpi(PITH_MPI_INTERFACE, MPI_COMM_WORLD, timeout, &made) == PITH_SUCCESS);
  return made;
}

static int make(pith_communicator* comm, char const* const* texts, pith_exchange** made) {
  pith_exchange_options options = {0};
  options.size = sizeof options;
  options.is_weighted = 1;
  return pith_exchange_make(PITH_INTERFACE, comm, tensors, 2, texts, 2, &options, made);
}

/// Swaps of pairs, whose sums have the order of ranks.
static void pairs_have_the_same_means(void) {
  pith_communicator* comm = NULL;
  pith_exchange* exchange = NULL;
  CHECK(pith_communicator_make_mpi_pairwise(PITH_MPI_INTERFACE, MPI_COMM_WORLD, 60, &comm) == PITH_SUCCESS);
  CHECK(make(comm, codecs, &exchange) == PITH_SUCCESS);
  float g[elements];
  for (int i = 0; i < elements; ++i) g[i] = (float)rank + 1;
  CHECK(pith_exchange_all_reduce_mean(exchange, g, elements, 1) == PITH_SUCCESS);
  CHECK(g[elements - 1] == 2);
  pith_exchange_destroy(exchange);
  pith_communicator_destroy(comm);
}

static void communicators_are_refused(void) {
  pith_communicator* made = (pith_communicator*)&failures;
  CHECK_ERROR(pith_communicator_make_mpi(PITH_MPI_INTERFACE, MPI_COMM_NULL, 60, &made), PITH_INVALID_ARGUMENT,
              "got MPI_COMM_NULL");
  CHECK(made == NULL);
  CHECK_ERROR(pith_communicator_make_mpi(PITH_MPI_INTERFACE, MPI_COMM_WORLD, 0, &made), PITH_INVALID_ARGUMENT,
              "timeout must be above 0 s, got 0 s");
  CHECK_ERROR(pith_communicator_make_mpi(PITH_MPI_INTERFACE, MPI_COMM_WORLD, 60, NULL), PITH_INVALID_ARGUMENT,
              "made must be a valid pointer, got null");
  CHECK_ERROR(pith_communicator_make_mpi(PITH_INTERFACE * 256u + 4u, MPI_COMM_WORLD, 60, &made), PITH_INVALID_ARGUMENT,
              "interface_version must be ");
  CHECK_ERROR(pith_communicator_make_mpi_pairwise(PITH_MPI_INTERFACE, MPI_COMM_WORLD, 0, &made), PITH_INVALID_ARGUMENT,
              "timeout must be above 0 s, got 0 s");
}

/// Rank r passes the weight r and gradients of r + 1, so the means are (1 * 2 + 2 * 3) / 3.
static void means_are_weighted(pith_exchange* exchange) {
  float g[elements];
  for (int i = 0; i < elements; ++i) g[i] = (float)rank + 1;
  CHECK(pith_exchange_all_reduce_mean(exchange, g, elements, rank) == PITH_SUCCESS);
  CHECK(g[elements - 1] > 2.666f && g[elements - 1] < 2.667f);
}

/// The text of one rank is refused there; the other ranks return at once.
static void errors_are_shared(pith_communicator* comm) {
  pith_exchange* exchange = NULL;
  if (rank == 1) {
    CHECK_ERROR(make(comm, unknown, &exchange), PITH_INVALID_ARGUMENT, "topk");
  } else {
    CHECK_ERROR(make(comm, codecs, &exchange), PITH_AGREEMENT_ERROR, "rank 1");
  }
  CHECK_ERROR(make(comm, rank == 2 ? others : codecs, &exchange), PITH_AGREEMENT_ERROR, "rank 2 differs from rank 0");
  pith_exchange_options options = {0};
  options.size = sizeof options;
  options.element = rank == 0 ? 2 : PITH_FLOAT;
  int const status = pith_exchange_make(PITH_INTERFACE, comm, tensors, 2, codecs, 2, &options, &exchange);
  CHECK(status == (rank == 0 ? PITH_INVALID_ARGUMENT : PITH_AGREEMENT_ERROR));
  options.element = PITH_FLOAT;
  options.size = rank == 0 ? 0 : sizeof options;
  int const sized = pith_exchange_make(PITH_INTERFACE, comm, tensors, 2, codecs, 2, &options, &exchange);
  CHECK(sized == (rank == 0 ? PITH_INVALID_ARGUMENT : PITH_AGREEMENT_ERROR));
  CHECK(exchange == NULL);

  CHECK(make(comm, codecs, &exchange) == PITH_SUCCESS);
  if (rank == 1) {
    CHECK_ERROR(pith_exchange_change_codecs(exchange, unknown, 2), PITH_INVALID_ARGUMENT, "topk");
  } else {
    CHECK_ERROR(pith_exchange_change_codecs(exchange, codecs, 2), PITH_AGREEMENT_ERROR, "rank 1");
  }
  char state[1024];
  size_t bytes = 0;
  CHECK(pith_exchange_state_bytes(exchange, 0, &bytes) == PITH_SUCCESS && bytes <= sizeof state);
  CHECK(pith_exchange_save(exchange, 0, state, bytes) == PITH_SUCCESS);
  if (rank == 1) {
    CHECK_ERROR(pith_exchange_load_with_codecs(exchange, state, bytes, unknown, 2), PITH_INVALID_ARGUMENT, "topk");
  } else {
    CHECK_ERROR(pith_exchange_load_with_codecs(exchange, state, bytes, codecs, 2), PITH_AGREEMENT_ERROR, "rank 1");
  }
  void const* const saved = rank == 2 ? NULL : state;
  CHECK(pith_exchange_load_with_codecs(exchange, saved, bytes, codecs, 2) ==
        (rank == 2 ? PITH_INVALID_ARGUMENT : PITH_AGREEMENT_ERROR));
  CHECK(pith_exchange_load_with_codecs(exchange, state, bytes, codecs, 2) == PITH_SUCCESS);
  CHECK(pith_exchange_change_codecs(exchange, others, 2) == PITH_SUCCESS);
  means_are_weighted(exchange);
  pith_exchange_destroy(exchange);
}

/// Rank 2 makes no step. The exchange of the other ranks then stays failed.
static void lost_ranks_are_found(void) {
  static float g[elements];  // outlives the calls of MPI that do not end
  pith_communicator* const comm = make_communicator(3);
  pith_exchange* exchange = NULL;
  CHECK(make(comm, codecs, &exchange) == PITH_SUCCESS);
  if (rank < 2) {
    CHECK_ERROR(pith_exchange_all_reduce_mean(exchange, g, elements, 1), PITH_COMMUNICATION_ERROR,
                "did not end within 3 s");
    uint32_t failed = 0;
    CHECK(pith_exchange_has_failed(exchange, &failed) == PITH_SUCCESS && failed == 1);
    CHECK_ERROR(pith_exchange_begin(exchange, g, elements, 1), PITH_INVALID_ARGUMENT, "import_state");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  pith_communicator_destroy(comm);
  pith_exchange_destroy(exchange);
}

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  communicators_are_refused();
  pith_communicator* const comm = make_communicator(PITH_DEFAULT_TIMEOUT_SECONDS);
  errors_are_shared(comm);
  pairs_have_the_same_means();
  lost_ranks_are_found();
  pith_communicator_destroy(comm);
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
