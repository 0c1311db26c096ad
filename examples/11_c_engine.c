// examples/11_c_engine.c — a training engine in C: overlap with backward, a checkpoint, and then fewer ranks.
//
//   mpirun -n 4 ./11_c_engine
//   4 ranks, step   0: loss 0.043437019
//   4 ranks, step 100: loss 0.00124303356
//   4 ranks, step 200: loss 0.000776868837
//   3 ranks, step   0: loss 0.000644984888
//   3 ranks, step 100: loss 0.00057279336
//   3 ranks, step 200: loss 0.00051507022
//
// Each rank has a part of the 240 points (x, y), and learns x y.
#include <pith/runtime_mpi.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { points = 240, units = 16, steps = 300 };

/// The parameters, or their gradients: tensors of floats, one after another, in the order of forward.
typedef struct model {
  float w1[units][2], b1[units], w2[units], b2[1];
} model;
enum { w1, b1, w2, b2, tensor_count };
static pith_tensor const tensors[] = {{"w1", units, 2}, {"b1", 1, units}, {"w2", 1, units}, {"b2", 1, 1}};
static char const* const codecs[] = {"ef(top_k(0.25)|qsgd<8>)", "cast<bfloat16>", "ef(top_k(0.25)|qsgd<8>)",
                                     "cast<bfloat16>"};

/// The forward pass: the units' values u / (1 + |u|), and the errors.
typedef struct activations {
  float unit[points][units], error[points];
} activations;

static float coordinate(int i, int axis) { return (float)(i * (axis == 0 ? 37 : 101) % points) / points - 0.5f; }

static void check(int status) {
  if (status == PITH_SUCCESS) return;
  fprintf(stderr, "%s\n", pith_error());
  MPI_Abort(MPI_COMM_WORLD, status);
}

/// Returns the loss over all points.
static float forward(model const* p, activations* a) {
  float loss = 0;
  for (int i = 0; i < points; ++i) {
    float y = p->b2[0];
    for (int k = 0; k < units; ++k) {
      float const u = p->w1[k][0] * coordinate(i, 0) + p->w1[k][1] * coordinate(i, 1) + p->b1[k];
      a->unit[i][k] = u / (1 + fabsf(u));
      y += p->w2[k] * a->unit[i][k];
    }
    a->error[i] = y - coordinate(i, 0) * coordinate(i, 1);
    loss += a->error[i] * a->error[i];
  }
  return loss / points;
}

/// Writes the gradients of this rank's points, last layer first. The exchange sends a layer during the next layer.
static void backward(pith_exchange* exchange, model const* p, activations const* a, model* g, int rank, int ranks) {
  memset(g, 0, sizeof *g);
  float const scale = 2.0f * (float)ranks / points;
  for (int i = rank; i < points; i += ranks) {
    g->b2[0] += scale * a->error[i];
    for (int k = 0; k < units; ++k) g->w2[k] += scale * a->error[i] * a->unit[i][k];
  }
  check(pith_exchange_ready(exchange, b2));
  check(pith_exchange_ready(exchange, w2));
  for (int i = rank; i < points; i += ranks) {
    for (int k = 0; k < units; ++k) {
      float const slope = 1 - fabsf(a->unit[i][k]);
      float const d = scale * a->error[i] * p->w2[k] * slope * slope;
      g->b1[k] += d;
      for (int axis = 0; axis < 2; ++axis) g->w1[k][axis] += d * coordinate(i, axis);
    }
  }
  check(pith_exchange_ready(exchange, b1));
  check(pith_exchange_ready(exchange, w1));
}

static void name_file(char name[32], int rank) { snprintf(name, 32, "11_c_engine_of_rank_%d", rank); }

