#include "memory/memory_calls_testing.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>
#include <string_view>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FT_SANITIZED 1
#endif
#endif

namespace forethought {
namespace {

enum class Kind : uint8_t { allocation, release, map, unmap };

// The last is watched on request; no file's name begins with a blank.
std::string_view libraries[] = {"libdnnl", "libtbb", "libgomp", " "};
constexpr int kOurs = static_cast<int>(std::size(libraries)), kWatched = kOurs - 1;

// The code of a library: calls that return into it are its own.
struct Range {
  uintptr_t begin = 0, end = 0;
};
Range ranges[kOurs];

struct Counters {
  std::atomic<int64_t> calls[4];
  std::atomic<int64_t> heap_bytes, mapped_bytes;
};
Counters counters[kOurs + 1];

struct Event {
  Kind kind = Kind::allocation;
  size_t bytes = 0;
  void* caller = nullptr;
};
constexpr size_t kEvents = 64;
Event events[kEvents];  // the first of ours
std::atomic<size_t> event_count{0};
std::atomic<bool> recording{false};

std::string_view file_name(const char* path) {
  const char* slash = path ? std::strrchr(path, '/') : nullptr;
  return slash ? slash + 1 : path ? path : "";
}

int find_ranges(dl_phdr_info* info, size_t, void*) {
  for (int l = 0; l < kOurs; ++l) {
    if (!file_name(info->dlpi_name).starts_with(libraries[l])) continue;
    for (int p = 0; p < info->dlpi_phnum; ++p) {
      const auto& header = info->dlpi_phdr[p];
      if (header.p_type == PT_LOAD && (header.p_flags & PF_X))
        ranges[l] = {info->dlpi_addr + header.p_vaddr, info->dlpi_addr + header.p_vaddr + header.p_memsz};
    }
  }
  return 0;
}

void note(Kind kind, size_t bytes, void* caller) {
  if (!recording.load(std::memory_order_relaxed)) return;
  int who = 0;
  const auto at = reinterpret_cast<uintptr_t>(caller);
  while (who < kOurs && !(at >= ranges[who].begin && at < ranges[who].end)) ++who;
  Counters& c = counters[who];
  c.calls[static_cast<int>(kind)].fetch_add(1, std::memory_order_relaxed);
  if (kind == Kind::allocation) c.heap_bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  if (kind == Kind::map) c.mapped_bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  if (kind == Kind::unmap) c.mapped_bytes.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  if (who != kOurs) return;
  const size_t index = event_count.fetch_add(1, std::memory_order_relaxed);
  if (index < kEvents) events[index] = {kind, bytes, caller};
}

MemoryCalls read(int who) {
  const Counters& c = counters[who];
  return {c.calls[0], c.calls[1], c.calls[2], c.calls[3], c.heap_bytes, c.mapped_bytes};
}

}  // namespace

#ifdef FT_SANITIZED
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, size_t),
                                                         void (*free_hook)(const volatile void*));
namespace {
void on_malloc(const volatile void*, size_t bytes) { note(Kind::allocation, bytes, nullptr); }
void on_free(const volatile void* data) {
  if (data) note(Kind::release, 0, nullptr);
}
}  // namespace
#endif

void MemoryCallRecorder::start() {
#ifdef FT_SANITIZED
  static const int installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  static_cast<void>(installed);
#endif
  for (Counters& c : counters) {
    for (auto& calls : c.calls) calls = 0;
    c.heap_bytes = c.mapped_bytes = 0;
  }
  event_count = 0;
  dl_iterate_phdr(find_ranges, nullptr);
  recording = true;
}
void MemoryCallRecorder::stop() { recording = false; }

MemoryCalls MemoryCallRecorder::ours() const { return read(kOurs); }
MemoryCalls MemoryCallRecorder::of(const std::string& library) const {
  for (int l = 0; l < kOurs; ++l)
    if (library == libraries[l]) return read(l);
  return {};
}

