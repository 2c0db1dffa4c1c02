// Matrix products in bf16 through oneDNN, for constant B: bf16 dot products, sums in f32, rounded once.
#pragma once

#include <vector>

#include "kernel_api/kernel.h"
#include "ops/gemm/gemm_core.h"

namespace forethought {

class InstanceCache;

// Whether a constant B of this type is packed for oneDNN on this machine.
bool packs_bf16(Isa isa, DType dtype, int64_t matrices);
// How: slices of columns, each packed by itself, so that shares of few rows and many columns write dense blocks.
PackSpec bf16_pack_spec(int input, int64_t k, int64_t n, int64_t row, int64_t col);
// For p.b_packed of bf16_pack_spec()'s format. Refuses (unimplemented) addends that are no row of columns, and factors.
StatusOr<KernelFacts> choose_bf16_gemm(const GemmProblem& p, const std::string& prefix, InstanceCache* cache);

}  // namespace forethought
