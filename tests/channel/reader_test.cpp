// Readers of FIFOs and files: across epochs, slow writers, cut off streams, positions.
#include "trainer/library/reader.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "tests/channel/records.hpp"
#include "tests/trainer/scratch.hpp"
#include "trainer/library/files.hpp"

namespace spotter::channel {
namespace {

using checkpoint::Descriptor;
using std::chrono::milliseconds;
using test::record_of;
using test::write_file;
using Kind = Format::Kind;

void write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file, bytes.data(), bytes.size());
    ASSERT_GT(done, 0);
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
}

class Channel : public ::testing::Test {
 protected:
  std::filesystem::path path(unsigned epoch) const {
    return scratch_.path() / ("train_" + std::to_string(epoch));
  }
  std::unique_ptr<Reader> open(Format format = {}, Position start = {}) const {
    auto reader = Reader::open(
        {.channel = "train", .format = format, .folder = scratch_.path(), .start = start});
    EXPECT_TRUE(reader);
    return std::move(*reader);
  }
  void make_fifo(unsigned epoch) const { ASSERT_EQ(::mkfifo(path(epoch).c_str(), 0600), 0); }
  // Waits for the reader's open().
  Descriptor write_end(unsigned epoch) const {
    return Descriptor(::open(path(epoch).c_str(), O_WRONLY | O_CLOEXEC));
  }
  // The records up to the end of the epoch; what went wrong as the last of them.
  static std::vector<std::string> rest_of_epoch(Reader& reader) {
    std::vector<std::string> records;
    while (true) {
      const auto next = reader.next();
      if (!next) records.push_back("failed: " + next.error().message);
      if (!next || next->kind == Next::Kind::EndOfEpoch) return records;
      records.emplace_back(next->record);
    }
  }

  test::Scratch scratch_;
};

using Strings = std::vector<std::string>;

TEST_F(Channel, IsReadEpochAfterEpoch) {
  write_file(path(0), record_of("a") + record_of("bc"));
  write_file(path(1), "");
  write_file(path(2), record_of("d"));
  const auto reader = open();
  EXPECT_EQ(rest_of_epoch(*reader), Strings({"a", "bc"}));
  EXPECT_EQ(reader->position(), (Position{1, 0, 0}));
  EXPECT_EQ(rest_of_epoch(*reader), Strings());
  ASSERT_TRUE(reader->next());
  EXPECT_EQ(reader->position(), (Position{2, 12, 1}));
}

TEST_F(Channel, ThePositionIsThatOfWhatWasHandedOut) {
  std::string stream;
  for (int i = 0; i < 1000; ++i) stream += record_of(std::string(static_cast<std::size_t>(i), 'x'));
  write_file(path(3), stream);
  for (const unsigned before : {0U, 1U, 500U, 1000U}) {
    const auto reader = open({}, {3, 0, 0});
    for (unsigned i = 0; i < before; ++i) ASSERT_TRUE(reader->next());
    const Position position = reader->position();
    EXPECT_EQ(position.records, before);
    const auto again = open({}, position);
    EXPECT_EQ(rest_of_epoch(*again), rest_of_epoch(*reader));
    EXPECT_EQ(again->position(), (Position{4, 0, 0}));
  }
}

TEST_F(Channel, IsMovedAnywhere) {
  write_file(path(0), record_of("a") + record_of("b"));
  write_file(path(1), record_of("c"));
  const auto reader = open();
  EXPECT_EQ(rest_of_epoch(*reader), Strings({"a", "b"}));
  reader->move_to({0, 12, 1});
  EXPECT_EQ(reader->position(), (Position{0, 12, 1}));
  EXPECT_EQ(rest_of_epoch(*reader), Strings({"b"}));
  EXPECT_EQ(rest_of_epoch(*reader), Strings({"c"}));
}

TEST_F(Channel, ALastRecordThatIsCutOffIsAnErrorAndStaysOne) {
  for (const auto& [format, stream] :
       {std::pair(Format{Kind::RecordIo}, record_of("good") + record_of("cut off").substr(0, 12)),
        std::pair(Format{Kind::Lines}, std::string("good\ncut off")),
        std::pair(Format{Kind::Fixed, 4}, std::string("goodcut"))}) {
    write_file(path(0), stream);
    write_file(path(1), stream);
    const auto reader = open(format);
    const auto all = rest_of_epoch(*reader);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0], "good");
    EXPECT_TRUE(all[1].starts_with("failed: channel train, epoch 0, byte ")) << all[1];
    EXPECT_NE(all[1].find("the last record is cut off"), std::string::npos) << all[1];
    EXPECT_FALSE(reader->next());
  }
}

TEST_F(Channel, WhatIsNoRecordIsAnError) {
  write_file(path(0), record_of("good") + "what is this?");
  EXPECT_EQ(
      rest_of_epoch(*open()),
      Strings({"good", "failed: channel train, epoch 0, byte 12: no RecordIO record begins here"}));
}

