#include "ops/gemm/gemm_core.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "kernel_api/run_ctx.h"
#include "kernels/convert/half_tile.h"
#include "ops/gemm/bf16_gemm.h"

namespace forethought {
namespace {

using kernels::Finish;
using kernels::Matrix;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
bool is_half(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }

// Offsets of one batch entry: elements of A, matrices of B.
struct BatchEntry {
  int64_t a = 0, b = 0;
};
BatchEntry entry(const GemmProblem& p, int64_t index) {
  BatchEntry e;
  for (int d = static_cast<int>(p.batch.size()) - 1; d >= 0; --d) {
    const int64_t i = index % p.batch[d];
    index /= p.batch[d];
    e.a += i * p.a_batch[d];
    e.b += i * p.b_batch[d];
  }
  return e;
}

StatusOr<int64_t> scratch_floats(std::initializer_list<int64_t> factors) {
  std::vector<int64_t> f(factors);
  f.push_back(sizeof(float));
  const auto n = checked_product(f);
  if (!n || *n > (int64_t{1} << 60)) return unsupported("scratch sizes overflow");
  return *n / static_cast<int64_t>(sizeof(float));
}

// --- f32 and, through f32, f16 and bf16.
class SgemmInstance final : public Runnable {
 public:
  static StatusOr<std::shared_ptr<const SgemmInstance>> make(const GemmProblem& p) {
    auto r = std::make_shared<SgemmInstance>();
    r->p_ = p;
    r->batches_ = checked_product(p.batch).value_or(0);
    r->panel_ = kernels::sgemm_panel(p.isa);
    r->panels_ = kernels::sgemm_panels(p.isa, p.n);
    r->matrix_size_ = kernels::sgemm_packed_size(p.isa, p.k, p.n);
    r->split();
    // Packing B costs about as much as one pass of a register tile over it; below a few tiles it is read in place.
    r->in_place_ = !p.b_packed && p.dtype == DType::kFloat && p.b_col == 1 && p.m < 3 * kernels::sgemm_rows(p.isa);
    r->packs_from_ = p.b_packed ? r->panels_ : r->in_place_ ? p.n / r->panel_ : 0;
    int64_t shared = 0;
    if (r->packs_from_ < r->panels_) {
      ASSIGN_OR_RETURN(shared, scratch_floats({p.b_matrices, r->packed_panels() * r->panel_, p.k}));
    }
    r->addend_at_ = static_cast<size_t>(shared + 15) / 16 * 16;
    r->shared_ = r->addend_at_ * sizeof(float);
    if (is_half(p.dtype)) {
      r->shared_ += static_cast<size_t>(p.z_elements) * sizeof(float);
      ASSIGN_OR_RETURN(const int64_t a, scratch_floats({r->row_block_, p.k}));
      ASSIGN_OR_RETURN(const int64_t c, scratch_floats({r->row_block_, r->panel_block_ * r->panel_}));
      r->c_at_ = static_cast<size_t>(a + 15) / 16 * 16;
      r->worker_ = (r->c_at_ + static_cast<size_t>(c)) * sizeof(float);
    }
    return std::shared_ptr<const SgemmInstance>(std::move(r));
  }

  Status run(RunCtx& ctx) const override {
    if (p_.dtype == DType::kFloat16) return run_typed<Float16>(ctx);
    if (p_.dtype == DType::kBFloat16) return run_typed<BFloat16>(ctx);
    return run_typed<float>(ctx);
  }
  size_t shared() const { return shared_; }
  size_t worker() const { return worker_; }
  // How B is read.
  std::string_view way() const {
    return p_.b_packed              ? "B packed at load"
           : packs_from_ == 0       ? "B packed at each run"
           : packs_from_ == panels_ ? "B read in place: few rows"
                                    : "B read in place but for its last columns: few rows";
  }
  std::string reason() const {
    std::string s(way());
    if (p_.dtype != DType::kFloat) absl::StrAppend(&s, "; ", name(p_.dtype), " through f32");
    return s;
  }

