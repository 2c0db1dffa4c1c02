#include "tools/support/compare.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace forethought {
namespace {

Status different(std::string_view what) { return invalid(what); }

double element(const Tensor& t, int64_t i) {
  double v = 0;
  dispatch(t.dtype, NumberTypes{}, [&]<typename T>() {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      v = static_cast<float>(t.as<T>()[i]);
    } else {
      v = static_cast<double>(t.as<T>()[i]);
    }
  });
  if (t.dtype == DType::kBool) v = t.as<uint8_t>()[i];
  return v;
}

Status compare_floats(const Tensor& got, const Tensor& expected, const Tolerance& tolerance) {
  double sum = 0, worst = -1;
  int64_t worst_at = -1, bad = 0;
  for (int64_t i = 0; i < got.elements(); ++i) {
    const double a = element(got, i), b = element(expected, i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b) continue;
    const double difference = std::fabs(a - b);
    if (tolerance.mean >= 0) {
      sum += difference;
      continue;
    }
    const double excess = difference - (tolerance.atol + tolerance.rtol * std::fabs(b));
    if (excess <= 0) continue;
    ++bad;
    if (worst_at < 0 || !(difference <= worst)) worst = difference, worst_at = i;
  }
  if (tolerance.mean >= 0) {
    const double mean = got.elements() ? sum / static_cast<double>(got.elements()) : 0;
    if (mean <= tolerance.mean) return absl::OkStatus();
    return different(absl::StrCat("the mean absolute difference is ", mean, ", above ", tolerance.mean));
  }
  if (bad == 0) return absl::OkStatus();
  return different(absl::StrCat(bad, " of ", got.elements(), " elements differ; worst at ", worst_at, ": ",
                                element(got, worst_at), " instead of ", element(expected, worst_at)));
}

Status compare_tensors(const Tensor& got, const Tensor& expected, const Tolerance& tolerance) {
  if (got.dims != expected.dims)
    return different(absl::StrCat("the shape is ", to_string(got.dims), " instead of ", to_string(expected.dims)));
  if (got.dtype != expected.dtype)
    return different(absl::StrCat("the element type is ", name(got.dtype), " instead of ", name(expected.dtype)));
  if (got.dtype == DType::kString) {
    for (int64_t i = 0; i < got.elements(); ++i)
      if (got.strings()[i] != expected.strings()[i])
        return different(
            absl::StrCat("string ", i, " is '", got.strings()[i], "' instead of '", expected.strings()[i], "'"));
    return absl::OkStatus();
  }
  if (is_floating(got.dtype)) return compare_floats(got, expected, tolerance);
  if (got.bytes() > 0 && std::memcmp(got.data, expected.data, static_cast<size_t>(got.bytes())) != 0) {
    if (tolerance.mean < 0 && kFixedWidth.contains(got.dtype)) {
      // ONNX compares integers with the same tolerance as floats.
      return compare_floats(got, expected, tolerance);
    }
    return different("the elements differ");
  }
  return absl::OkStatus();
}

}  // namespace

Status compare(const Value& got, const Value& expected, const Tolerance& tolerance) {
  if (expected.is_none()) return got.is_none() ? absl::OkStatus() : different("a value came where none was expected");
  if (got.is_none()) return different("no value came");
  if (expected.is_tensor())
    return got.is_tensor() ? compare_tensors(got.tensor(), expected.tensor(), tolerance) : different("it is no tensor");
  if (const Sequence* e = expected.sequence()) {
    const Sequence* g = got.sequence();
    if (!g) return different("it is no sequence");
    if (g->items.size() != e->items.size())
      return different(absl::StrCat("the sequence has ", g->items.size(), " elements instead of ", e->items.size()));
    for (size_t i = 0; i < e->items.size(); ++i)
      RETURN_IF_ERROR(with_context(compare(g->items[i], e->items[i], tolerance), absl::StrCat("element ", i)));
    return absl::OkStatus();
  }
  return unsupported("values of this kind cannot be compared");
}

}  // namespace forethought
