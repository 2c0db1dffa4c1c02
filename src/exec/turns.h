// How much outputs the shapes that come by turns take together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace forethought {

struct Program;

// Of the kMost programs that ran last. A program that has come back twice, each time after others, comes by turns with
// those that ran in between: bytes() is the most that such a round handed out. Kept that many, each finds the buffers
// of its last time. Shapes that come once, or again and again without a change, count nothing. No heap work.
class Turns {
 public:
  static constexpr size_t kMost = 16;

  // A run of the program handed out `bytes`. Programs are only compared.
  void ran(const Program* program, int64_t bytes);
  int64_t bytes() const { return bytes_; }
  void forget() { *this = Turns(); }

 private:
  struct Entry {
    const Program* program = nullptr;
    int64_t bytes = 0;  // the most it handed out in one run
    int32_t returns = 0;
  };
  std::array<Entry, kMost> entries_{};  // most recently run first
  size_t count_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace forethought