static FILE* open_file(int rank, char const* mode) {
  char name[32];
  name_file(name, rank);
  FILE* const file = fopen(name, mode);
  if (file == NULL) {
    perror(name);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return file;
}

static void save(pith_exchange* exchange, int rank) {
  size_t bytes = 0;
  check(pith_exchange_state_bytes(exchange, 0, &bytes));
  void* const state = malloc(bytes);
  check(pith_exchange_save(exchange, 0, state, bytes));
  FILE* const file = open_file(rank, "wb");
  fwrite(state, 1, bytes, file);
  fclose(file);
  free(state);
}

/// Loads the states that `ranks` ranks saved.
static void load(pith_exchange* exchange, int ranks) {
  void const** const states = calloc((size_t)ranks, sizeof *states);
  size_t* const bytes = calloc((size_t)ranks, sizeof *bytes);
  for (int rank = 0; rank < ranks; ++rank) {
    FILE* const file = open_file(rank, "rb");
    fseek(file, 0, SEEK_END);
    bytes[rank] = (size_t)ftell(file);
    rewind(file);
    void* const state = malloc(bytes[rank]);
    bytes[rank] = fread(state, 1, bytes[rank], file);
    fclose(file);
    states[rank] = state;
  }
  check(pith_exchange_load_resharded(exchange, states, bytes, (size_t)ranks));
  for (int rank = 0; rank < ranks; ++rank) free((void*)states[rank]);
  free(states);
  free(bytes);
}

static pith_exchange* make_exchange(MPI_Comm comm) {
  pith_exchange_options options = {0};
  options.size = sizeof options;
  options.bucket_bytes = 100;  // two buckets of this small model
  pith_communicator* communicator = NULL;
  pith_exchange* exchange = NULL;
  check(pith_communicator_make_mpi(PITH_MPI_INTERFACE, comm, PITH_DEFAULT_TIMEOUT_SECONDS, &communicator));
  check(pith_exchange_make(PITH_INTERFACE, communicator, tensors, tensor_count, codecs, tensor_count, &options,
                           &exchange));
  pith_communicator_destroy(communicator);  // the exchange keeps it
  return exchange;
}

/// Returns the loss before the step.
static float train_step(pith_exchange* exchange, model* p, int rank, int ranks) {
  static activations a;
  static model g;
  float const loss = forward(p, &a);
  check(pith_exchange_begin(exchange, &g, sizeof g / sizeof(float), 1));
  backward(exchange, p, &a, &g, rank, ranks);
  check(pith_exchange_wait(exchange));
  for (size_t i = 0; i < sizeof g / sizeof(float); ++i) ((float*)p)[i] -= 0.5f * ((float*)&g)[i];
  return loss;
}

/// Trains on the ranks of `comm`. If `saved_ranks` is not 0, continues the job of so many ranks.
static void train(MPI_Comm comm, model* p, int saved_ranks) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  pith_exchange* const exchange = make_exchange(comm);
  if (saved_ranks > 0) load(exchange, saved_ranks);
  for (int step = 0; step < steps; ++step) {
    float const loss = train_step(exchange, p, rank, ranks);
    if (rank == 0 && step % 100 == 0) printf("%d ranks, step %3d: loss %.9g\n", ranks, step, loss);
  }
  save(exchange, rank);
  pith_exchange_destroy(exchange);
}

static void initialize(model* p) {
  for (int k = 0; k < units; ++k) {
    p->w1[k][0] = (float)(k % 4) - 1.5f;
    p->w1[k][1] = (float)(k / 4) - 1.5f;
    p->w2[k] = (float)(k * 5 % units) / units - 0.5f;
  }
}

/// Trains on all ranks, and then on all ranks but the last.
static void train_twice(void) {
  static model p;
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  initialize(&p);
  train(MPI_COMM_WORLD, &p, 0);

  MPI_Barrier(MPI_COMM_WORLD);  // all files are complete
  MPI_Comm fewer;
  MPI_Comm_split(MPI_COMM_WORLD, rank < ranks - 1 ? 0 : MPI_UNDEFINED, rank, &fewer);
  if (fewer == MPI_COMM_NULL) return;
  train(fewer, &p, ranks);
  MPI_Comm_free(&fewer);
}

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);  // pith_exchange_ready starts a thread
  if (provided < MPI_THREAD_SERIALIZED) MPI_Abort(MPI_COMM_WORLD, 1);
  train_twice();
  MPI_Finalize();
}
