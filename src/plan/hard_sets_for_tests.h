// Reads the sets of buffers in tests/data/minimalloc: lines of id, first step, step after the last, bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "plan/pack.h"

namespace forethought::planning {

constexpr int64_t kHardSetCapacity = 1'048'576;  // that each of the sets is known to fit

// The files of a folder in order of their names.
inline std::vector<std::filesystem::path> hard_set_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Packing stops at `enough` bytes.
inline PackProblem read_hard_set(const std::filesystem::path& file, int64_t enough) {
  PackProblem p;
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);  // the names of the columns
  while (std::getline(in, line)) {
    long long id = 0, first = 0, end = 0, bytes = 0;
    if (std::sscanf(line.c_str(), "%lld,%lld,%lld,%lld", &id, &first, &end, &bytes) != 4) break;
    p.items.push_back({bytes, static_cast<int32_t>(first), static_cast<int32_t>(end - 1), 1});
  }
  p.lower_bound = enough;
  return p;
}

}  // namespace forethought::planning
