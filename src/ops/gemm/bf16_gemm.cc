#include "ops/gemm/bf16_gemm.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "kernel_api/instance_cache.h"
#include "kernel_api/run_ctx.h"
#include "kernels/onednn/onednn.h"

namespace forethought {
namespace {

namespace onednn = kernels::onednn;

constexpr int64_t kRows = 64;      // of a share: one primitive serves every full block of every M
constexpr int64_t kColumns = 512;  // of a slice of B

constexpr int64_t kPrimitiveBytes = 24 * 1024;  // about, generated code included

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t slice_size(int64_t k, int64_t columns) {
  return static_cast<int64_t>(
      round_up(static_cast<size_t>(onednn::matmul_packed_size(DType::kBFloat16, k, columns)), 32));
}

// A primitive in the cache of instances; it is run by those that hold it, never by the executor.
class HeldPrimitive final : public Runnable {
 public:
  explicit HeldPrimitive(onednn::PrimitiveRef p) : primitive(std::move(p)) {}
  Status run(RunCtx&) const override { return internal("a matmul primitive is run by its instance"); }
  const onednn::PrimitiveRef primitive;
};

StatusOr<onednn::PrimitiveRef> primitive(InstanceCache* cache, const onednn::MatmulKey& k) {
  InstanceKey key("matmul.onednn");
  key.add(k.m).add(k.k).add(k.n).add(k.dtype).add(k.bias);
  key.add(k.epilogue.activation).add(k.epilogue.alpha).add(k.epilogue.beta);
  ASSIGN_OR_RETURN(const auto held,
                   cached_instance(cache, key, kPrimitiveBytes, [&]() -> StatusOr<std::shared_ptr<const Runnable>> {
                     ASSIGN_OR_RETURN(auto made, onednn::make_matmul(k));
                     return std::shared_ptr<const Runnable>(std::make_shared<HeldPrimitive>(std::move(made)));
                   }));
  return static_cast<const HeldPrimitive&>(*held).primitive;
}

class Bf16Instance final : public Runnable {
 public:
  static StatusOr<std::shared_ptr<const Bf16Instance>> make(const GemmProblem& p, InstanceCache* cache) {
    auto r = std::make_shared<Bf16Instance>();
    r->p_ = p;
    const int64_t rows[2] = {std::min(kRows, p.m), p.m % kRows}, columns[2] = {std::min(kColumns, p.n), p.n % kColumns};
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) {
        const bool whole_rows = i == 0 || rows[1] == 0, whole_columns = j == 0 || columns[1] == 0;
        ASSIGN_OR_RETURN(r->primitives_[i][j],
                         primitive(cache, {rows[whole_rows ? 0 : 1], p.k, columns[whole_columns ? 0 : 1],
                                           DType::kBFloat16, p.addend >= 0, p.epilogue}));
        r->primitive_bytes_ = std::max(r->primitive_bytes_, round_up(r->primitives_[i][j]->scratch_bytes(), 64));
      }
    r->row_blocks_ = ceil_div(p.m, kRows);
    r->slices_ = ceil_div(p.n, kColumns);
    return std::shared_ptr<const Bf16Instance>(std::move(r));
  }

  Status run(RunCtx& ctx) const override {
    auto* bias = reinterpret_cast<float*>(ctx.scratch());
    if (p_.addend >= 0) {
      const BFloat16* z = ctx.in_as<BFloat16>(p_.addend);
      for (int64_t j = 0; j < p_.n; ++j) bias[j] = static_cast<float>(z[j * p_.z_col]);
    }
    const auto* packed = reinterpret_cast<const BFloat16*>(ctx.packed[1].data());
    const BFloat16* a = ctx.in_as<BFloat16>(0);
    BFloat16* y = ctx.out_as<BFloat16>(0);
    std::mutex mutex;
    Status first;
    ctx.parallel_for(row_blocks_ * slices_, [&](int64_t u, int worker) {
      const int64_t r0 = u % row_blocks_ * kRows, rows = std::min(kRows, p_.m - r0);
      const int64_t slice = u / row_blocks_, j0 = slice * kColumns, columns = std::min(kColumns, p_.n - j0);
      const auto& primitive = primitives_[rows < kRows && r0 > 0][columns < kColumns && j0 > 0];
      std::byte* scratch = ctx.worker_scratch(worker);
      // A slice is written densely and then put in its place; a product of one slice is in its place already.
      BFloat16* out = slices_ == 1 ? y + r0 * p_.n : reinterpret_cast<BFloat16*>(scratch + primitive_bytes_);
      const Status s = primitive->run(a + r0 * p_.k, packed + slice * slice_size(p_.k, kColumns),
                                      p_.addend >= 0 ? bias + j0 : nullptr, out, scratch);
      if (!s.ok()) {
        std::lock_guard lock(mutex);
        if (first.ok()) first = s;
      } else if (slices_ > 1) {
        for (int64_t i = 0; i < rows; ++i)
          std::memcpy(y + (r0 + i) * p_.n + j0, out + i * columns, static_cast<size_t>(columns) * sizeof(BFloat16));
      }
    });
    return first;
  }