 private:
  // Shares follow from the sizes alone: about half a million products each, no more than are useful to 32 threads.
  void split() {
    row_block_ = std::min<int64_t>(std::max<int64_t>(p_.m, 1), 8 * kernels::sgemm_rows(p_.isa));
    panel_block_ = std::max<int64_t>(panels_, 1);
    const auto work = [&] {
      return static_cast<double>(row_block_) * static_cast<double>(panel_block_ * panel_) * static_cast<double>(p_.k);
    };
    const auto count = [&] { return batches_ * ceil_div(p_.m, row_block_) * ceil_div(panels_, panel_block_); };
    while (count() < 64 && work() > 1e6) {
      if (panel_block_ > 1) {
        panel_block_ = ceil_div(panel_block_, 2);
      } else if (row_block_ > kernels::sgemm_rows(p_.isa)) {
        row_block_ = std::max(kernels::sgemm_rows(p_.isa), row_block_ / 2);
      } else {
        break;
      }
    }
    row_blocks_ = ceil_div(p_.m, row_block_);
    panel_blocks_ = ceil_div(panels_, panel_block_);
  }
  int64_t packed_panels() const { return panels_ - packs_from_; }

  // Packs those panels of each B that are not read in place. Scratch holds them alone, matrix by matrix.
  template <typename T>
  void pack(RunCtx& ctx, float* to) const {
    const T* b = ctx.in_as<T>(1);
    const int64_t count = packed_panels(), size = count * panel_ * p_.k, skipped = packs_from_ * panel_;
    const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, panel_ * p_.k));
    parallel_ranges(ctx, p_.b_matrices * count, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t u = begin; u < end; ++u) {
        const Matrix<T> m{b + p_.b_at(u / count) + skipped * p_.b_col, p_.b_row, p_.b_col};
        kernels::sgemm_pack<T>(p_.isa, m, p_.k, p_.n - skipped, to + u / count * size, u % count, u % count + 1);
      }
    });
  }

  // Panels [begin, end) of C's rows [r0, r1), wherever the panels of B lie.
  void multiply(const float* in_place, const float* packed, const Matrix<float>& a, float* c, int64_t c_stride,
                int64_t r0, int64_t r1, int64_t begin, int64_t end) const {
    const int64_t cut = p_.b_packed ? 0 : packs_from_;
    const int64_t middle = std::clamp(cut, begin, end);
    if (begin < middle)
      kernels::sgemm(p_.isa, a, kernels::sgemm_in_place(p_.isa, in_place, p_.b_row), p_.n, p_.k, c, c_stride, r0, r1,
                     begin, middle, false);
    if (middle < end) {
      const float* base = packed - cut * panel_ * p_.k;
      kernels::sgemm(p_.isa, a, kernels::sgemm_packed(p_.isa, base, p_.k), p_.n, p_.k, c, c_stride, r0, r1, middle, end,
                     false);
    }
  }

  template <typename T>
  Status run_typed(RunCtx& ctx) const {
    constexpr bool kHalf = !std::is_same_v<T, float>;
    auto* shared = reinterpret_cast<float*>(ctx.scratch());
    if (packs_from_ < panels_) pack<T>(ctx, shared);
    const float* packed = p_.b_packed ? reinterpret_cast<const float*>(ctx.packed[1].data()) : shared;
    const int64_t packed_size = (p_.b_packed ? panels_ : packed_panels()) * panel_ * p_.k;
    Finish finish{p_.alpha, p_.beta, {nullptr, p_.z_row, p_.z_col}, p_.epilogue};
    if (p_.addend >= 0) {
      if constexpr (kHalf) {
        kernels::widen(p_.isa, ctx.in_as<T>(p_.addend), shared + addend_at_, p_.z_elements);
        finish.addend.data = shared + addend_at_;
      } else {
        finish.addend.data = ctx.in_as<float>(p_.addend);
      }
    }
    const T* a = ctx.in_as<T>(0);
    T* y = ctx.out_as<T>(0);
    ctx.parallel_for(batches_ * row_blocks_ * panel_blocks_, [&](int64_t u, int worker) {
      // Shares that meet the same panels of B follow each other.
      const int64_t r0 = u % row_blocks_ * row_block_, r1 = std::min(p_.m, r0 + row_block_);
      const int64_t p0 = u / row_blocks_ % panel_blocks_ * panel_block_, p1 = std::min(panels_, p0 + panel_block_);
      const int64_t index = u / (row_blocks_ * panel_blocks_);
      const BatchEntry e = entry(p_, index);
      const int64_t j0 = p0 * panel_, j1 = std::min(p_.n, p1 * panel_);
      T* out = y + index * p_.m * p_.n;
      const float* panels = packed + e.b * packed_size;
      if constexpr (!kHalf) {
        const float* b = ctx.in_as<float>(1) + (in_place_ ? p_.b_at(e.b) : 0);
        multiply(b, panels, {a + e.a, p_.a_row, p_.a_col}, out, p_.n, r0, r1, p0, p1);
        kernels::sgemm_finish(p_.isa, finish, out, p_.n, r0, r1, j0, j1);
      } else {
        auto* rows = reinterpret_cast<float*>(ctx.worker_scratch(worker));
        float* c = rows + c_at_;
        for (int64_t i = r0; i < r1; ++i) {
          const T* from = a + e.a + i * p_.a_row;
          float* to = rows + (i - r0) * p_.k;
          if (p_.a_col == 1) {
            kernels::widen(p_.isa, from, to, p_.k);
          } else {
            for (int64_t q = 0; q < p_.k; ++q) to[q] = static_cast<float>(from[q * p_.a_col]);
          }
        }
        // The block's C stands alone in scratch: rows from 0, columns at their place less j0.
        const int64_t stride = panel_block_ * panel_;
        multiply(nullptr, panels, {rows, p_.k, 1}, c - j0, stride, 0, r1 - r0, p0, p1);
        Finish here = finish;
        if (here.addend.data) here.addend.data += r0 * p_.z_row;
        kernels::sgemm_finish(p_.isa, here, c - j0, stride, 0, r1 - r0, j0, j1);
        for (int64_t i = r0; i < r1; ++i) kernels::narrow(p_.isa, c + (i - r0) * stride, out + i * p_.n + j0, j1 - j0);
      }
    });
    return absl::OkStatus();
  }

  GemmProblem p_;
  int64_t batches_ = 1, panel_ = 0, panels_ = 0, matrix_size_ = 0, packs_from_ = 0;
  int64_t row_block_ = 0, panel_block_ = 0, row_blocks_ = 0, panel_blocks_ = 0;
  bool in_place_ = false;
  size_t addend_at_ = 0, c_at_ = 0, shared_ = 0, worker_ = 0;
};

