// How a kernel picks a build of its Highway source. A SIMD source has this shape (x_simd.cc):
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/x/x_simd.cc"
//   #include "hwy/foreach_target.h"
//   #include "hwy/highway.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace forethought::kernels {
//   namespace HWY_NAMESPACE {
//   #if HWY_TARGET != HWY_SCALAR
//   void f_impl(...) {...}
//   #endif
//   }
//   }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace forethought::kernels {
//   void f_simd(Isa isa, ...) { FT_SIMD(isa, f_impl)(...); }
//   }
//   #endif
//
// room.cmake leaves Highway the targets AVX2 and AVX3, and SCALAR as the baseline that it insists on and nobody calls.
#pragma once

#include "base/cpu.h"

#define FT_SIMD(isa, f) (*((isa) == ::forethought::Isa::avx512 ? &N_AVX3::f : &N_AVX2::f))
