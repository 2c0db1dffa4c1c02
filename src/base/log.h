// Log messages, with onnxruntime's five severities; they go to standard error through spdlog, which stays hidden here.
#pragma once

#include <fmt/core.h>

#include <string_view>

namespace forethought {

enum class Severity { verbose = 0, info = 1, warning = 2, error = 3, fatal = 4 };

void set_log_severity(Severity least);
Severity log_severity();
void log_message(Severity severity, std::string_view message);

template <typename... A>
void log_at(Severity s, fmt::format_string<A...> format, A&&... args) {
  if (s >= log_severity()) log_message(s, fmt::format(format, std::forward<A>(args)...));
}
template <typename... A>
void log_verbose(fmt::format_string<A...> f, A&&... a) {
  log_at(Severity::verbose, f, std::forward<A>(a)...);
}
template <typename... A>
void log_info(fmt::format_string<A...> f, A&&... a) {
  log_at(Severity::info, f, std::forward<A>(a)...);
}
template <typename... A>
void log_warning(fmt::format_string<A...> f, A&&... a) {
  log_at(Severity::warning, f, std::forward<A>(a)...);
}
template <typename... A>
void log_error(fmt::format_string<A...> f, A&&... a) {
  log_at(Severity::error, f, std::forward<A>(a)...);
}

}  // namespace forethought
