// What the rewrites did and declined to do, in order, with reasons.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forethought {

// One attempt. Applied ones are numbered from 1; `limit` of the journal counts them.
struct JournalEntry {
  int number = 0;  // 0: declined
  std::string rule;
  std::string place;  // the node or value where it matched
  bool applied = false;
  std::string reason;  // why declined; or what was done, if that says more than the rule's name
};

class Journal {
 public:
  explicit Journal(int limit = -1) : limit_(limit) {}
  // False once `limit` rewrites were applied (for bisecting a wrong answer to one rewrite).
  bool may_apply() const { return limit_ < 0 || applied_ < limit_; }
  void applied(std::string_view rule, std::string place, std::string what = "") {
    entries_.push_back({++applied_, std::string(rule), std::move(place), true, std::move(what)});
  }
  void declined(std::string_view rule, std::string place, std::string reason) {
    entries_.push_back({0, std::string(rule), std::move(place), false, std::move(reason)});
  }
  const std::vector<JournalEntry>& entries() const { return entries_; }
  int applied_count() const { return applied_; }

 private:
  int limit_;
  int applied_ = 0;
  std::vector<JournalEntry> entries_;
};

}  // namespace forethought
