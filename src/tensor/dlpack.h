// DLPack: tensors as the C structs by which array libraries hand each other memory, and tensors over such structs.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "base/status.h"
#include "tensor/value.h"

namespace forethought::dlpack {

// The standard's structs, in its layout (versions 1.x, and the form before versions).
struct Device {
  int32_t type, id;
};
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct View {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major without gaps
  uint64_t byte_offset;
};
struct Managed {
  View view;
  void* manager;
  void (*deleter)(Managed*);  // may be null
};
struct Version {
  uint32_t major, minor;
};
struct ManagedVersioned {
  Version version;
  void* manager;
  void (*deleter)(ManagedVersioned*);  // may be null
  uint64_t flags;
  View view;
};

constexpr Version kVersion{1, 1};
constexpr int32_t kCpu = 1;
constexpr uint64_t kReadOnly = 1, kCopied = 2, kPaddedSubByte = 4;

// A struct that keeps the tensor's memory until its deleter is called, on any thread, whatever became of the session.
// `tensor` has a plain layout. The struct is the caller's: give it away, or call its deleter.
StatusOr<ManagedVersioned*> to_versioned(const Tensor& tensor, uint64_t flags = 0);
StatusOr<Managed*> to_managed(const Tensor& tensor);

struct Imported {
  Tensor tensor;
  bool read_only = false;    // its memory must not be written
  int64_t copied_bytes = 0;  // 0: the tensor reads the struct's memory where it is
};

// Where a copy goes: a tensor with memory of its own, contents undefined.
using MakeTensor = FunctionRef<StatusOr<Tensor>(DType, std::span<const int64_t>)>;
inline StatusOr<Tensor> on_heap(DType dtype, std::span<const int64_t> dims) { return make_tensor(dtype, dims); }

// A tensor over the struct's memory; where that is strided or not aligned to its elements, over one copy. The struct is
// the tensor's from then on: its deleter is called exactly once, when the last user of the memory is gone, or at once
// after a copy. After an error the struct is still the caller's.
StatusOr<Imported> from_managed(
    Managed* managed, MakeTensor make = [](auto... a) { return on_heap(a...); });
StatusOr<Imported> from_versioned(
    ManagedVersioned* managed, MakeTensor make = [](auto... a) { return on_heap(a...); });

// Whether the host can read memory of this kind of device; else an error that names it.
Status check_device(Device device);

}  // namespace forethought::dlpack
