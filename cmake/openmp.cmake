# OpenMP::OpenMP_CXX: the OpenMP runtime that Debian's oneDNN is linked with (GCC's), whichever compiler builds us.
# Nothing of ours uses OpenMP pragmas: only its API is called, to give each oneDNN primitive one thread.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  find_package(OpenMP REQUIRED COMPONENTS CXX)
else()
  execute_process(COMMAND gcc -print-file-name=include/omp.h OUTPUT_VARIABLE header OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND gcc -print-file-name=libgomp.so OUTPUT_VARIABLE library OUTPUT_STRIP_TRAILING_WHITESPACE)
  # The header alone (the rest of GCC's folder clashes with that of another compiler), without what only GCC understands.
  file(READ ${header} text)
  string(REGEX REPLACE "__malloc__ *\\([a-z_]+\\)" "__malloc__" text "${text}")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/openmp/omp.h CONTENT "${text}" @ONLY)
  add_library(OpenMP::OpenMP_CXX INTERFACE IMPORTED)
  target_include_directories(OpenMP::OpenMP_CXX SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/openmp)
  target_link_libraries(OpenMP::OpenMP_CXX INTERFACE ${library})
endif()
