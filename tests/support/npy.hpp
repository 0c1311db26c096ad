// tests/support/npy.hpp — reads NumPy's .npy format 1.0: float32, C order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace support {

struct array {
  std::vector<std::uint64_t> dims;
  std::vector<float> values;
};

inline array read_npy(std::string const& path) {
  auto file = std::ifstream(path, std::ios::binary);
  auto const need = [&](bool holds, char const* what) {
    if (!holds) throw std::runtime_error(path + ": " + what);
  };
  need(file.is_open(), "cannot be opened");
  auto const bytes = std::string(std::istreambuf_iterator<char>(file), {});
  need(bytes.size() >= 10 && bytes.compare(0, 6, "\x93NUMPY") == 0, "is no .npy file");
  need(bytes[6] == 1, "is not of format 1.0");
  auto const header_size =
      static_cast<std::size_t>(static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]));
  need(bytes.size() >= 10 + header_size, "ends in its header");
  auto const header = bytes.substr(10, header_size);
  need(header.find("'descr': '<f4'") != std::string::npos, "does not hold float32");
  need(header.find("'fortran_order': False") != std::string::npos, "is not in C order");
  auto at = header.find("'shape': (");
  need(at != std::string::npos, "has no shape");
  auto read = array();
  std::uint64_t count = 1;
  for (at += 10; at < header.size() && header[at] != ')'; ++at) {
    if (header[at] < '0' || header[at] > '9') continue;
    std::size_t digits = 0;
    read.dims.push_back(std::stoull(header.substr(at), &digits));
    count *= read.dims.back();
    at += digits - 1;
  }
  need(bytes.size() == 10 + header_size + count * sizeof(float), "has not as many values as its shape says");
  read.values.resize(count);
  std::memcpy(read.values.data(), bytes.data() + 10 + header_size, count * sizeof(float));
  return read;
}

}  // namespace support
