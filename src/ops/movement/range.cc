// Range: numbers from a start by steps up to a limit, which is left out.
#include <cmath>
#include <limits>

#include "ops/movement/moves.h"

namespace forethought {
namespace {

constexpr TypeSet kRangeTypes = kFloats | DType::kInt16 | DType::kInt32 | DType::kInt64;
constexpr int64_t kGrain = 16 * 1024;

template <typename T>
constexpr bool kIsFloat = !std::is_integral_v<T>;

template <typename T>
double to_double(T v) {
  if constexpr (std::is_same_v<T, double>) return v;
  return static_cast<double>(static_cast<float>(v));
}

// Elements of range(start, limit, delta); an error where there is no such number.
template <typename T>
StatusOr<int64_t> count_of(T start, T limit, T delta) {
  if constexpr (kIsFloat<T>) {
    const double step = to_double(delta);
    if (step == 0 || !std::isfinite(step)) return invalid("delta is zero or not finite");
    const double n = std::ceil((to_double(limit) - to_double(start)) / step);
    if (std::isnan(n) || n >= 9e18) return invalid("start and limit are not finite, or too far apart");
    return n > 0 ? static_cast<int64_t>(n) : 0;
  } else {
    if (delta == 0) return invalid("delta is zero");
    if (delta > 0 ? start >= limit : start <= limit) return 0;
    const auto low = static_cast<uint64_t>(int64_t{delta > 0 ? start : limit});
    const auto high = static_cast<uint64_t>(int64_t{delta > 0 ? limit : start});
    const uint64_t step = delta > 0 ? static_cast<uint64_t>(int64_t{delta}) : -static_cast<uint64_t>(int64_t{delta});
    const uint64_t n = (high - low - 1) / step + 1;
    if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return invalid("start and limit are too far apart");
    return static_cast<int64_t>(n);
  }
}

template <typename T>
StatusOr<int64_t> count_of(const void* start, const void* limit, const void* delta) {
  return count_of<T>(kernels::load_element<T>(start, 0), kernels::load_element<T>(limit, 0),
                     kernels::load_element<T>(delta, 0));
}

template <typename T>
T element(T start, T delta, int64_t i) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(int64_t{start}) +
                          static_cast<uint64_t>(i) * static_cast<uint64_t>(int64_t{delta}));
  } else if constexpr (std::is_same_v<T, double>) {
    return start + static_cast<double>(i) * delta;
  } else {  // in float, as the newest form asks for the short types
    return T(static_cast<float>(start) + static_cast<float>(i) * static_cast<float>(delta));
  }
}

using RangeTypes = Types<float, double, Float16, BFloat16, int16_t, int32_t, int64_t>;

StatusOr<int64_t> count_elements(DType dtype, const void* start, const void* limit, const void* delta) {
  StatusOr<int64_t> n = internal("no type of Range");
  dispatch(dtype, RangeTypes{}, [&]<typename T>() { n = count_of<T>(start, limit, delta); });
  return n;
}

}  // namespace

struct Range {
  int64_t stash_type = 1;
  static constexpr OpName name{"Range"};
  static constexpr auto attrs = std::tuple{attr("stash_type", &Range::stash_type)};
  static constexpr Traits traits{.min_inputs = 3, .max_inputs = 3, .in = {kRangeTypes, kRangeTypes, kRangeTypes}};

  Status infer(InferCtx& c) const {
    for (int i = 0; i < 3; ++i) {
      const SymShape& s = c.shape(i);
      if (s.has_rank && s.elements().is_known() && s.elements() != 1)
        return invalid(absl::StrCat("input ", i, " is ", to_string(s), "; a single number is meant"));
      if (i > 0 && !c.type(i).is_unknown() && !c.type(0).is_unknown() && !(c.type(i) == c.type(0)))
        return invalid(absl::StrCat("input ", i, " is ", to_string(c.type(i)), ", input 0 is ", to_string(c.type(0))));
    }
    ASSIGN_OR_RETURN(const Dim n, length(c));
    c.set(0, c.dtype(0), SymShape(true, {n}));
    follow(c, n);
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    if (auto facts = movement::sized_at_run(*this, ctx)) return *std::move(facts);
    return default_facts(name, traits, ctx);
  }

  Status run(RunCtx& c) const {
    dispatch(c.in(0).dtype, RangeTypes{}, [&]<typename T>() {
      const T start = *c.in_as<T>(0), delta = *c.in_as<T>(2);
      T* to = c.out_as<T>(0);
      parallel_ranges(c, c.out(0).elements, kGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) to[i] = element<T>(start, delta, i);
      });
    });
    return absl::OkStatus();
  }

 private:
  static StatusOr<Dim> length(InferCtx& c) {
    const Tensor *start = c.contents(0), *limit = c.contents(1), *delta = c.contents(2);
    if (start && limit && delta && start->data && limit->data && delta->data) {
      ASSIGN_OR_RETURN(const int64_t n, count_elements(c.dtype(0), start->data, limit->data, delta->data));
      return Dim(n);
    }
    const auto ints = [&](int i) {
      const SymValue* v = c.value(i);
      return v && !v->is_float && v->ints.size() == 1 ? v->ints[0] : Dim::unknown();
    };
    const Dim from = ints(0), to = ints(1), step = ints(2);
    if (from.is_unknown() || to.is_unknown() || !step.is_known() || step.value() == 0) return Dim::unknown();
    const Dim n = step.value() > 0 ? ceil_div(to - from, step) : ceil_div(from - to, Dim(0) - step);
    return max(n, Dim(0));
  }

  // The elements of a short range of integers.
  static void follow(InferCtx& c, const Dim& n) {
    const SymValue *from = c.value(0), *step = c.value(2);
    if (!n.is_known() || n.value() > static_cast<int64_t>(kMaxPropagated) || !from || !step) return;
    if (from->is_float || step->is_float || from->ints.size() != 1 || step->ints.size() != 1) return;
    SymValue all;
    for (int64_t i = 0; i < n.value(); ++i) all.ints.push_back(from->ints[0] + step->ints[0] * Dim(i));
    c.set_value(0, std::move(all));
  }
};
DEFINE_OP(Range)

}  // namespace forethought
