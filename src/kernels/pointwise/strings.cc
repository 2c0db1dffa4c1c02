// Casts between numbers and text, Equal and Where on strings.
#include "kernels/pointwise/strings.h"

#include <charconv>
#include <cmath>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/pointwise/convert_number.h"

namespace forethought::kernels {
namespace {

// The fewest digits that read back as the same number, as d.ddde±xx.
template <typename T>
std::string shortest_scientific(T v) {
  char text[64];
  if constexpr (is_half<T>) {
    for (int digits = 0;; ++digits) {
      const auto r = std::to_chars(text, text + sizeof(text), static_cast<double>(static_cast<float>(v)),
                                   std::chars_format::scientific, digits);
      double back = 0;
      std::from_chars(text, r.ptr, back);
      if (convert_number<T>(back).bits == v.bits || digits > 10) return std::string(text, r.ptr);
    }
  } else {
    const auto r = std::to_chars(text, text + sizeof(text), v, std::chars_format::scientific);
    return std::string(text, r.ptr);
  }
}

// numpy's form: positional from 1e-4 to below 1e16, else scientific.
template <typename T>
std::string float_text(T value) {
  double v;
  if constexpr (is_half<T>)
    v = static_cast<float>(value);
  else
    v = value;
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "INF" : "-INF";
  std::string s = shortest_scientific(value);
  const size_t e = s.find('e');
  const double a = std::fabs(v);
  if (a != 0 && (a < 1e-4 || a >= 1e16)) return s;
  int exponent = 0;
  std::from_chars(s.data() + e + (s[e + 1] == '+' ? 2 : 1), s.data() + s.size(), exponent);
  std::string digits, sign;
  for (size_t i = 0; i < e; ++i) {
    if (s[i] == '-')
      sign = "-";
    else if (s[i] != '.')
      digits += s[i];
  }
  if (exponent < 0) return absl::StrCat(sign, "0.", std::string(static_cast<size_t>(-exponent - 1), '0'), digits);
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return absl::StrCat(sign, digits, std::string(whole - digits.size(), '0'), ".0");
  return absl::StrCat(sign, digits.substr(0, whole), ".", digits.substr(whole));
}

template <typename T>
bool parse(const std::string& text, T& out) {
  const absl::string_view s = absl::StripAsciiWhitespace(text);
  if constexpr (std::is_same_v<T, bool>) {
    return absl::SimpleAtob(s, &out);
  } else if constexpr (std::is_same_v<T, float>) {
    return absl::SimpleAtof(s, &out);
  } else if constexpr (std::is_same_v<T, double> || is_half<T>) {
    double v = 0;
    if (!absl::SimpleAtod(s, &v)) return false;
    out = convert_number<T>(v);
    return true;
  } else {
    const char* first = s.data() + ((!s.empty() && s[0] == '+') ? 1 : 0);
    const auto r = std::from_chars(first, s.data() + s.size(), out);
    return r.ec == std::errc() && r.ptr == s.data() + s.size();
  }
}

using CastTypes = Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                        uint32_t, uint64_t, bool>;
}  // namespace

Status cast_to_string(DType from, const void* in, std::string* out, int64_t begin, int64_t end) {
  const bool known = dispatch(from, CastTypes{}, [&]<typename T>() {
    for (int64_t i = begin; i < end; ++i) {
      if constexpr (std::is_same_v<T, bool>)
        out[i] = static_cast<const uint8_t*>(in)[i] ? "True" : "False";
      else if constexpr (std::is_integral_v<T>)
        out[i] = absl::StrCat(
            static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(static_cast<const T*>(in)[i]));
      else
        out[i] = float_text(static_cast<const T*>(in)[i]);
    }
  });
  return known ? absl::OkStatus() : unsupported(absl::StrCat("no kernel casts ", name(from), " to str"));
}

Status cast_from_string(DType to, const std::string* in, void* out, int64_t begin, int64_t end) {
  Status status;
  const bool known = dispatch(to, CastTypes{}, [&]<typename T>() {
    for (int64_t i = begin; i < end; ++i) {
      T v{};
      if (!parse(in[i], v)) {
        status = invalid(
            absl::StrCat("element ", i, " is \"", in[i].substr(0, 40), "\", which is no number of type ", name(to)));
        return;
      }
      static_cast<T*>(out)[i] = v;
    }
  });
  return known ? status : unsupported(absl::StrCat("no kernel casts str to ", name(to)));
}

void equal_strings(const Broadcast& shape, const std::string* a, const std::string* b, uint8_t* out, int64_t begin,
                   int64_t end) {
  for (int64_t i = begin; i < end; ++i) out[i] = a[shape.offset_of(0, i)] == b[shape.offset_of(1, i)];
}

void where_strings(const Broadcast& shape, const uint8_t* condition, const std::string* a, const std::string* b,
                   std::string* out, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    out[i] = condition[shape.offset_of(0, i)] ? a[shape.offset_of(1, i)] : b[shape.offset_of(2, i)];
}

}  // namespace forethought::kernels
