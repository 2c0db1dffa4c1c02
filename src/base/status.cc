#include "base/status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace forethought {

Status with_context(Status status, std::string_view context) {
  if (status.ok()) return status;
  Status out(status.code(), absl::StrCat(absl::string_view(context.data(), context.size()), " › ", status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) { out.SetPayload(type, payload); });
  return out;
}

namespace {
Status make(absl::StatusCode code, std::string_view m) { return Status(code, absl::string_view(m.data(), m.size())); }
}  // namespace

Status invalid(std::string_view m) { return make(absl::StatusCode::kInvalidArgument, m); }
Status unsupported(std::string_view m) { return make(absl::StatusCode::kUnimplemented, m); }
Status not_found(std::string_view m) { return make(absl::StatusCode::kNotFound, m); }
Status exhausted(std::string_view m) { return make(absl::StatusCode::kResourceExhausted, m); }
Status internal(std::string_view m) { return make(absl::StatusCode::kInternal, m); }
Status cancelled(std::string_view m) { return make(absl::StatusCode::kCancelled, m); }

}  // namespace forethought