// --- Every type, in plain code.
class ReferenceInstance final : public Runnable {
 public:
  static constexpr int64_t kRows = 16, kCols = 256;

  explicit ReferenceInstance(const GemmProblem& p) : p_(p), batches_(checked_product(p.batch).value_or(0)) {}
  Status run(RunCtx& ctx) const override {
    using All = Types<float, double, Float16, BFloat16, int32_t, int64_t, uint32_t, uint64_t>;
    if (!dispatch(p_.dtype, All{}, [&]<typename T>() { run_typed<T>(ctx); }))
      return unsupported(absl::StrCat("there is no matrix product in ", name(p_.dtype)));
    return absl::OkStatus();
  }
  size_t worker() const { return is_half(p_.dtype) ? kRows * kCols * sizeof(float) : 0; }

 private:
  template <typename T>
  void run_typed(RunCtx& ctx) const {
    const T *a = ctx.in_as<T>(0), *b = ctx.in_as<T>(1), *z = p_.addend >= 0 ? ctx.in_as<T>(p_.addend) : nullptr;
    T* y = ctx.out_as<T>(0);
    const int64_t rows = ceil_div(p_.m, kRows), cols = ceil_div(p_.n, kCols);
    ctx.parallel_for(batches_ * rows * cols, [&](int64_t u, int worker) {
      const int64_t index = u / (rows * cols), r0 = u / cols % rows * kRows, j0 = u % cols * kCols;
      const int64_t r1 = std::min(p_.m, r0 + kRows), j1 = std::min(p_.n, j0 + kCols);
      const BatchEntry e = entry(p_, index);
      const Matrix<T> ma{a + e.a + r0 * p_.a_row, p_.a_row, p_.a_col};
      const Matrix<T> mb{b + p_.b_at(e.b) + j0 * p_.b_col, p_.b_row, p_.b_col};
      T* out = y + index * p_.m * p_.n + r0 * p_.n + j0;
      const auto addend = [&](int64_t i, int64_t j) { return z[(r0 + i) * p_.z_row + (j0 + j) * p_.z_col]; };
      if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
        auto* sums = reinterpret_cast<float*>(ctx.worker_scratch(worker));
        kernels::gemm_reference<T, float>(ma, mb, j1 - j0, p_.k, sums, kCols, 0, r1 - r0);
        for (int64_t i = 0; i < r1 - r0; ++i)
          for (int64_t j = 0; j < j1 - j0; ++j) {
            const float v = p_.alpha * sums[i * kCols + j] + (z ? p_.beta * static_cast<float>(addend(i, j)) : 0.0f);
            out[i * p_.n + j] = static_cast<T>(kernels::activate(p_.epilogue, v));
          }
        return;
      }
      kernels::gemm_reference<T, T>(ma, mb, j1 - j0, p_.k, out, p_.n, 0, r1 - r0);
      for (int64_t i = 0; i < r1 - r0; ++i)
        for (int64_t j = 0; j < j1 - j0; ++j) finish<T>(out[i * p_.n + j], z ? addend(i, j) : T{});
    });
  }
  // v = activation(alpha * v + beta * z); integers wrap, and with other factors than 1 go through f64, rounded towards
  // 0.
  template <typename T>
  void finish(T& v, T z) const {
    if constexpr (std::is_same_v<T, float>) {
      v = kernels::activate(p_.epilogue, p_.alpha * v + (p_.addend >= 0 ? p_.beta * z : 0.0f));
    } else if constexpr (std::is_same_v<T, double>) {
      v = static_cast<double>(p_.alpha) * v + (p_.addend >= 0 ? static_cast<double>(p_.beta) * z : 0.0);
    } else if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      if (p_.alpha == 1 && (p_.beta == 1 || p_.addend < 0)) {
        v = static_cast<T>(static_cast<U>(v) + static_cast<U>(z));
        return;
      }
      const double r = std::trunc(static_cast<double>(p_.alpha) * static_cast<double>(v) +
                                  static_cast<double>(p_.beta) * static_cast<double>(z));
      // Beyond the type's range the value saturates: a conversion that does not fit would be undefined.
      const double low = static_cast<double>(std::numeric_limits<T>::min());
      const double high = static_cast<double>(std::numeric_limits<T>::max());
      v = !(r > low) ? std::numeric_limits<T>::min() : r >= high ? std::numeric_limits<T>::max() : static_cast<T>(r);
    }
  }

  GemmProblem p_;
  int64_t batches_;
};

