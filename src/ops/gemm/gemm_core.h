// What Gemm and MatMul run: a batch of matrix products with an addend and an activation, at one shape.
#pragma once

#include <string>
#include <vector>

#include "kernel_api/kernel.h"
#include "kernels/gemm/sgemm.h"

namespace forethought {

class InstanceCache;

// y[batch] = activation(alpha * A·B + beta * addend). Inputs: 0 A, 1 B, `addend`; output 0, row-major [batch..., m, n].
// Strides are in elements; batch strides have one entry a batch dimension of the output, 0 where an input broadcasts.
struct GemmProblem {
  Isa isa = Isa::scalar;
  DType dtype = DType::kFloat;
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_col = 1, b_row = 0, b_col = 1;
  Dims batch;              // of the output
  Dims a_batch;            // elements
  Dims b_batch;            // in matrices of B
  int64_t b_matrices = 1;  // how many B holds
  // Of a B that is a strided view: how many matrices there are along each of its own batch dims, and how many elements
  // apart. Empty: all follow one another.
  Dims b_own, b_steps;
  bool b_packed = false;  // by gemm_pack_spec()
  int addend = -1;        // input; -1: none
  int64_t z_row = 0, z_col = 0, z_elements = 0;
  float alpha = 1, beta = 1;
  kernels::Epilogue epilogue;  // f32 and the half types only

  // The element of B at which matrix number `index` begins.
  int64_t b_at(int64_t index) const;
};

// How a constant B of [matrices, k, n] (each element (p, j) at p * row + j * col) is packed; nothing where the kernels
// read it as it is.
std::vector<PackSpec> gemm_pack_spec(Isa isa, int input, DType dtype, int64_t matrices, int64_t k, int64_t n,
                                     int64_t row, int64_t col);
// Kernel::takes_view() of an operator whose inputs 0 and 1 are A and B.
bool gemm_takes_view(const PrepareCtx& ctx, int input, ViewUnit unit, int readers);
// Chooses by type and tier; `prefix` is "gemm" or "matmul".
StatusOr<KernelFacts> choose_gemm(const GemmProblem& p, const std::string& prefix, InstanceCache* cache);
// For what choose_gemm() chose.
Refit refit_gemm(const GemmProblem& p, const Runnable& earlier);

}  // namespace forethought
