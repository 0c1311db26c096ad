// examples/train/report.hpp — a comparison as tables and as comma-separated values.
#pragma once

#include "comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace train {

inline constexpr double rates[] = {1, 10, 25, 100};  // Gbit/s

inline void print_task(std::FILE* out, task const& job, options const& o) {
  auto const& [train, test] = job.data;
  auto const [height, width, channels] = train.shape;
  fmt::print(out, "{} images of {} x {} x {} to train on, {} to test\n", train.size(), height, width, channels,
             test.size());
  fmt::print(out, "{} of {} parameters, {:.1f} % of them (the weights) compressed, biases dense\n", o.model,
             job.net.size(), 100 * compressed_share(job.net));
  fmt::print(out, "{} ranks x {} images, {} steps ({:.1f} epochs), learning rate {}, momentum {}, seeds {} to {}\n",
             o.ranks, o.batch, o.steps, job.epochs(o.steps), o.learning_rate, o.momentum, o.seed,
             o.seed + o.number_of_seeds() - 1);
}

/// The width of the column of codecs.
inline std::size_t codec_width(std::vector<trial> const& trials) {
  std::size_t width = 28;
  for (auto const& t : trials) width = std::max(width, t.codec.size());
  return width;
}

inline constexpr auto learning_head = "{:{}} {:>8} {:>8} {:>6} {:>8} {:>13} {:>8} {:>7} {:>9} {:>7}\n";

inline void print_learning(std::FILE* out, std::vector<trial> const& trials, double dense) {
  auto const width = codec_width(trials);
  fmt::print(out, "\n");
  fmt::print(out, learning_head, "", width, "payload", "sent", "", "loss", "accuracy", "compute", "encode", "exchange",
             "decode");
  fmt::print(out, learning_head, "codec", width, "B/step", "B/step", "ratio", "training", "test, %", "us", "us", "us",
             "us");
  for (auto const& t : trials) {
    auto const us = t.time() / 1e-6;
    fmt::print(out, "{:{}} {:8} {:8.0f} {:6.1f} {:8.4f} {:5.2f} +- {:4.2f} {:8.1f} {:7.1f} {:9.1f} {:7.1f}\n", t.codec,
               width, t.predicted.bytes.total(), t.predicted.sent(), dense / t.predicted.sent(), t.loss(),
               100 * t.accuracy(), 100 * standard_deviation(t.accuracies()), us.compute, us.encode, us.exchange,
               us.decode);
  }
}

inline void print_prediction(std::FILE* out, std::vector<trial> const& trials) {
  auto const width = codec_width(trials);
  fmt::print(out, "\n{:{}} {:>8} {:>7} {:>7} {:>35}\n", "", width, "compute", "encode", "decode",
             "us per step at this many Gbit/s");
  fmt::print(out, "{:{}} {:>8} {:>7} {:>7}", "codec", width, "us", "us", "us");
  for (auto const rate : rates) fmt::print(out, " {:>8}", rate);
  for (auto const& t : trials) {
    auto const us = t.predicted.alone / 1e-6;
    fmt::print(out, "\n{:{}} {:8.1f} {:7.1f} {:7.1f}", t.codec, width, us.compute, us.encode, us.decode);
    for (auto const rate : rates) fmt::print(out, " {:8.1f}", t.predicted.step(rate) * 1e6);
  }
  fmt::print(out, "\n");
}

/// The bytes that dense float sends.
inline double dense_bytes(task const& job) { return pith::traffic{0, job.net.size() * sizeof(float)}.sent(job.ranks); }

inline constexpr auto learning_notes =
    R"(payload: all bytes that a rank passes to its communicator. sent: the bytes that leave it, 2(N-1)/N payload for a sum,
(N-1) payload for an all-gather, (N-1)/N payload for scattered parts, payload for pairwise messages. ratio: dense
float's bytes sent over these. +-: deviation over the seeds. Times are means over the steps, by the wall clock, of {}
threads that share this machine's cores; exchange includes waiting for each other.
)";

inline constexpr auto all_notes =
    R"(Signs without a scale: a hundredth of the learning rate, no momentum. Memories with momentum: no other momentum.
Payloads of variable size are means over the steps.
)";

inline constexpr auto prediction_notes = R"(compute, encode and decode: alone on one thread, the median of 101 steps.
step: their sum + bytes sent / rate + 2(N-1) 20 us of latency, once per step; nothing overlaps.
)";

inline void print_report(std::FILE* out, task const& job, options const& o, std::vector<trial> const& trials) {
  print_task(out, job, o);
  print_learning(out, trials, dense_bytes(job));
  fmt::print(out, learning_notes, o.ranks);
  if (o.all) fmt::print(out, all_notes);
  print_prediction(out, trials);
  fmt::print(out, prediction_notes);
}

inline std::string csv_row(trial const& t, double dense) {
  auto const run = t.time() / 1e-6, alone = t.predicted.alone / 1e-6;
  auto row = fmt::format("\"{}\",{},{},{},{},{},{}", t.codec, t.predicted.bytes.total(), t.predicted.sent(),
                         dense / t.predicted.sent(), t.loss(), t.accuracy(), standard_deviation(t.accuracies()));
  for (auto const time : {run.compute, run.encode, run.exchange, run.decode, alone.compute, alone.encode, alone.decode})
    row += fmt::format(",{:.2f}", time);
  for (auto const rate : rates) row += fmt::format(",{:.2f}", t.predicted.step(rate) * 1e6);
  return row;
}

inline constexpr auto csv_head =
    "codec,payload_bytes,sent_bytes,ratio,training_loss,test_accuracy,test_accuracy_deviation,"
    "compute_us,encode_us,exchange_us,decode_us,alone_compute_us,alone_encode_us,alone_decode_us";

inline void write_csv(std::FILE* file, task const& job, std::vector<trial> const& trials) {
  fmt::print(file, csv_head);
  for (auto const rate : rates) fmt::print(file, ",step_us_at_{}_gbit", rate);
  for (auto const& t : trials) fmt::print(file, "\n{}", csv_row(t, dense_bytes(job)));
  fmt::print(file, "\n");
}

}  // namespace train
