# SIMD sources are built for AVX2 and AVX-512 (Highway's AVX3) only; the plain reference code serves the rest.
target_compile_definitions(ft_kernels PRIVATE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")
