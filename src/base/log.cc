#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

#include "base/knobs.h"

namespace forethought {
namespace {

Severity initial_severity() {
  const std::string v = knob_string(Knob::kLogLevel);
  if (v == "verbose") return Severity::verbose;
  if (v == "info") return Severity::info;
  if (v == "error") return Severity::error;
  if (v == "fatal") return Severity::fatal;
  return Severity::warning;
}

std::atomic<Severity>& least() {
  static std::atomic<Severity> severity{initial_severity()};
  return severity;
}

spdlog::logger& logger() {
  // Never destroyed: messages may come from threads that outlive main.
  static spdlog::logger* log = [] {
    auto* l = new spdlog::logger("forethought", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    l->set_level(spdlog::level::trace);
    l->set_pattern("%H:%M:%S.%e [%n] %^%l%$: %v");
    return l;
  }();
  return *log;
}

}  // namespace

void set_log_severity(Severity s) { least().store(s, std::memory_order_relaxed); }
Severity log_severity() { return least().load(std::memory_order_relaxed); }

void log_message(Severity severity, std::string_view message) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                  spdlog::level::err, spdlog::level::critical};
  logger().log(levels[static_cast<int>(severity)], "{}", message);
}

}  // namespace forethought
