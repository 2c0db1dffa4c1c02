#include "tensor/value.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/checked.h"

namespace forethought {
namespace {

struct HeapBlock : BufferHeader {
  void* data = nullptr;
  size_t strings = 0;  // constructed std::string objects, if any
};

void release_heap(BufferHeader* header) {
  auto* block = static_cast<HeapBlock*>(header);
  auto* s = static_cast<std::string*>(block->data);
  for (size_t i = 0; i < block->strings; ++i) s[i].~basic_string();
  std::free(block->data);
  delete block;
}

}  // namespace

StatusOr<Tensor> make_tensor(DType dtype, std::span<const int64_t> dims) {
  const auto bytes = storage_bytes(dtype, Layout::plain(), dims);
  if (!bytes) return invalid(absl::StrCat("a tensor of ", name(dtype), to_string(dims), " has no representable size"));
  Tensor t;
  t.dtype = dtype;
  t.dims.assign(dims.begin(), dims.end());
  const size_t room = round_up(static_cast<size_t>(*bytes) + 1, 64);
  auto* block = new (std::nothrow) HeapBlock;
  void* data = block ? std::aligned_alloc(64, room) : nullptr;
  if (!data) {
    delete block;
    return exhausted(absl::StrCat("no memory for a tensor of ", name(dtype), to_string(dims), " (", *bytes, " bytes)"));
  }
  block->data = data;
  block->release = release_heap;
  if (dtype == DType::kString) {
    block->strings = static_cast<size_t>(t.elements());
    auto* s = static_cast<std::string*>(data);
    for (size_t i = 0; i < block->strings; ++i) new (s + i) std::string;
  } else {
    std::memset(data, 0, room);
  }
  t.data = data;
  t.owner = BufferRef(block);
  return t;
}

}  // namespace forethought