TEST_F(Channel, AWriterThatIsSlowIsNoEnd) {
  make_fifo(0);
  const auto reader = open();
  auto next = reader->next(milliseconds(20));  // nobody has opened it to write
  ASSERT_TRUE(next);
  EXPECT_EQ(next->kind, Next::Kind::NotYet);
  auto writer = write_end(0);
  const std::string stream = record_of("one") + record_of("two");
  for (std::size_t i = 0; i < stream.size(); ++i) {
    next = reader->next(milliseconds(0));
    ASSERT_TRUE(next);
    const bool whole = i == record_of("one").size();
    EXPECT_EQ(next->kind, whole ? Next::Kind::Record : Next::Kind::NotYet) << i;
    write_all(writer.get(), stream.substr(i, 1));
  }
  writer = Descriptor();
  EXPECT_EQ(rest_of_epoch(*reader), Strings({"two"}));
  next = reader->next(milliseconds(10));  // the next FIFO may come late
  ASSERT_TRUE(next);
  EXPECT_EQ(next->kind, Next::Kind::NotYet);
  make_fifo(1);
  std::jthread late([&] { write_all(write_end(1).get(), stream); });
  EXPECT_EQ(rest_of_epoch(*reader), Strings({"one", "two"}));
}

TEST_F(Channel, RecordsOfAllSizesComeThroughAFifo) {
  std::mt19937 random(1);
  Strings expected;
  std::string stream;
  for (int i = 0; i < 300; ++i) {
    const std::size_t size = i % 50 == 7 ? 1'500'000 + random() % 3'000'000 : random() % 50'000;
    std::string record(size, '\0');
    for (std::size_t at = 0; at < size; at += 97) record[at] = static_cast<char>(random());
    stream += record_of(record);
    expected.push_back(std::move(record));
  }
  make_fifo(0);
  std::jthread writer([&] { write_all(write_end(0).get(), stream); });
  const auto reader = open();
  EXPECT_TRUE(rest_of_epoch(*reader) == expected);
}

TEST_F(Channel, BeginsInTheMiddleWhereItsFeederWasAsked) {
  const auto requests = scratch_.path() / ".start";
  std::filesystem::create_directory(requests);
  make_fifo(7);
  const auto reader = open({}, {7, 1234, 5});
  const auto next = reader->next(milliseconds(0));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->kind, Next::Kind::NotYet) << "it was read before the answer";
  EXPECT_EQ(test::read_file(requests / "train"), "7:1234\n");
  std::filesystem::remove(requests / "train");
  std::jthread feeder([&] { write_all(write_end(7).get(), record_of("rest")); });
  EXPECT_EQ(rest_of_epoch(*reader), Strings({"rest"}));
  EXPECT_TRUE(std::filesystem::is_empty(requests));
}

TEST_F(Channel, AFifoOfSomebodyWhoCannotBeAskedIsNotReadFromItsBegin) {
  make_fifo(2);
  const auto next = open({}, {2, 1234, 5})->next();
  ASSERT_FALSE(next);
  EXPECT_NE(next.error().message.find("cannot begin in the middle"), std::string::npos);
}

TEST_F(Channel, IsFoundWhereSageMakersVariableSays) {
  ::setenv("SM_CHANNEL_TRAIN", (scratch_.path() / "train").c_str(), 1);
  write_file(path(0), "a line\n");
  const auto reader = Reader::open({.channel = "train", .format = {Kind::Lines}});
  ::unsetenv("SM_CHANNEL_TRAIN");
  ASSERT_TRUE(reader);
  EXPECT_EQ(rest_of_epoch(**reader), Strings({"a line"}));
}

TEST(Reader, RefusesWhatIsNoChannelOrFormat) {
  EXPECT_FALSE(Reader::open({.channel = ""}));
  EXPECT_FALSE(Reader::open({.channel = "../train"}));
  EXPECT_FALSE(Reader::open({.channel = "train", .format = {Kind::Fixed, 0}}));
}

TEST(Position, LiesInACheckpointsMeta) {
  nlohmann::json meta = {{"mine", 1}};
  record(meta, "train", {3, 47760, 60});
  record(meta, "test", {1, 0, 0});
  EXPECT_EQ(*recorded(meta, "train"), (Position{3, 47760, 60}));
  EXPECT_EQ(*recorded(meta, "other"), Position{});
  EXPECT_EQ(*recorded({{"mine", 1}}, "train"), Position{});
  meta[kPositions]["train"]["bytes"] = -1;
  EXPECT_FALSE(recorded(meta, "train"));
  meta[kPositions]["train"].erase("bytes");
  EXPECT_FALSE(recorded(meta, "train"));
  meta[kPositions]["train"] = "x";
  EXPECT_FALSE(recorded(meta, "train"));
  meta[kPositions] = 7;
  EXPECT_FALSE(recorded(meta, "train"));
}

}  // namespace
}  // namespace spotter::channel
