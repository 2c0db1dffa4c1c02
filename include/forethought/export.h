// What every public header needs: the export attribute and the versioned namespace that the API lives in.
#pragma once

#define FORETHOUGHT_EXPORT __attribute__((visibility("default")))

// Users see `forethought::Session`. The names really live in `forethought::v1`, so that the library's own classes can
// have the same short names, and an incompatible later API can stand beside this one.
#ifdef FORETHOUGHT_INSIDE
#define FORETHOUGHT_BEGIN_NAMESPACE \
  namespace forethought {           \
  namespace v1 {
#else
#define FORETHOUGHT_BEGIN_NAMESPACE \
  namespace forethought {           \
  inline namespace v1 {
#endif
#define FORETHOUGHT_END_NAMESPACE \
  }                               \
  }
