// The registry of providers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/schema/schema.h"
#include "partition/provider.h"

namespace forethought {

ProviderRegistry& ProviderRegistry::global() {
  static auto* registry = new ProviderRegistry;
  return *registry;
}

Status ProviderRegistry::add(std::string name, Factory factory) {
  std::lock_guard lock(mutex_);
  for (const auto& [n, f] : factories_)
    if (n == name) return invalid(absl::StrCat("a provider named ", name, " is registered already"));
  factories_.emplace_back(std::move(name), std::move(factory));
  return absl::OkStatus();
}

void ProviderRegistry::remove(std::string_view name) {
  std::lock_guard lock(mutex_);
  std::erase_if(factories_, [&](const auto& f) { return f.first == name; });
}

std::vector<std::string> ProviderRegistry::names() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [n, f] : factories_) names.push_back(n);
  std::stable_partition(names.begin(), names.end(), [](const std::string& n) { return n != "CPUExecutionProvider"; });
  return names;
}

StatusOr<std::unique_ptr<Provider>> ProviderRegistry::make(std::string_view name,
                                                           const ProviderOptions& options) const {
  Factory factory;
  std::vector<std::string> known = names();
  {
    std::lock_guard lock(mutex_);
    for (const auto& [n, f] : factories_)
      if (n == name) factory = f;
  }
  const std::string wanted(name);
  if (!factory) {
    const std::vector<std::string_view> candidates(known.begin(), known.end());
    const std::string near(nearest_name(name, candidates));
    return not_found(absl::StrCat("there is no execution provider '", wanted, "'",
                                  near.empty() ? "" : absl::StrCat("; did you mean '", near, "'?"),
                                  " Available: ", absl::StrJoin(known, ", ")));
  }
  auto made = factory(options);
  if (!made.ok()) return with_context(made.status(), absl::StrCat("provider ", wanted));
  return made;
}

}  // namespace forethought
