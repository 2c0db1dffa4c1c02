// The parts of figure_arenas, each a JSON object with a number for each check.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "memory/system.h"

namespace forethought {

// Counts what an arena asks for, and can write a pattern over all of it.
class CountingSource final : public MemorySource {
 public:
  explicit CountingSource(unsigned char fill) : fill_(fill) {}
  void* allocate(size_t bytes, size_t alignment) override;
  void release(void* data, size_t bytes) override;

  void fill_all(unsigned char pattern);  // while nothing in it is needed
  bool holds(const void* address) const;
  int64_t requests() const;  // so far
  int64_t bytes() const;     // that are out

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, size_t> blocks_;
  unsigned char fill_;
  int64_t requests_ = 0;
};

nlohmann::json check_model(const std::string& folder);  // checks 10, 13 and 16
nlohmann::json check_leases();                          // check 14
nlohmann::json check_small();                           // checks 17 to 20 and 22

}  // namespace forethought
