// How the movement kernels see elements: as so many bytes that may lie at any alignment, or as std::string objects.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "base/dtype.h"

namespace forethought::kernels {

// The enumerator's value is the width in bytes; string stands for std::string objects.
enum class Element : uint8_t { string = 0, w1 = 1, w2 = 2, w4 = 4, w8 = 8, w16 = 16 };

struct Bytes16 {
  uint64_t low, high;
};

// Of a type of whole bytes or strings; the packed sub-byte types have none and give w1.
inline Element element_of(DType dtype) {
  const int bits = bit_width(dtype);
  if (bits == 0) return Element::string;
  return bits < 8 ? Element::w1 : static_cast<Element>(bits / 8);
}

// Bytes from one element to the next in memory.
constexpr int64_t element_pitch(Element e) {
  return e == Element::string ? static_cast<int64_t>(sizeof(std::string)) : static_cast<int64_t>(e);
}

// Calls f.template operator()<T>() with the type that stands for the element.
template <typename F>
void with_element(Element e, F&& f) {
  switch (e) {
    case Element::string:
      return f.template operator()<std::string>();
    case Element::w1:
      return f.template operator()<uint8_t>();
    case Element::w2:
      return f.template operator()<uint16_t>();
    case Element::w4:
      return f.template operator()<uint32_t>();
    case Element::w8:
      return f.template operator()<uint64_t>();
    case Element::w16:
      return f.template operator()<Bytes16>();
  }
}

// Reading and writing element i behind p, whatever p's alignment (strings are always aligned).
template <typename T>
inline T load_element(const void* p, int64_t i) {
  T v;
  std::memcpy(&v, static_cast<const char*>(p) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return v;
}
template <>
inline std::string load_element<std::string>(const void* p, int64_t i) {
  return static_cast<const std::string*>(p)[i];
}
template <typename T>
inline void store_element(void* p, int64_t i, const T& v) {
  std::memcpy(static_cast<char*>(p) + i * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
}
template <>
inline void store_element<std::string>(void* p, int64_t i, const std::string& v) {
  static_cast<std::string*>(p)[i] = v;
}
template <typename T>
inline void copy_element(const void* in, int64_t i, void* out, int64_t o) {
  if constexpr (std::is_same_v<T, std::string>) {
    static_cast<std::string*>(out)[o] = static_cast<const std::string*>(in)[i];
  } else {
    store_element<T>(out, o, load_element<T>(in, i));
  }
}

// Copies n elements that lie side by side; in and out do not overlap.
template <typename T>
inline void copy_run(const void* in, int64_t i, void* out, int64_t o, int64_t n) {
  if constexpr (std::is_same_v<T, std::string>) {
    for (int64_t k = 0; k < n; ++k) copy_element<T>(in, i + k, out, o + k);
  } else {
    constexpr int64_t size = sizeof(T);
    if (n > 0) std::memcpy(static_cast<char*>(out) + o * size, static_cast<const char*>(in) + i * size, n * size);
  }
}

// Writes n copies of v from element o on.
template <typename T>
inline void fill_run(const T& v, void* out, int64_t o, int64_t n) {
  if constexpr (sizeof(T) == 1) {
    if (n > 0) std::memset(static_cast<char*>(out) + o, static_cast<int>(v), static_cast<size_t>(n));
  } else {
    for (int64_t k = 0; k < n; ++k) store_element<T>(out, o + k, v);
  }
}

inline const void* advance(const void* p, Element e, int64_t n) {
  return static_cast<const char*>(p) + n * element_pitch(e);
}
inline void* advance(void* p, Element e, int64_t n) { return static_cast<char*>(p) + n * element_pitch(e); }

}  // namespace forethought::kernels
