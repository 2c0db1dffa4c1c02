# Compiler flags that every target shares.
add_library(ft_flags INTERFACE)
target_compile_options(ft_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers
                       # False ones: of strings, and of absl::InlinedVector in values that move, which GCC 12 reads wrongly.
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-maybe-uninitialized -Wno-free-nonheap-object>
                       $<$<CONFIG:Release>:-O2 -fno-plt>)
target_compile_definitions(ft_flags INTERFACE $<$<BOOL:${FORETHOUGHT_DEBUG_CHECKS}>:FORETHOUGHT_DEBUG_CHECKS=1>)
target_include_directories(ft_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/generated)
# The baseline is x86-64; faster code is chosen at run time, per function.
set(CMAKE_CXX_FLAGS_RELEASE "-DNDEBUG")
if(FORETHOUGHT_SANITIZE)
  add_compile_options(-fsanitize=${FORETHOUGHT_SANITIZE} -fno-omit-frame-pointer -g1 -O1)
  add_link_options(-fsanitize=${FORETHOUGHT_SANITIZE})
  if(FORETHOUGHT_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
if(FORETHOUGHT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
