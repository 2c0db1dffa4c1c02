// What the tests of this folder share: an odometer over index tuples and elements of any width with known contents.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/movement/element.h"

namespace forethought::kernels::testing {

constexpr Element kElements[] = {Element::w1, Element::w2, Element::w4, Element::w8, Element::w16, Element::string};

inline int64_t product(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// Calls f with every index tuple of `dims` in row-major order.
inline void for_each_index(std::span<const int64_t> dims, const std::function<void(std::span<const int64_t>)>& f) {
  std::vector<int64_t> index(dims.size(), 0);
  for (int64_t n = product(dims); n > 0; --n) {
    f(index);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

inline int64_t linear(std::span<const int64_t> index, std::span<const int64_t> dims) {
  int64_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d) at = at * dims[d] + index[d];
  return at;
}

// Elements with contents that name themselves; `shift` bytes into their memory, so that any alignment can be had.
class Elements {
 public:
  Elements(Element e, int64_t count, int64_t shift = 0)
      : e_(e), count_(count), shift_(e == Element::string ? 0 : shift) {
    if (e == Element::string) {
      strings_.resize(static_cast<size_t>(count), "untouched");
    } else {
      bytes_.resize(static_cast<size_t>(count * static_cast<int64_t>(e) + shift_), '\xEE');
    }
  }
  static Elements numbered(Element e, int64_t count, int64_t shift = 0) {
    Elements r(e, count, shift);
    for (int64_t i = 0; i < count; ++i) r.set(i, i);
    return r;
  }
  void set(int64_t i, int64_t number) {
    if (e_ == Element::string) {
      strings_[i] = "element " + std::to_string(number) + " beyond the small-string buffer";
    } else {
      for (int64_t b = 0; b < static_cast<int64_t>(e_); ++b)
        bytes_[shift_ + i * static_cast<int64_t>(e_) + b] = static_cast<char>((number + 1) * 31 >> (b % 4 * 8));
    }
  }
  // Copies one element of another array.
  void take(int64_t i, const Elements& o, int64_t j) {
    if (e_ == Element::string) {
      strings_[i] = o.strings_[j];
    } else {
      std::memcpy(bytes_.data() + shift_ + i * static_cast<int64_t>(e_),
                  o.bytes_.data() + o.shift_ + j * static_cast<int64_t>(e_), static_cast<size_t>(e_));
    }
  }
  void* data() {
    return e_ == Element::string ? static_cast<void*>(strings_.data()) : static_cast<void*>(bytes_.data() + shift_);
  }
  const void* data() const { return const_cast<Elements*>(this)->data(); }
  bool operator==(const Elements& o) const {
    return count_ == o.count_ && strings_ == o.strings_ &&
           std::string(bytes_.begin() + std::min<int64_t>(shift_, std::ssize(bytes_)), bytes_.end()) ==
               std::string(o.bytes_.begin() + std::min<int64_t>(o.shift_, std::ssize(o.bytes_)), o.bytes_.end());
  }

 private:
  Element e_;
  int64_t count_, shift_;
  std::vector<char> bytes_;
  std::vector<std::string> strings_;
};

}  // namespace forethought::kernels::testing
