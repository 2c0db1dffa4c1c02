// Dropout: the identity, or in training mode a random mask and a scale of 1/(1 - ratio).
#include "kernels/pointwise/dropout.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/hash.h"
#include "kernels/pointwise/convert_number.h"
#include "ops/op.h"

namespace forethought {
namespace {

// A node without a seed draws another stream at each run.
uint32_t fresh_seed() {
  static std::atomic<uint64_t> runs{0};
  return static_cast<uint32_t>(mix64(runs.fetch_add(1, std::memory_order_relaxed) + 1));
}

// The single number of a float tensor.
double scalar_of(DType dtype, const void* data) {
  double v = 0;
  dispatch(dtype, FloatTypes{},
           [&]<typename T>() { v = kernels::convert_number<double>(*static_cast<const T*>(data)); });
  return v;
}

template <typename T>
void scale_kept(const T* in, T* out, const uint8_t* keep, int64_t n, double scale) {
  using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const W s = static_cast<W>(scale);
  for (int64_t i = 0; i < n; ++i) out[i] = keep[i] ? static_cast<T>(static_cast<W>(in[i]) * s) : T(W{0});
}

}  // namespace

struct Dropout {
  std::optional<int64_t> seed;
  static constexpr OpName name{"Dropout"};
  static constexpr auto attrs = std::tuple{attr("seed", &Dropout::seed)};
  static constexpr Traits traits{.min_inputs = 1,
                                 .max_inputs = 3,
                                 .max_outputs = 2,
                                 .in = {kFloats, kFloats, DType::kBool},
                                 .may_overwrite = 1,
                                 .contents = 0b100,
                                 .foldable = false};

  Status infer(InferCtx& c) const {
    for (int i = 1; i < 3; ++i) {
      const Dim n = c.has_in(i) ? c.shape(i).elements() : Dim(1);
      if (n.is_known() && n.value() != 1)
        return invalid(absl::StrCat("input ", i, " (", i == 1 ? "ratio" : "training_mode", ") has shape ",
                                    to_string(c.shape(i)), "; it is one element"));
    }
    c.set(0, c.dtype(0), c.shape(0));
    c.set(1, DType::kBool, c.shape(0));
    c.by_formula();
    return absl::OkStatus();
  }
  bool accepts(LayoutQuery& q) const {
    const bool plain_copy = q.outputs.size() == 1 && (q.input_types.size() < 3 || !q.input_types[2]);
    if (plain_copy) q.outputs[0] = q.inputs[0];
    return plain_copy;
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    const bool given = ctx.inputs.size() > 2 && ctx.inputs[2].present;
    const Tensor* constant = given ? ctx.inputs[2].constant : nullptr;
    if (!given || (constant != nullptr && *constant->as<uint8_t>() == 0)) {
      facts.kernel = "dropout.identity";
      facts.aliases.push_back({0, 0, 0});
    }
    return facts;
  }
  Status run(RunCtx& c) const {
    const bool training = c.has_in(2) && *c.in_as<uint8_t>(2) != 0;
    const double ratio = training ? (c.has_in(1) ? scalar_of(c.in(1).dtype, c.in(1).data) : 0.5) : 0;
    if (!(ratio >= 0 && ratio < 1))
      return invalid(absl::StrCat("input 1 (ratio) is ", ratio, "; it must be in [0, 1)"));
    if (ratio == 0) return copy(c);
    kernels::Mt19937 random(seed ? static_cast<uint32_t>(*seed) : fresh_seed());
    const int64_t n = c.in(0).elements;
    uint8_t chunk[1024];
    // One stream, so in order.
    for (int64_t i = 0; i < n; i += static_cast<int64_t>(sizeof chunk)) {
      const int64_t count = std::min<int64_t>(sizeof chunk, n - i);
      uint8_t* keep = c.has_out(1) ? c.out_as<uint8_t>(1) + i : chunk;
      kernels::dropout_mask(random, ratio, {keep, static_cast<size_t>(count)});
      dispatch(c.in(0).dtype, FloatTypes{},
               [&]<typename T>() { scale_kept(c.in_as<T>(0) + i, c.out_as<T>(0) + i, keep, count, 1 / (1 - ratio)); });
    }
    return absl::OkStatus();
  }

 private:
  static Status copy(const RunCtx& c) {
    const int64_t bytes = c.in(0).storage() * (bit_width(c.in(0).dtype) / 8);
    if (!c.aliased(0, 0)) {
      parallel_ranges(c, bytes, int64_t{1} << 20, [&](int64_t begin, int64_t end, int) {
        std::memcpy(c.out_as<char>(0) + begin, c.in_as<char>(0) + begin, static_cast<size_t>(end - begin));
      });
    }
    if (c.has_out(1)) std::fill_n(c.out_as<uint8_t>(1), c.out(1).elements, uint8_t{1});
    return absl::OkStatus();
  }
};
DEFINE_OP(Dropout)

}  // namespace forethought