  size_t shared() const { return p_.addend >= 0 ? static_cast<size_t>(p_.n) * sizeof(float) : 0; }
  size_t worker() const { return primitive_bytes_ + (slices_ > 1 ? kRows * kColumns * sizeof(BFloat16) : 0); }
  std::string reason() const {
    return absl::StrCat(primitives_[0][0]->implementation(), ", B packed at load; ", row_blocks_ * slices_, " shares");
  }

 private:
  GemmProblem p_;
  onednn::PrimitiveRef primitives_[2][2];  // [last rows][last columns]
  size_t primitive_bytes_ = 0;
  int64_t row_blocks_ = 0, slices_ = 0;
};

}  // namespace

bool packs_bf16(Isa isa, DType dtype, int64_t matrices) {
  return dtype == DType::kBFloat16 && matrices == 1 && onednn::serves_matmul(isa, dtype);
}

PackSpec bf16_pack_spec(int input, int64_t k, int64_t n, int64_t row, int64_t col) {
  PackSpec spec;
  spec.input = input;
  spec.format = absl::StrCat("gemm.onednn.bf16.", k, "x", n, row == 1 ? ".t" : "");
  const int64_t whole = n / kColumns, rest = n % kColumns;
  spec.bytes =
      static_cast<size_t>(whole * slice_size(k, kColumns) + (rest ? slice_size(k, rest) : 0)) * sizeof(BFloat16);
  spec.pack = [=](const Tensor& t, std::span<std::byte> to) {
    auto* out = reinterpret_cast<BFloat16*>(to.data());
    for (int64_t j = 0; j < n; j += kColumns) {
      const auto* data = reinterpret_cast<const BFloat16*>(static_cast<const char*>(t.data) +
                                                           j * col * static_cast<int64_t>(sizeof(BFloat16)));
      onednn::pack_matmul(kernels::Matrix<BFloat16>{data, row, col}, k, std::min(kColumns, n - j),
                          out + j / kColumns * slice_size(k, kColumns));
    }
    return absl::OkStatus();
  };
  spec.keeps_original = true;  // for the forms that choose_bf16_gemm() refuses
  return spec;
}

StatusOr<KernelFacts> choose_bf16_gemm(const GemmProblem& p, const std::string& prefix, InstanceCache* cache) {
  if (p.m < 1 || p.k < 1 || p.n < 1) return unsupported("a size is zero");
  if (!p.batch.empty()) return unsupported("batches of A are no more rows of one matrix");
  if (p.a_col != 1 || p.a_row != p.k) return unsupported("A is not row-major");
  if (p.alpha != 1 || (p.addend >= 0 && (p.beta != 1 || p.z_row != 0)))
    return unsupported("alpha or beta is not 1, or the addend is no row");
  ASSIGN_OR_RETURN(auto instance, Bf16Instance::make(p, cache));
  KernelFacts facts;
  facts.kernel = absl::StrCat(prefix, ".onednn.bf16.", name(p.isa));
  facts.reason = instance->reason();
  facts.scratch_shared = instance->shared();
  facts.scratch_per_worker = instance->worker();
  facts.instance = std::move(instance);
  return facts;
}

}  // namespace forethought
