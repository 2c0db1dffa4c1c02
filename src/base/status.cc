#include "base/status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/one_line.h"

namespace forethought {
namespace {

constexpr int kPlainText = -1;

// The character that begins `text` if it is to be escaped, with its bytes in `length`; else kPlainText. Of UTF-8 these
// are the control characters and the two separators of lines and paragraphs.
int to_escape(std::string_view text, size_t* length) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  *length = 1;
  if (byte(0) < 0x20 || byte(0) == 0x7f) return byte(0);
  *length = 2;
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0) return byte(1);
  *length = 3;
  if (byte(0) == 0xe2 && byte(1) == 0x80 && (byte(2) == 0xa8 || byte(2) == 0xa9)) return 0x2000 + byte(2) - 0x80;
  *length = 1;
  return kPlainText;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (size_t at = 0, length = 1; at < text.size(); at += length) {
    const int c = to_escape(text.substr(at), &length);
    if (c == kPlainText) {
      line += text[at];
    } else if (c == '\n' || c == '\t' || c == '\r') {
      line += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
    } else if (length == 1) {
      absl::StrAppend(&line, "\\x", absl::Hex(c, absl::kZeroPad2));
    } else {
      absl::StrAppend(&line, "\\u", absl::Hex(c, absl::kZeroPad4));
    }
  }
  return line;
}

Status with_context(Status status, std::string_view context) {
  if (status.ok()) return status;
  Status out(status.code(), absl::StrCat(one_line(context), " › ", status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) { out.SetPayload(type, payload); });
  return out;
}

namespace {
Status make(absl::StatusCode code, std::string_view m) { return Status(code, one_line(m)); }
}  // namespace

Status invalid(std::string_view m) { return make(absl::StatusCode::kInvalidArgument, m); }
Status unsupported(std::string_view m) { return make(absl::StatusCode::kUnimplemented, m); }
Status not_found(std::string_view m) { return make(absl::StatusCode::kNotFound, m); }
Status exhausted(std::string_view m) { return make(absl::StatusCode::kResourceExhausted, m); }
Status internal(std::string_view m) { return make(absl::StatusCode::kInternal, m); }
Status cancelled(std::string_view m) { return make(absl::StatusCode::kCancelled, m); }

}  // namespace forethought
