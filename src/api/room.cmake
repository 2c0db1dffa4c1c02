# Inside the library the public names stand in forethought::v1 alone, beside the library's own.
target_compile_definitions(ft_api PRIVATE FORETHOUGHT_INSIDE FORETHOUGHT_VERSION="${PROJECT_VERSION}")

# Its tests let allocations fail.
list(APPEND tests ${CMAKE_CURRENT_SOURCE_DIR}/memory/memory_calls_testing.cc)
