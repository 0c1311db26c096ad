// checkpoint.hpp — saves a training, and continues it with the same or another number of ranks.
#pragma once

#include "averaging.hpp"
#include "dataset.hpp"
#include "descent.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace pith_libtorch {

/// The parts of a training that change from step to step.
struct training_state {
  network& model;
  dataset& data;
  descent& updates;
  averaging& gradients;
};

/// A folder with the file `training` of rank 0, and the state of the exchange of each rank.
///
///   requires    all ranks call save and load, after the same step
class checkpoint {
 public:
  checkpoint(std::filesystem::path folder, place at) : folder_(std::move(folder)), at_(at) {}

  /// The folder exists as soon as it is complete. A folder of an earlier run is replaced.
  void save(training_state const& of, std::int64_t next_step) const {
    auto const unfinished = std::filesystem::path(folder_.string() + ".unfinished");
    std::filesystem::create_directories(unfinished);
    write(exchange_file(unfinished, at_.rank), of.gradients.export_state());
    if (at_.rank == 0) save_training(of, next_step, unfinished / "training");
    MPI_Barrier(MPI_COMM_WORLD);
    if (at_.rank != 0) return;
    std::filesystem::remove_all(folder_);
    std::filesystem::rename(unfinished, folder_);
  }

  /// Returns the next step.
  std::int64_t load(training_state const& of) const {
    torch::serialize::InputArchive archive;
    archive.load_from((folder_ / "training").string());
    load_training(of, archive);
    auto states = std::vector<std::vector<std::byte>>();
    for (int rank = 0; rank < number(archive, "ranks"); ++rank) states.push_back(read(exchange_file(folder_, rank)));
    of.gradients.import_states(states);
    return number(archive, "step");
  }

 private:
  static std::filesystem::path exchange_file(std::filesystem::path const& folder, int rank) {
    return folder / fmt::format("exchange_of_rank_{}", rank);
  }
  static void write(std::filesystem::path const& path, std::vector<std::byte> const& bytes) {
    auto file = std::ofstream(path, std::ios::binary);
    file.write(reinterpret_cast<char const*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) throw std::runtime_error(fmt::format("checkpoint: cannot write {}", path.string()));
  }
  static std::vector<std::byte> read(std::filesystem::path const& path) {
    auto bytes = std::vector<std::byte>(std::filesystem::file_size(path));
    auto file = std::ifstream(path, std::ios::binary);
    if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
      throw std::runtime_error(fmt::format("checkpoint: cannot read {}", path.string()));
    return bytes;
  }
  static std::int64_t number(torch::serialize::InputArchive& archive, std::string const& name) {
    auto value = c10::IValue();
    archive.read(name, value);
    return value.toInt();
  }

  static torch::Tensor tensor(torch::serialize::InputArchive& archive, std::string const& name) {
    auto value = torch::Tensor();
    archive.read(name, value);
    return value;
  }

  template <class T>
  static torch::serialize::OutputArchive saved(T const& of) {
    auto archive = torch::serialize::OutputArchive();
    of.save(archive);
    return archive;
  }
  void save_training(training_state const& of, std::int64_t next_step, std::filesystem::path const& path) const {
    auto all = torch::serialize::OutputArchive(), model = saved(of.model), optimizer = saved(of.updates.optimizer());
    all.write("model", model);
    all.write("optimizer", optimizer);
    for (auto& [split, draws] : of.data.draws()) all.write("draws of " + split, draws.get_state());
    for (std::size_t i = 0; i < of.updates.floats().size(); ++i)
      all.write(fmt::format("parameter {}", i), of.updates.floats()[i].detach());
    all.write("step", next_step);
    all.write("ranks", static_cast<std::int64_t>(at_.ranks));
    all.save_to(path.string());
  }
  template <class T>
  static void load_part(torch::serialize::InputArchive& all, std::string const& name, T& of) {
    torch::serialize::InputArchive part;
    all.read(name, part);
    of.load(part);
  }
  static void load_training(training_state const& of, torch::serialize::InputArchive& all) {
    load_part(all, "model", of.model);
    load_part(all, "optimizer", of.updates.optimizer());
    for (auto& [split, draws] : of.data.draws()) draws.set_state(tensor(all, "draws of " + split));
    for (std::size_t i = 0; i < of.updates.floats().size(); ++i)
      of.updates.floats()[i].data().copy_(tensor(all, fmt::format("parameter {}", i)));
  }

  std::filesystem::path folder_;
  place at_;
};

}  // namespace pith_libtorch
