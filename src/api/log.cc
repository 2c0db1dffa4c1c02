// The public log severity, version and list of providers.
#include "forethought/log.h"

#include "base/log.h"
#include "partition/provider.h"
#include "providers/cpu/cpu_provider.h"

namespace forethought::v1 {

const char* version() { return FORETHOUGHT_VERSION; }

std::vector<std::string> available_providers() {
  register_cpu_provider();
  return ProviderRegistry::global().names();
}

void set_log_severity(LogSeverity least) { ::forethought::set_log_severity(static_cast<Severity>(least)); }

LogSeverity log_severity() { return static_cast<LogSeverity>(::forethought::log_severity()); }

}  // namespace forethought::v1
