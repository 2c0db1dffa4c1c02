# Tests of the executor count calls for memory.
list(APPEND tests ${CMAKE_CURRENT_SOURCE_DIR}/memory/memory_calls_testing.cc)
