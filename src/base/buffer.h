// A counted reference to a block of memory that knows how to give itself back: what keeps bytes alive across rooms.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace forethought {

// Stands where an arena, a mapping or a foreign object wants to hear once that nobody uses a block any more. The
// block's owner makes it (once a buffer, not once a use), so that taking, sharing and returning a reference touches no
// heap.
struct BufferHeader {
  std::atomic<uint32_t> references{0};
  void (*release)(BufferHeader*) = nullptr;  // called exactly once, on whatever thread drops the last reference
};

// 8 bytes; copying counts, moving does not. Null stands for memory that somebody else keeps alive.
class BufferRef {
 public:
  BufferRef() = default;
  explicit BufferRef(BufferHeader* header) : header_(header) { retain(); }
  BufferRef(const BufferRef& o) : header_(o.header_) { retain(); }
  BufferRef(BufferRef&& o) noexcept : header_(std::exchange(o.header_, nullptr)) {}
  BufferRef& operator=(BufferRef o) noexcept {
    std::swap(header_, o.header_);
    return *this;
  }
  ~BufferRef() { reset(); }

  void reset() {
    BufferHeader* h = std::exchange(header_, nullptr);
    if (h && h->references.fetch_sub(1, std::memory_order_acq_rel) == 1) h->release(h);
  }
  explicit operator bool() const { return header_ != nullptr; }
  BufferHeader* header() const { return header_; }
  bool unique() const { return header_ && header_->references.load(std::memory_order_acquire) == 1; }

 private:
  void retain() {
    if (header_) header_->references.fetch_add(1, std::memory_order_relaxed);
  }
  BufferHeader* header_ = nullptr;
};

// Keeps any object alive as long as the reference lives: `BufferRef ref = hold(std::move(mapping));`
template <typename T>
BufferRef hold(T object) {
  struct Holder : BufferHeader {
    explicit Holder(T&& o) : object(std::move(o)) {
      release = [](BufferHeader* h) { delete static_cast<Holder*>(h); };
    }
    T object;
  };
  return BufferRef(new Holder(std::move(object)));
}

}  // namespace forethought
