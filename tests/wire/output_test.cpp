#include "agent/wire/output.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace spotter::wire {
namespace {

std::string shown(std::string_view printed) {
  TerminalLines lines;
  const std::string whole = lines.feed(printed);
  return whole + lines.rest();
}

TEST(TerminalLines, KeepWhatATerminalShowsAtTheEndOfALine) {
  EXPECT_EQ(shown("one\ntwo\n"), "one\ntwo\n");
  EXPECT_EQ(shown(" 10%|#   |\r 50%|##  |\r100%|####| done\n"), "100%|####| done\n");
  EXPECT_EQ(shown("a longer line\rshort\n"), "shortger line\n") << "as a terminal overwrites";
  EXPECT_EQ(shown("a longer line\rshort\x1b[K\n"), "short\n");
  EXPECT_EQ(shown("of windows\r\n"), "of windows\n");
  EXPECT_EQ(shown("\x1b[1;32mgreen\x1b[0m\ttab\x1b]0;title\a\b!\n"), "green\tta!\n");
  EXPECT_EQ(shown("50%|█▌ |\r75%|██▎|\n"), "75%|██▎|\n") << "characters, not bytes";
}

TEST(TerminalLines, AreTheSameHoweverTheBytesArrive) {
  const std::string printed = "\x1b[31m 5%|▌\r 9%|█\x1b[0m\nend";
  TerminalLines lines;
  std::string all;
  for (const char byte : printed) all += lines.feed({&byte, 1});
  EXPECT_EQ(all, " 9%|█\n") << "the unfinished line waits";
  all += lines.rest();
  EXPECT_EQ(all, shown(printed));
}

TEST(TerminalLines, TakeLittleForALineThatNeverEnds) {
  TerminalLines lines;
  for (int i = 0; i < 100'000; ++i) EXPECT_EQ(lines.feed("\r 42%|####      |"), "");
  EXPECT_EQ(lines.rest(), " 42%|####      |\n");
  EXPECT_EQ(lines.feed(std::string(TerminalLines::longest + 3, 'x')),
            std::string(TerminalLines::longest, 'x') + "\n");
  EXPECT_EQ(lines.rest(), "xxx\n");
}

TEST(TerminalLines, SkipTheRestOfALine) {
  TerminalLines lines;
  lines.feed("half");
  lines.skip_to_next_line();
  EXPECT_EQ(lines.feed("of a line\nwhole\n"), "whole\n");
}

TEST(Mask, FindsASecretHoweverItIsCut) {
  const std::string secret = "s3cr3t-value", printed = "key=" + secret + ", again " + secret + "\n";
  for (std::size_t first = 0; first <= printed.size(); ++first)
    for (std::size_t second = first; second <= printed.size(); ++second) {
      Mask mask({secret});
      const std::string_view all = printed;
      std::string said = mask.feed(all.substr(0, first));
      said += mask.feed(all.substr(first, second - first));
      said += mask.feed(all.substr(second));
      said += mask.rest();
      EXPECT_EQ(said, "key=***, again ***\n") << first << " " << second;
    }
}

TEST(Mask, LeavesOutTheEndOfASecretBehindACut) {
  const std::string secret = "s3cr3t-value";
  for (std::size_t from = 1; from + Mask::shortest <= secret.size(); ++from) {
    Mask mask({secret});
    mask.cut();
    EXPECT_EQ(mask.feed(secret.substr(from) + " and more."), "*** and more.");
  }
}

TEST(Mask, TakesTheLongerOfTwoAndNoShortOne) {
  Mask mask({"pass", "password", "abc"});
  EXPECT_EQ(mask.feed("password pass abc pas"), "*** *** abc ");
  EXPECT_EQ(mask.rest(), "pas");
}

// Adds lines until so many pieces were begun, and gives what a directory would have.
std::map<std::uint64_t, std::string> written(std::uint64_t pieces, OutputReader* reader = nullptr) {
  OutputPieces output("job");
  std::map<std::uint64_t, std::string> slots;
  std::uint64_t line = 0;
  for (std::uint64_t newest = 0; newest + 1 < pieces;) {
    output.add({1.0 + static_cast<double>(line),
                std::to_string(line) + std::string(9000, '.') + "\n",
                0,
                {}});
    ++line;
    for (auto& [slot, bytes] : output.take_changed()) {
      const auto piece = parse_output(bytes);
      if (!piece) throw std::runtime_error("no piece: " + bytes.substr(0, 100));
      newest = std::max(newest, piece->number);
      if (reader != nullptr) reader->add("1-i", *piece);
      slots[slot] = std::move(bytes);
    }
  }
  return slots;
}

TEST(OutputPieces, AreBoundedInSizeAndKeepTheFirstAndTheLast) {
  const std::uint64_t many = OutputPieces::first_pieces + 2 * OutputPieces::last_pieces + 5;
  const auto slots = written(many);
  EXPECT_EQ(slots.size(), OutputPieces::first_pieces + OutputPieces::last_pieces);
  std::set<std::uint64_t> numbers;
  for (const auto& [slot, bytes] : slots) {
    EXPECT_LE(bytes.size(), OutputPieces::piece_bytes);
    numbers.insert(parse_output(bytes)->number);
  }
  for (std::uint64_t first = 0; first < OutputPieces::first_pieces; ++first)
    EXPECT_TRUE(numbers.contains(first));
  for (std::uint64_t last = many - OutputPieces::last_pieces; last < many; ++last)
    EXPECT_TRUE(numbers.contains(last)) << last;
}

std::string text_in(std::string_view bytes) {
  const auto piece = parse_output(bytes);
  std::string all;
  for (const auto& record : piece->records) all += record.text;
  return all;
}

TEST(OutputPieces, PartALongRecordBehindALine) {
  OutputPieces output("job");
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += "line " + std::to_string(i) + "\x01\n";
  output.add({1, text, 0, {}});
  std::string all;
  for (const auto& [slot, bytes] : output.take_changed()) {
    EXPECT_LE(bytes.size(), OutputPieces::piece_bytes);
    all += text_in(bytes);
  }
  EXPECT_EQ(all, text);
}

std::string texts(std::vector<OutputReader::Said> said) {
  std::string all;
  for (const auto& each : said)
    all += each.record.left_out > 0 ? "<" + std::to_string(each.record.left_out) + ">"
                                    : each.record.text;
  return all;
}

TEST(OutputReader, SaysEachLineOnceHoweverOftenItLooks) {
  std::string expected;
  OutputReader often;
  const auto slots = written(4, &often);
  OutputReader once;
  for (const auto& [slot, bytes] : slots) {
    expected += text_in(bytes);
    once.add("1-i", *parse_output(bytes));
  }
  EXPECT_EQ(texts(often.next()), expected);
  EXPECT_EQ(texts(often.next()), "");
  EXPECT_EQ(texts(once.next()), expected);
  OutputPiece grown = *parse_output(slots.at(3));
  grown.records.push_back({99, "new\n", 0, {}});
  once.add("1-i", grown);
  once.add("1-i", *parse_output(slots.at(1)));  // an old one again
  EXPECT_EQ(texts(once.next()), "new\n");
}

TEST(OutputReader, SaysWhatTheRingHasOverwritten) {
  OutputReader reader;
  reader.add("1-i", {"job", 0, {{1, "a\n", 0, {}}}, ""});
  reader.add("1-i", {"job", 3, {{2, "z\n", 0, {}}}, ""});
  EXPECT_EQ(texts(reader.next()), "a\n<" + std::to_string(2 * OutputPieces::piece_bytes) + ">z\n");
}

TEST(Output, ReadsWhatItWritesAndNothingElse) {
  OutputPieces output("job");
  output.add({1.5, "caf\xc3\xa9 \xff\n", 0, {}});
  output.add({2.5, "", 4096, {}});
  output.add({3.5, "", 0, "signal 9"});
  const auto piece = parse_output(output.take_changed().at(0));
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->job, "job");
  ASSERT_EQ(piece->records.size(), 3U);
  EXPECT_EQ(piece->records[0].text, "caf\xc3\xa9 \xef\xbf\xbd\n");
  EXPECT_EQ(piece->records[1].left_out, 4096U);
  EXPECT_EQ(piece->records[2].ended, "signal 9");
  EXPECT_FALSE(parse_output("hello\n"));
  EXPECT_FALSE(parse_output("{\"version\":1,\"piece\":-1}\n"));
  EXPECT_FALSE(parse_output("{\"version\":2,\"piece\":1}\n")->newer.empty());
  EXPECT_EQ(parse_output("{\"version\":1,\"piece\":1}\n{\"text\":\"x\"}\n[]\n{\"time\":1,\"te")
                ->records.size(),
            0U);
}

TEST(OutputName, IsOrderedByTime) {
  EXPECT_EQ(to_text({"1700000000000-i-0abc", 7}), "1700000000000-i-0abc-07.jsonl");
  EXPECT_EQ(parse_output_name("1700000000000-i-0abc-07.jsonl")->attempt, "1700000000000-i-0abc");
  EXPECT_EQ(parse_output_name("1700000000000-31.jsonl")->slot, 31U);
  for (const char* other : {"", "-07.jsonl", "1-7.jsonl", "1-07.json", "1-xx.jsonl", "07.jsonl"})
    EXPECT_FALSE(parse_output_name(other)) << other;
}

}  // namespace
}  // namespace spotter::wire