std::string MemoryCallRecorder::first_of_ours(int most) const {
  constexpr const char* kNames[] = {"allocation", "free", "map", "unmap"};
  std::string text;
  for (size_t i = 0; i < std::min(event_count.load(), kEvents) && most > 0; ++i) {
    Dl_info info{};
    dladdr(events[i].caller, &info);
    const auto offset = static_cast<char*>(events[i].caller) - static_cast<char*>(info.dli_fbase);
    text += fmt::format("{} of {} bytes by {}+{:#x}\n", kNames[static_cast<int>(events[i].kind)], events[i].bytes,
                        file_name(info.dli_fname), offset);
    --most;
  }
  return text;
}

void MemoryCallRecorder::watch(const char* library) { libraries[kWatched] = library; }

bool MemoryCallRecorder::attributes_callers() {
#ifdef FT_SANITIZED
  return false;
#else
  return true;
#endif
}

namespace {

// Our code, which is the program itself (a file without a name) unless a library is named, and the library of
// containers and strings, which works for whoever calls it.
std::string_view our_file;
Range our_code, containers_code;
std::atomic<int64_t> fail_in{0};  // counts down to the one that fails; 0: none
std::atomic<bool> refused_one{false};
std::atomic<int64_t> blocks{0};
constexpr int kFrames = 24;
void* refused_frames[kFrames];
int refused_depth = 0;

bool within(const Range& range, const void* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  return range.begin <= address && address < range.end;
}

int find_code(dl_phdr_info* info, size_t, void*) {
  const std::string_view file = file_name(info->dlpi_name);
  const bool ours = our_file.empty() ? file.empty() : file.starts_with(our_file);
  Range* const range = ours && our_code.end == 0       ? &our_code
                       : file.starts_with("libstdc++") ? &containers_code
                                                       : nullptr;
  for (int p = 0; range && p < info->dlpi_phnum; ++p) {
    const auto& header = info->dlpi_phdr[p];
    if (header.p_type == PT_LOAD && (header.p_flags & PF_X))
      *range = {info->dlpi_addr + header.p_vaddr, info->dlpi_addr + header.p_vaddr + header.p_memsz};
  }
  return 0;
}

// Whether a call that returns to `caller` is our code's.
[[gnu::noinline]] bool asked_by_us(void* caller) {
  if (!within(containers_code, caller)) return within(our_code, caller);
  void* frames[kFrames];
  const int depth = backtrace(frames, kFrames);
  int f = 0;
  while (f < depth && frames[f] != caller) ++f;
  while (f < depth && within(containers_code, frames[f])) ++f;
  return f < depth && within(our_code, frames[f]);
}

bool allocation_fails(void* caller) {
  if (fail_in.load(std::memory_order_relaxed) <= 0 || !asked_by_us(caller)) return false;
  if (--fail_in != 0) return false;
  refused_depth = backtrace(refused_frames, kFrames);
  refused_one = true;
  return true;
}

}  // namespace

FailAllocation::FailAllocation(int64_t nth) {
  if (our_code.end == 0) dl_iterate_phdr(find_code, nullptr);
  void* frame;
  backtrace(&frame, 1);  // its first call loads a library
  refused_one = false;
  fail_in = nth;
}
FailAllocation::~FailAllocation() { fail_in = 0; }
void FailAllocation::is_of(const char* library) { our_file = library; }
bool FailAllocation::triggered() const { return refused_one; }
std::string refused_allocation() {
  std::string text;
  for (int f = 0; f < refused_depth; ++f) {
    Dl_info info{};
    dladdr(refused_frames[f], &info);
    text += fmt::format("{}+{:#x} ", file_name(info.dli_fname),
                        static_cast<char*>(refused_frames[f]) - static_cast<char*>(info.dli_fbase));
  }
  return text;
}

int64_t blocks_in_use() { return blocks; }

int64_t minor_faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace forethought

#define FT_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

#ifndef FT_SANITIZED

using forethought::Kind;
using forethought::note;