bool served_by_sgemm(Isa isa, DType dtype) { return isa != Isa::scalar && (dtype == DType::kFloat || is_half(dtype)); }

}  // namespace

int64_t GemmProblem::b_at(int64_t index) const {
  if (b_own.empty()) return index * k * n;
  int64_t at = 0;
  for (size_t d = b_own.size(); d-- > 0; index /= b_own[d]) at += index % b_own[d] * b_steps[d];
  return at;
}

std::vector<PackSpec> gemm_pack_spec(Isa isa, int input, DType dtype, int64_t matrices, int64_t k, int64_t n,
                                     int64_t row, int64_t col) {
  if (!served_by_sgemm(isa, dtype) || matrices < 1 || k < 1 || n < 1) return {};
  if (packs_bf16(isa, dtype, matrices)) return {bf16_pack_spec(input, k, n, row, col)};
  const int64_t size = kernels::sgemm_packed_size(isa, k, n);
  const auto bytes = checked_product(std::array<int64_t, 3>{matrices, size, static_cast<int64_t>(sizeof(float))});
  if (!bytes) return {};
  PackSpec spec;
  spec.input = input;
  spec.format =
      absl::StrCat("gemm.panels", kernels::sgemm_panel(isa), ".", matrices, "x", k, "x", n, row == 1 ? ".t" : "");
  spec.bytes = static_cast<size_t>(*bytes);
  spec.pack = [=](const Tensor& t, std::span<std::byte> to) {
    auto* out = reinterpret_cast<float*>(to.data());
    dispatch(dtype, Types<float, Float16, BFloat16>{}, [&]<typename T>() {
      for (int64_t i = 0; i < matrices; ++i) {
        // The matrix starts at element i * k * n of data at any alignment.
        const auto* data =
            reinterpret_cast<const T*>(static_cast<const char*>(t.data) + i * k * n * static_cast<int64_t>(sizeof(T)));
        kernels::sgemm_pack<T>(isa, {data, row, col}, k, n, out + i * size, 0, kernels::sgemm_panels(isa, n));
      }
    });
    return absl::OkStatus();
  };
  return {std::move(spec)};
}

