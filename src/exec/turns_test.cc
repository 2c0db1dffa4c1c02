// What counts as coming by turns.
#include "exec/turns.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "exec/program.h"

namespace forethought {
namespace {

// Programs are letters; each hands out ten times its place in the alphabet: 'a' 10, 'b' 20.
int64_t bytes_after(const std::string& runs) {
  static const Program programs[26];
  Turns turns;
  for (const char r : runs) turns.ran(&programs[r - 'a'], 10 * (r - 'a' + 1));
  return turns.bytes();
}

TEST(Turns, AreTheRoundsOfProgramsThatCameBackTwice) {
  struct Case {
    const char* runs;
    int64_t bytes;
  };
  const Case cases[] = {
      {"", 0},
      {"aaaaaa", 0},             // no change of shape
      {"abcdefgh", 0},           // each once
      {"aabbccddeeff", 0},       // each twice in a row
      {"abcab", 0},              // came back once
      {"abab", 0},               //
      {"ababa", 30},             // a, b, a
      {"abcdabcda", 100},        // four by turns
      {"aabbaabbaa", 30},        // rows of runs by turns
      {"abababcdcdcd", 70},      // the larger of two rounds
      {"abcdefghijklmnopa", 0},  // p is the sixteenth: a is still known, but came once only
      {"ababacdefghijkl", 30},   // what came later and once changes nothing
      {"abcdefghijklmnopqabcdefghijklmnopqabcdefghijklmnopq", 0},  // seventeen by turns are not remembered
      {"abcdefghijklmnopabcdefghijklmnopabcdefghijklmnop", 10 * 16 * 17 / 2},
  };
  for (const Case& c : cases) EXPECT_EQ(bytes_after(c.runs), c.bytes) << c.runs;
}

TEST(Turns, ThousandLengthsAreHardlyEverTakenForTurnsAndNeverForMoreThanSixteen) {
  std::vector<Program> programs(4096);
  std::mt19937 random(1);
  Turns turns;
  for (int i = 0; i < 1000; ++i) {
    const size_t length = random() % programs.size();
    turns.ran(&programs[length], static_cast<int64_t>(length));
  }
  EXPECT_EQ(turns.bytes(), 0);
  for (int i = 0; i < 10000; ++i) {
    const size_t length = random() % 64;
    turns.ran(&programs[length], static_cast<int64_t>(length));
  }
  EXPECT_GT(turns.bytes(), 0);
  EXPECT_LE(turns.bytes(), 16 * 63);
  turns.forget();
  EXPECT_EQ(turns.bytes(), 0);
}

}  // namespace
}  // namespace forethought
