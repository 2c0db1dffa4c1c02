# Where a test finds its data.
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/plan/exact_test.cc PROPERTIES
  COMPILE_DEFINITIONS FORETHOUGHT_HARD_SETS="${CMAKE_SOURCE_DIR}/tests/data/minimalloc")