bool gemm_takes_view(const PrepareCtx& ctx, int input, ViewUnit unit, int readers) {
  if (input > 1 || (unit != kRowUnit && unit != kColumnUnit)) return false;
  const Tensor* b = ctx.constants.size() > 1 ? ctx.constants[1] : nullptr;
  // oneDNN takes rows of A as they follow one another only.
  if (input == 0 && b && packs_bf16(ctx.isa, b->dtype, 1)) return false;
  // Each reader of columns brings them into rows while it packs: as a copy does, once for all.
  return input == 0 || unit == kRowUnit || readers == 1;
}

Refit refit_gemm(const GemmProblem& p, const Runnable& earlier) {
  const auto* before = instance_cast<SgemmInstance>(earlier);
  if (!before) return {};
  auto now = SgemmInstance::make(p);
  if (!now.ok() || (*now)->way() != before->way()) return {};
  const size_t shared = (*now)->shared(), worker = (*now)->worker();
  return {true, *std::move(now), shared, worker};
}

StatusOr<KernelFacts> choose_gemm(const GemmProblem& problem, const std::string& prefix, InstanceCache* cache) {
  GemmProblem p = problem;
  std::vector<Refusal> refused;
  if (p.b_packed && packs_bf16(p.isa, p.dtype, p.b_matrices)) {
    auto facts = choose_bf16_gemm(p, prefix, cache);
    if (facts.ok() || facts.status().code() != absl::StatusCode::kUnimplemented) return facts;
    refused.push_back({absl::StrCat(prefix, ".onednn.bf16.", name(p.isa)), std::string(facts.status().message())});
    p.b_packed = false;  // the pack is oneDNN's; the kernels below read the constant itself
  }
  KernelFacts facts;
  facts.refused = std::move(refused);
  if (served_by_sgemm(p.isa, p.dtype)) {
    ASSIGN_OR_RETURN(auto instance, SgemmInstance::make(p));
    facts.kernel = absl::StrCat(prefix, ".panels.", name(p.dtype), ".", name(p.isa));
    facts.reason = instance->reason();
    facts.scratch_shared = instance->shared();
    facts.scratch_per_worker = instance->worker();
    facts.instance = std::move(instance);
    return facts;
  }
  auto instance = std::make_shared<ReferenceInstance>(p);
  facts.kernel = absl::StrCat(prefix, ".reference.", name(p.dtype));
  const std::string vector = absl::StrCat(prefix, ".panels.", name(p.dtype), ".", name(p.isa));
  facts.refused.push_back({vector, p.isa == Isa::scalar
                                       ? "the tier is scalar"
                                       : absl::StrCat("the vector kernel computes in f32, not in ", name(p.dtype))});
  facts.scratch_per_worker = instance->worker();
  facts.instance = std::move(instance);
  return facts;
}

}  // namespace forethought
