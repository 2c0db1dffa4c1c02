// Counting, and the message of a limit that was reached.
#include "memory/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/knobs.h"

namespace forethought {
namespace {

constexpr absl::string_view kRefusalPayload = "forethought.memory_refusal";
constexpr double kLargestSize = 0x1p60;

}  // namespace

const char* name(MemoryRole role) {
  switch (role) {
    case MemoryRole::planned:
      return "planned";
    case MemoryRole::unplanned:
      return "unplanned";
    case MemoryRole::leased:
      return "leased";
    case MemoryRole::weights:
      return "weights";
    case MemoryRole::packed:
      return "packed";
  }
  return "";
}

std::string readable_bytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::vector<std::pair<std::string, int64_t>> named(const MemoryStatistics& s) {
  std::vector<std::pair<std::string, int64_t>> lines = {{"live", s.live},       {"retained", s.retained},
                                                        {"padding", s.padding}, {"mapped", s.mapped},
                                                        {"peak", s.peak},       {"limit", s.limit}};
  for (int i = 0; i < kMemoryRoles; ++i) lines.emplace_back(name(static_cast<MemoryRole>(i)), s.roles[i].live);
  for (const DeviceMemory& d : s.devices) {
    lines.emplace_back(d.device + " live", d.live);
    lines.emplace_back(d.device + " retained", d.retained);
    lines.emplace_back(d.device + " peak", d.peak);
    lines.emplace_back(d.device + " limit", d.limit);
  }
  return lines;
}

std::string to_string(const MemoryStatistics& s) {
  std::string text;
  for (int i = 0; i < kMemoryRoles; ++i) {
    const MemoryUse& use = s.roles[i];
    if (use.mapped() == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name(static_cast<MemoryRole>(i)),
                        readable_bytes(use.live + use.padding));
    if (use.retained > 0) text += fmt::format(" (+{} kept)", readable_bytes(use.retained));
  }
  return text.empty() ? "nothing" : text;
}

StatusOr<int64_t> parse_memory_size(std::string_view text) {
  if (text.empty()) return int64_t{0};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  double factor = 1;
  if (!unit.empty()) {
    static constexpr std::string_view kUnits = "KMGT";
    const size_t power = kUnits.find(unit.front() >= 'a' ? static_cast<char>(unit.front() - 'a' + 'A') : unit.front());
    if (power != std::string_view::npos) {
      factor = std::exp2(10.0 * static_cast<double>(power + 1));
      unit.remove_prefix(1);
    }
  }
  const double bytes = number * factor;
  if (error != std::errc() || !unit.empty() || !(bytes >= 0)) {
    return invalid(fmt::format("'{}' is no size of memory; give bytes, or a number with K, M, G or T", text));
  }
  if (bytes > 0 && bytes < 1) return invalid(fmt::format("'{}' is less than a byte; give 0 for no limit", text));
  if (bytes > kLargestSize) {
    return invalid(fmt::format("'{}' is more memory than any machine has; give 0 for no limit", text));
  }
  return static_cast<int64_t>(bytes);
}

MemoryBudget::MemoryBudget(int64_t limit, std::shared_ptr<MemoryBudget> parent, std::string device)
    : parent_(std::move(parent)), device_(std::move(device)), limit_(limit) {
  if (!parent_) return;
  const std::lock_guard lock(parent_->children_mutex_);
  parent_->children_.push_back(this);
}

MemoryBudget::~MemoryBudget() {
  if (!parent_) return;
  const std::lock_guard lock(parent_->children_mutex_);
  std::erase(parent_->children_, this);
}

const std::shared_ptr<MemoryBudget>& MemoryBudget::process() {
  // Never destroyed: leases may come back while the program ends.
  static const auto* const account = new std::shared_ptr<MemoryBudget>(
      std::make_shared<MemoryBudget>(parse_memory_size(knob_string(Knob::kMemoryLimit)).value_or(kUnlimited)));
  return *account;
}

std::shared_ptr<MemoryBudget> MemoryBudget::probe(std::string device) {
  auto account = std::make_shared<MemoryBudget>(kUnlimited, nullptr, std::move(device));
  account->is_probe_ = true;
  return account;
}

bool MemoryBudget::grow(int64_t bytes) {
  int64_t before = total_.load(std::memory_order_relaxed);
  do {
    const int64_t limit = this->limit();
    const int64_t most = limit > 0 ? limit : std::numeric_limits<int64_t>::max();
    if (bytes > most || before > most - bytes) return false;
  } while (!total_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < before + bytes && !peak_.compare_exchange_weak(peak, before + bytes, std::memory_order_relaxed)) {
  }
  return true;
}

MemoryBudget* MemoryBudget::grow_all(int64_t bytes) {
  if (!grow(bytes)) return this;
  if (!parent_) return nullptr;
  MemoryBudget* full = parent_->grow_all(bytes);
  if (full) total_.fetch_sub(bytes, std::memory_order_relaxed);
  return full;
}

Status MemoryBudget::reserve(MemoryRole role, int64_t bytes, std::string_view who) {
  FT_CHECK(bytes >= 0);
  MemoryBudget* full = grow_all(bytes);
  for (int tries = 0; full && tries < 2; ++tries) {  // the session's limit, then the process's
    full->reclaim();
    full = grow_all(bytes);
  }
  if (full) return refuse(*full, bytes, who);
  for (MemoryBudget* b = this; b; b = b->parent_.get()) {
    b->account(role).reserved.fetch_add(bytes, std::memory_order_relaxed);
    b->system_calls_.fetch_add(1, std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

void MemoryBudget::release(MemoryRole role, int64_t bytes) {
  for (MemoryBudget* b = this; b; b = b->parent_.get()) {
    b->account(role).reserved.fetch_sub(bytes, std::memory_order_relaxed);
    b->total_.fetch_sub(bytes, std::memory_order_relaxed);
    b->system_calls_.fetch_add(1, std::memory_order_relaxed);
  }
}

Status MemoryBudget::reserve_share(MemoryRole role, int64_t bytes, int64_t padding, std::string_view who) {
  if (!grow(bytes + padding)) {
    reclaim();
    if (!grow(bytes + padding)) return refuse(*this, bytes + padding, who);
  }
  account(role).shared_live.fetch_add(bytes, std::memory_order_relaxed);
  account(role).shared_padding.fetch_add(padding, std::memory_order_relaxed);
  return absl::OkStatus();
}

void MemoryBudget::release_share(MemoryRole role, int64_t bytes, int64_t padding) {
  account(role).shared_live.fetch_sub(bytes, std::memory_order_relaxed);
  account(role).shared_padding.fetch_sub(padding, std::memory_order_relaxed);
  total_.fetch_sub(bytes + padding, std::memory_order_relaxed);
}

Status MemoryBudget::refuse(const MemoryBudget& full, int64_t bytes, std::string_view who) const {
  const MemoryStatistics s = full.statistics();
  const bool of_process = &full != this || this == process().get();
  const int64_t least = s.mapped > std::numeric_limits<int64_t>::max() - bytes ? bytes : s.mapped + bytes;
  Status status = exhausted(fmt::format(
      "{} needs {} ({} bytes) more, but {} of the {}memory limit of {}{} are in use: {}; allow at least {} bytes, "
      "release outputs that are held, or trim what is kept",
      who, readable_bytes(bytes), bytes, readable_bytes(s.mapped), of_process ? "process's " : "",
      readable_bytes(s.limit), device_.empty() ? "" : " on " + device_, to_string(s), least));
  return as_refusal(std::move(status), {of_process, bytes, s.limit, s.mapped, device_, std::string(who)});
}

Status MemoryBudget::as_refusal(Status status, const Refusal& r) {
  status.SetPayload(kRefusalPayload, absl::Cord(absl::StrCat(r.of_process ? 1 : 0, " ", r.bytes, " ", r.limit, " ",
                                                             r.mapped, " ", r.device, " ", r.who)));
  return status;
}

std::optional<MemoryBudget::Refusal> MemoryBudget::refusal_of(const Status& status) {
  const auto payload = status.GetPayload(kRefusalPayload);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  Refusal r;
  r.of_process = text.front() == '1';
  const char* const end = text.data() + text.size();
  const auto bytes = std::from_chars(text.data() + 2, end, r.bytes);
  const auto limit = std::from_chars(bytes.ptr + 1, end, r.limit);
  const auto mapped = std::from_chars(limit.ptr + 1, end, r.mapped);
  const char* const device = mapped.ptr + 1;
  const char* const device_end = std::find(device, end, ' ');  // names of devices have no blanks
  r.device.assign(device, device_end);
  r.who.assign(device_end + 1, end);
  return r;
}

void MemoryBudget::set_reclaim(std::function<void()> give_back) {
  const std::lock_guard lock(reclaim_mutex_);
  give_back_ = std::move(give_back);
}

void MemoryBudget::reclaim() {
  {
    const std::lock_guard lock(reclaim_mutex_);
    if (give_back_) give_back_();
  }
  const std::lock_guard lock(children_mutex_);
  for (MemoryBudget* child : children_) child->reclaim();
}

void MemoryBudget::set_limit(int64_t limit) {
  limit_.store(limit, std::memory_order_relaxed);
  if (limit > 0 && mapped() > limit) reclaim();
}

MemoryStatistics MemoryBudget::statistics() const {
  MemoryStatistics s;
  const std::lock_guard lock(children_mutex_);
  for (int i = 0; i < kMemoryRoles; ++i) {
    MemoryUse& use = s.roles[i];
    const Account& own = accounts_[i];
    use.live = own.live.load(std::memory_order_relaxed);
    use.padding = own.padding.load(std::memory_order_relaxed);
    for (const MemoryBudget* child : children_) {
      use.live += child->accounts_[i].live.load(std::memory_order_relaxed);
      use.padding += child->accounts_[i].padding.load(std::memory_order_relaxed);
    }
    // What others gave back since `live` was read makes the difference negative; without others audit() would tell.
    use.retained = std::max<int64_t>(own.reserved.load(std::memory_order_relaxed) - use.live - use.padding, 0);
    use.live += own.shared_live.load(std::memory_order_relaxed);
    use.padding += own.shared_padding.load(std::memory_order_relaxed);
    s.live += use.live;
    s.retained += use.retained;
    s.padding += use.padding;
  }
  s.mapped = s.live + s.retained + s.padding;
  s.peak = std::max(peak_.load(std::memory_order_relaxed), s.mapped);
  s.limit = limit();
  s.system_calls = system_calls_.load(std::memory_order_relaxed);
  return s;
}

Status MemoryBudget::audit() const {
  const std::lock_guard lock(children_mutex_);
  for (const MemoryBudget* child : children_) RETURN_IF_ERROR(child->audit());
  int64_t total = 0;
  for (int i = 0; i < kMemoryRoles; ++i) {
    const Account& own = accounts_[i];
    int64_t live = own.live, padding = own.padding, of_children = 0;
    for (const MemoryBudget* child : children_) {
      live += child->accounts_[i].live;
      padding += child->accounts_[i].padding;
      of_children += child->accounts_[i].reserved;
    }
    const int64_t reserved = own.reserved, shared = own.shared_live + own.shared_padding;
    if (live < 0 || padding < 0 || own.shared_live < 0 || own.shared_padding < 0 || live + padding > reserved ||
        of_children > reserved) {
      return internal(
          fmt::format("{}: of {} bytes, {} of sessions, {} are live and {} padding; {} and {} more of what is shared",
                      name(static_cast<MemoryRole>(i)), reserved, of_children, live, padding, own.shared_live.load(),
                      own.shared_padding.load()));
    }
    total += reserved + shared;
  }
  if (total != mapped()) return internal(fmt::format("all roles hold {} bytes, the account {}", total, mapped()));
  return absl::OkStatus();
}

std::vector<NamedUse> MemoryBudget::named_uses() const {
  const std::lock_guard lock(named_mutex_);
  return {named_.begin(), named_.end()};
}

ListedUse::ListedUse(MemoryBudget* account, MemoryRole role, int64_t bytes, std::string_view who) : account_(account) {
  const std::lock_guard lock(account->named_mutex_);
  at_ = account->named_.insert(account->named_.end(), {role, bytes, std::string(who)});
}

ListedUse::~ListedUse() {
  if (!account_) return;
  const std::lock_guard lock(account_->named_mutex_);
  account_->named_.erase(at_);
}

StatusOr<MemoryShare> MemoryShare::take(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t bytes,
                                        int64_t padding, std::string_view who) {
  RETURN_IF_ERROR(budget->reserve_share(role, bytes, padding, who));
  MemoryShare share;
  share.budget_ = std::move(budget);
  share.role_ = role;
  share.bytes_ = bytes;
  share.padding_ = padding;
  share.listed_ = ListedUse(share.budget_.get(), role, bytes, who);
  return share;
}

}  // namespace forethought
