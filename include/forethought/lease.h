// A hold on memory of a value: moved, never copied, and given back once.
#pragma once

#include <cstddef>
#include <utility>

#include "forethought/export.h"

FORETHOUGHT_BEGIN_NAMESPACE

// Keeps the bytes of a tensor where they are, on any thread, whatever became of the session, the run and the value.
// Moving and ending it touch no heap. What was moved from, or released, is empty: no data, no bytes.
class FORETHOUGHT_EXPORT Lease {
 public:
  Lease() = default;
  Lease(Lease&& o) noexcept { swap(o); }
  Lease& operator=(Lease&& o) noexcept {
    Lease(std::move(o)).swap(*this);
    return *this;
  }
  ~Lease() { release(); }

  explicit operator bool() const { return holder_ != nullptr; }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  void release();  // before its end; once more does nothing

 private:
  friend class Value;
  void swap(Lease& o) {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    std::swap(holder_, o.holder_);
  }
  void* data_ = nullptr;
  size_t bytes_ = 0;
  void* holder_ = nullptr;  // the library's
};
static_assert(sizeof(Lease) <= 32);

FORETHOUGHT_END_NAMESPACE
