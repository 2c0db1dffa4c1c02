// Blocks of bytes that the sessions of a process share by what they hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace forethought {

// Blocks by a hash of their content, each there as long as somebody holds it. A hash is no proof: callers compare, and
// no lock is held while they do. Thread safe; blocks may outlive the store.
template <typename Block>
class ContentStore {
 public:
  using Ref = std::shared_ptr<const Block>;

  // A block of this hash of which `same` is true; null: there is none. `same` gives a bool.
  template <typename Same>
  Ref find(uint64_t hash, Same&& same) const {
    for (Ref& block : state_->of(hash))
      if (same(*block)) return std::move(block);
    return nullptr;
  }

  // The block, shared from now on, unless an equal one was put in before: then that one.
  template <typename Same>
  Ref put(uint64_t hash, std::unique_ptr<const Block> made, Same&& same) {
    const Ref mine(made.release(), [state = state_, hash](const Block* block) {
      delete block;
      state->forget(hash);
    });
    std::vector<Ref> compared;
    for (;;) {
      std::vector<Ref> others = state_->put_unless_new(hash, mine, compared);
      if (others.empty()) return mine;
      for (const Ref& block : others)
        if (same(*block)) return block;
      compared.insert(compared.end(), others.begin(), others.end());
    }
  }

  size_t size() const {
    const std::lock_guard lock(state_->mutex);
    return state_->blocks.size();
  }

 private:
  struct State {
    std::vector<Ref> of(uint64_t hash) {
      const std::lock_guard lock(mutex);
      return of_locked(hash);
    }
    std::vector<Ref> of_locked(uint64_t hash) const {
      std::vector<Ref> found;
      for (auto [it, end] = blocks.equal_range(hash); it != end; ++it)
        if (Ref block = it->second.lock()) found.push_back(std::move(block));
      return found;
    }
    // Those that were not compared yet; none: now `mine` is there too.
    std::vector<Ref> put_unless_new(uint64_t hash, const Ref& mine, const std::vector<Ref>& compared) {
      const std::lock_guard lock(mutex);
      std::vector<Ref> others = of_locked(hash);
      std::erase_if(others, [&](const Ref& block) { return std::ranges::find(compared, block) != compared.end(); });
      if (others.empty()) blocks.emplace(hash, mine);
      return others;
    }
    void forget(uint64_t hash) {
      const std::lock_guard lock(mutex);
      for (auto [it, end] = blocks.equal_range(hash); it != end;) it = it->second.expired() ? blocks.erase(it) : ++it;
    }
    std::mutex mutex;
    std::unordered_multimap<uint64_t, std::weak_ptr<const Block>> blocks;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace forethought