extern "C" {
void* __libc_malloc(size_t);
void __libc_free(void*);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  note(Kind::allocation, bytes, FT_CALLER);
  return __libc_malloc(bytes);
}
void free(void* data) {
  if (data) note(Kind::release, 0, FT_CALLER);
  __libc_free(data);
}
void* calloc(size_t n, size_t bytes) {
  note(Kind::allocation, n * bytes, FT_CALLER);
  return __libc_calloc(n, bytes);
}
void* realloc(void* data, size_t bytes) {
  note(Kind::allocation, bytes, FT_CALLER);
  if (data) note(Kind::release, 0, FT_CALLER);
  return __libc_realloc(data, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  note(Kind::allocation, bytes, FT_CALLER);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  note(Kind::allocation, bytes, FT_CALLER);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  note(Kind::allocation, bytes, FT_CALLER);
  void* const data = __libc_memalign(alignment, bytes);
  if (!data) return ENOMEM;
  *out = data;
  return 0;
}

void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  note(Kind::map, bytes, FT_CALLER);
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}
void* mmap64(void* at, size_t bytes, int protection, int flags, int file, off64_t offset) noexcept {
  note(Kind::map, bytes, FT_CALLER);
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}
int munmap(void* at, size_t bytes) noexcept {
  note(Kind::unmap, bytes, FT_CALLER);
  return static_cast<int>(syscall(SYS_munmap, at, bytes));
}
int madvise(void* at, size_t bytes, int advice) noexcept {
  note(Kind::map, 0, FT_CALLER);
  return static_cast<int>(syscall(SYS_madvise, at, bytes, advice));
}
}  // extern "C"

#endif  // FT_SANITIZED

namespace {
#ifdef FT_SANITIZED  // the hooks count, and blocks come from the sanitizer's heap
void* heap_block(size_t bytes, size_t alignment, void*) noexcept {
  return alignment > 16 ? aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment) : malloc(bytes);
}
void free_block(void* data, void*) noexcept { free(data); }
#else
void* heap_block(size_t bytes, size_t alignment, void* caller) noexcept {
  note(Kind::allocation, bytes, caller);
  return alignment > 16 ? __libc_memalign(alignment, bytes) : __libc_malloc(bytes);
}
void free_block(void* data, void* caller) noexcept {
  note(Kind::release, 0, caller);
  __libc_free(data);
}
#endif
void* counted_new(size_t bytes, size_t alignment, void* caller) noexcept {
  if (forethought::allocation_fails(caller)) return nullptr;
  forethought::blocks.fetch_add(1, std::memory_order_relaxed);
  return heap_block(bytes + (bytes == 0), alignment, caller);
}
void* counted_new_or_throw(size_t bytes, size_t alignment, void* caller) {
  if (void* const data = counted_new(bytes, alignment, caller)) return data;
  throw std::bad_alloc();
}
void counted_delete(void* data, void* caller) noexcept {
  if (!data) return;
  forethought::blocks.fetch_sub(1, std::memory_order_relaxed);
  free_block(data, caller);
}
}  // namespace

void* operator new(size_t n) { return counted_new_or_throw(n, 0, FT_CALLER); }
void* operator new[](size_t n) { return counted_new_or_throw(n, 0, FT_CALLER); }
void* operator new(size_t n, std::align_val_t a) { return counted_new_or_throw(n, size_t(a), FT_CALLER); }
void* operator new[](size_t n, std::align_val_t a) { return counted_new_or_throw(n, size_t(a), FT_CALLER); }
void* operator new(size_t n, const std::nothrow_t&) noexcept { return counted_new(n, 0, FT_CALLER); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return counted_new(n, 0, FT_CALLER); }
void* operator new(size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return counted_new(n, size_t(a), FT_CALLER);
}
void* operator new[](size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return counted_new(n, size_t(a), FT_CALLER);
}
void operator delete(void* p) noexcept { counted_delete(p, FT_CALLER); }
void operator delete[](void* p) noexcept { counted_delete(p, FT_CALLER); }
void operator delete(void* p, size_t) noexcept { counted_delete(p, FT_CALLER); }
void operator delete[](void* p, size_t) noexcept { counted_delete(p, FT_CALLER); }
void operator delete(void* p, std::align_val_t) noexcept { counted_delete(p, FT_CALLER); }
void operator delete[](void* p, std::align_val_t) noexcept { counted_delete(p, FT_CALLER); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { counted_delete(p, FT_CALLER); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { counted_delete(p, FT_CALLER); }
void operator delete(void* p, const std::nothrow_t&) noexcept { counted_delete(p, FT_CALLER); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { counted_delete(p, FT_CALLER); }
