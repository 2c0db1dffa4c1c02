// What becomes of characters that end lines or steer terminals, in text and in statuses.
#include "base/one_line.h"

#include <gtest/gtest.h>

#include "base/status.h"

namespace forethought {
namespace {

TEST(OneLine, EscapesWhatEndsALineOrSteersATerminal) {
  const struct {
    std::string_view text, line;
  } rows[] = {
      {"", ""},
      {"load m.onnx › node /a (Add)", "load m.onnx › node /a (Add)"},
      {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
      {"\x1b[31m\x7f", "\\x1b[31m\\x7f"},
      {std::string_view("nul\0", 4), "nul\\x00"},
      {"名 é ‐", "名 é ‐"},
      {"\u0085\u009b\u00a0", "\\u0085\\u009b\u00a0"},
      {"\u2027\u2028\u2029\u202a", "\u2027\\u2028\\u2029\u202a"},
      {"cut \xc2", "cut \xc2"},
      {"cut \xe2\x80", "cut \xe2\x80"},
      {"C:\\new", "C:\\new"},
  };
  for (const auto& r : rows) {
    EXPECT_EQ(one_line(r.text), r.line);
    EXPECT_EQ(one_line(r.line), r.line);
  }
}

TEST(OneLine, StatusesAndTheirContextsAreLines) {
  const Status status = with_context(invalid("'a\nb' is wrong"), "node x\ny");
  EXPECT_EQ(status.message(), "node x\\ny › 'a\\nb' is wrong");
  // What is a list already stays one.
  EXPECT_EQ(with_context(Status(absl::StatusCode::kUnimplemented, "two:\n  a\n  b"), "load").message(),
            "load › two:\n  a\n  b");
}

}  // namespace
}  // namespace forethought
