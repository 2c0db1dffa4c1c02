#include "tensor/dlpack.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "tensor/strides.h"

namespace forethought::dlpack {
namespace {

struct TypePair {
  DType ours;
  DataType theirs;
};
constexpr uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6;
constexpr TypePair kTypes[] = {
    {DType::kFloat, {kFloat, 32, 1}},
    {DType::kDouble, {kFloat, 64, 1}},
    {DType::kFloat16, {kFloat, 16, 1}},
    {DType::kBFloat16, {kBfloat, 16, 1}},
    {DType::kInt8, {kInt, 8, 1}},
    {DType::kInt16, {kInt, 16, 1}},
    {DType::kInt32, {kInt, 32, 1}},
    {DType::kInt64, {kInt, 64, 1}},
    {DType::kUint8, {kUInt, 8, 1}},
    {DType::kUint16, {kUInt, 16, 1}},
    {DType::kUint32, {kUInt, 32, 1}},
    {DType::kUint64, {kUInt, 64, 1}},
    {DType::kBool, {kBool, 8, 1}},
    {DType::kComplex64, {kComplex, 64, 1}},
    {DType::kComplex128, {kComplex, 128, 1}},
    {DType::kInt4, {kInt, 4, 1}},
    {DType::kUint4, {kUInt, 4, 1}},
    {DType::kInt2, {kInt, 2, 1}},
    {DType::kUint2, {kUInt, 2, 1}},
    {DType::kFloat8E4M3FN, {10, 8, 1}},
    {DType::kFloat8E4M3FNUZ, {11, 8, 1}},
    {DType::kFloat8E5M2, {12, 8, 1}},
    {DType::kFloat8E5M2FNUZ, {13, 8, 1}},
    {DType::kFloat8E8M0, {14, 8, 1}},
    {DType::kFloat4E2M1, {17, 4, 1}},
};

const DataType* their_type(DType dtype) {
  for (const TypePair& p : kTypes)
    if (p.ours == dtype) return &p.theirs;
  return nullptr;
}

DType our_type(DataType t) {
  for (const TypePair& p : kTypes)
    if (p.theirs.code == t.code && p.theirs.bits == t.bits && p.theirs.lanes == t.lanes) return p.ours;
  return DType::kUndefined;
}

// By DLPack's number; empty where there is none.
constexpr const char* kDeviceNames[] = {"",       "cpu",    "cuda",   "",     "opencl", "", "",
                                        "vulkan", "metal",  "vpi",    "rocm", "",       "", "cuda managed memory",
                                        "oneapi", "webgpu", "hexagon"};

std::string to_string(Device device) {
  const bool known = device.type >= 0 && device.type < static_cast<int32_t>(std::size(kDeviceNames)) &&
                     *kDeviceNames[device.type] != '\0';
  return absl::StrCat(known ? kDeviceNames[device.type] : absl::StrCat("device type ", device.type), ":", device.id);
}

// The tensor, and the arrays that the struct points to.
template <typename Struct>
struct Exported {
  Struct managed{};
  Tensor tensor;
  Dims strides;
};

template <typename Struct>
StatusOr<Struct*> export_tensor(const Tensor& tensor) {
  const DataType* type = their_type(tensor.dtype);
  if (!type) return unsupported(absl::StrCat("tensors of ", info(tensor.dtype).type_name, " have no form in DLPack"));
  if (!tensor.layout.is_plain()) return internal("a tensor whose channels are not plain would leave through DLPack");
  auto* e = new (std::nothrow) Exported<Struct>;
  if (!e) return exhausted("the system has no memory for a DLPack struct");
  e->tensor = tensor;
  e->strides = row_major_strides(tensor.dims);
  View& v = e->managed.view;
  v.data = tensor.data;
  v.device = {kCpu, 0};
  v.ndim = static_cast<int32_t>(tensor.dims.size());
  v.dtype = *type;
  v.shape = e->tensor.dims.data();
  v.strides = e->strides.data();
  e->managed.manager = e;
  e->managed.deleter = [](Struct* s) { delete static_cast<Exported<Struct>*>(s->manager); };
  return &e->managed;
}

template <typename Struct>
void drop(Struct* managed) {
  if (managed->deleter) managed->deleter(managed);
}

// Calls the deleter when the last user goes.
template <typename Struct>
struct Owner : BufferHeader {
  Struct* const managed;
  explicit Owner(Struct* m) : managed(m) {
    release = [](BufferHeader* h) {
      auto* self = static_cast<Owner*>(h);
      drop(self->managed);
      delete self;
    };
  }
};

std::span<const int64_t> dims_of(const View& v) { return {v.shape, static_cast<size_t>(v.ndim)}; }
std::span<const int64_t> strides_of(const View& v) { return {v.strides, static_cast<size_t>(v.ndim)}; }

bool is_contiguous(const View& v) { return !v.strides || is_row_major(dims_of(v), strides_of(v)); }

// Every address that the strides can give must be one that exists.
Status check_reach(const View& v, int64_t width) {
  const auto reach = reach_of(dims_of(v), strides_of(v));
  if (!reach || !checked_mul(reach->below, width) || !checked_mul(reach->above, width))
    return invalid("the strides of the DLPack tensor overflow");
  return absl::OkStatus();
}

void copy_strided(const View& v, const std::byte* from, int64_t width, std::byte* to) {
  const int32_t last = v.ndim - 1;
  const int64_t row = v.shape[last], step = v.strides[last] * width;
  Dims at(static_cast<size_t>(v.ndim), 0);
  while (true) {
    const std::byte* p = from;
    for (int32_t d = 0; d < last; ++d) p += at[d] * v.strides[d] * width;
    if (step == width) {
      std::memcpy(to, p, static_cast<size_t>(row * width));
    } else {
      for (int64_t i = 0; i < row; ++i) std::memcpy(to + i * width, p + i * step, static_cast<size_t>(width));
    }
    to += row * width;
    int32_t d = last - 1;
    for (; d >= 0 && ++at[d] == v.shape[d]; --d) at[d] = 0;
    if (d < 0) return;
  }
}

void pack_padded(const std::byte* from, int64_t elements, int bits, std::byte* to) {
  const int per_byte = 8 / bits;
  const auto mask = static_cast<std::byte>((1 << bits) - 1);
  for (int64_t i = 0; i < elements; ++i) to[i / per_byte] |= (from[i] & mask) << static_cast<int>(i % per_byte) * bits;
}

StatusOr<DType> check_view(const View& v) {
  RETURN_IF_ERROR(check_device(v.device));
  const DType dtype = our_type(v.dtype);
  if (dtype == DType::kUndefined)
    return unsupported(absl::StrCat("DLPack elements of type code ", int{v.dtype.code}, ", ", int{v.dtype.bits},
                                    " bits and ", v.dtype.lanes, " lanes have no ONNX type"));
  if (v.ndim < 0 || v.ndim > 64 || (v.ndim > 0 && !v.shape))
    return invalid(absl::StrCat("the DLPack tensor has ", v.ndim, " dims", v.ndim > 0 ? " and no shape" : ""));
  const std::span<const int64_t> dims(v.shape, static_cast<size_t>(v.ndim));
  if (!storage_bytes(dtype, Layout::plain(), dims))
    return invalid(absl::StrCat("the DLPack tensor has the impossible shape ", ::forethought::to_string(dims)));
  if (!v.data && *element_count(dims) > 0) return invalid("the DLPack tensor has elements and no memory");
  return dtype;
}

template <typename Struct>
StatusOr<Imported> import_view(Struct* managed, uint64_t flags, MakeTensor make) {
  const View& v = managed->view;
  ASSIGN_OR_RETURN(const DType dtype, check_view(v));
  const int bits = bit_width(dtype);
  const int64_t width = std::max(1, bits / 8);
  const bool padded = bits < 8 && (flags & kPaddedSubByte) != 0;
  const auto* from = static_cast<const std::byte*>(v.data) + (v.data ? v.byte_offset : 0);
  Imported result;
  result.read_only = (flags & kReadOnly) != 0;
  result.tensor.dtype = dtype;
  result.tensor.dims.assign(v.shape, v.shape + v.ndim);
  const int64_t elements = result.tensor.elements();
  const bool contiguous = elements == 0 || is_contiguous(v);
  const auto alignment = static_cast<uintptr_t>(std::min<int64_t>(width, 8));
  if (contiguous && !padded && (elements == 0 || reinterpret_cast<uintptr_t>(from) % alignment == 0)) {
    result.tensor.data = const_cast<std::byte*>(from);
    result.tensor.owner = BufferRef(new Owner<Struct>(managed));  // without memory, the struct stays the caller's
    return result;
  }
  if (!contiguous && bits < 8)
    return unsupported(absl::StrCat("a DLPack tensor of ", info(dtype).type_name,
                                    " with strides cannot be read; make it contiguous first"));
  if (!contiguous) RETURN_IF_ERROR(check_reach(v, width));
  ASSIGN_OR_RETURN(result.tensor, make(dtype, result.tensor.dims));
  auto* to = static_cast<std::byte*>(result.tensor.data);
  result.copied_bytes = result.tensor.bytes();
  result.read_only = false;
  if (padded) {
    std::memset(to, 0, static_cast<size_t>(result.copied_bytes));
    pack_padded(from, elements, bits, to);
  } else if (contiguous) {
    std::memcpy(to, from, static_cast<size_t>(result.copied_bytes));
  } else {
    copy_strided(v, from, width, to);
  }
  drop(managed);
  return result;
}

}  // namespace

Status check_device(Device device) {
  constexpr int32_t kCudaHost = 3, kRocmHost = 11;  // pinned memory of the host
  if (device.type == kCpu || device.type == kCudaHost || device.type == kRocmHost) return absl::OkStatus();
  return invalid(absl::StrCat("the DLPack tensor is on ", to_string(device),
                              ", a device that is not here; copy it to the CPU first"));
}

StatusOr<ManagedVersioned*> to_versioned(const Tensor& tensor, uint64_t flags) {
  ASSIGN_OR_RETURN(ManagedVersioned* const managed, export_tensor<ManagedVersioned>(tensor));
  managed->version = kVersion;
  managed->flags = flags;
  return managed;
}

StatusOr<Managed*> to_managed(const Tensor& tensor) { return export_tensor<Managed>(tensor); }

StatusOr<Imported> from_managed(Managed* managed, MakeTensor make) {
  if (!managed) return invalid("the DLPack struct is null");
  return import_view(managed, 0, make);
}

StatusOr<Imported> from_versioned(ManagedVersioned* managed, MakeTensor make) {
  if (!managed) return invalid("the DLPack struct is null");
  if (managed->version.major != kVersion.major)
    return unsupported(absl::StrCat("the tensor comes as DLPack ", managed->version.major, ".", managed->version.minor,
                                    "; version ", kVersion.major, " is understood: ask its maker for that"));
  return import_view(managed, managed->flags, make);
}

}  // namespace forethought::dlpack
