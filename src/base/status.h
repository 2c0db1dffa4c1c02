// Status and StatusOr for everything a model, file, option or caller can cause, with a context chain.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace forethought {

using Status = absl::Status;
template <typename T>
using StatusOr = absl::StatusOr<T>;

// Puts `context` before the message: "load bert.onnx › node /l0/MatMul (MatMul) › input 1 is f64". Ok stays ok.
Status with_context(Status status, std::string_view context);

// Makes a status of the kind its name tells, from the parts printed one after the other (absl::StrCat rules).
// The message says what is wrong, why, and what to do.
Status invalid(std::string_view message);      // the model, file or argument is wrong
Status unsupported(std::string_view message);  // valid, but not implemented here
Status not_found(std::string_view message);
Status exhausted(std::string_view message);  // a budget or memory limit
Status internal(std::string_view message);   // a bug of ours that was noticed in time
Status cancelled(std::string_view message);

}  // namespace forethought

#define FT_CONCAT_(a, b) a##b
#define FT_CONCAT(a, b) FT_CONCAT_(a, b)

#define RETURN_IF_ERROR(expr)                                    \
  do {                                                           \
    if (::absl::Status ft_s_ = (expr); !ft_s_.ok()) [[unlikely]] \
      return ft_s_;                                              \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) FT_ASSIGN_(FT_CONCAT(ft_or_, __LINE__), lhs, expr)
#define FT_ASSIGN_(tmp, lhs, expr) \
  auto tmp = (expr);               \
  if (!tmp.ok()) [[unlikely]]      \
    return tmp.status();           \
  lhs = std::move(tmp).value()

// An invariant that no input can reach: aborts with the place when it does not hold.
#define FT_CHECK(cond)                                                                  \
  do {                                                                                  \
    if (!(cond)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #cond); \
      std::abort();                                                                     \
    }                                                                                   \
  } while (false)

#ifdef FORETHOUGHT_DEBUG_CHECKS
#define FT_DCHECK(cond) FT_CHECK(cond)
#else
#define FT_DCHECK(cond) static_cast<void>(0)
#endif
