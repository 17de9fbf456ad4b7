// The record of generations.
#include "agent/guard/record.hpp"

#include <gtest/gtest.h>

#include "tests/guard/folder.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::guard {
namespace {

Row row(const std::string& name, const std::string& sum = "0123456789abcdef0123456789abcdef") {
  return {.name = name, .bytes = 7, .mtime_ns = 1'700'000'000'123'456'789, .sum = sum};
}

Generation of(const std::string& name, std::uint64_t run = 1) {
  return {.step = 1, .run = run, .time = 1'700'000'000, .name = name};
}

std::vector<std::string> names_of(const Record& record, std::uint64_t generation) {
  std::vector<std::string> names;
  for (const Row* row : record.rows_of(generation)) names.push_back(row->name + " " + row->sum);
  return names;
}
using Names = std::vector<std::string>;

TEST(TheRecord, ComesBackAsItWas) {
  Record record;
  record.watching = true;
  record.run = 3;
  record.add(of("a.pt"), {row("a.pt")}, {});
  Row link = row("sub/b \xc3\xa9.pt", "");
  link.link = "../a.pt";
  link.companion = true;
  record.add(of("a.pt"), {link, row("a.pt", "1")}, {});
  record.usual = {{{"a.pt", 1}, {"rng_#.pt", 8}}};
  record.away = {{4, 1'700'000'000, 12, {"x", "y/z"}, "why"}};
  const auto read = decode(encode(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
}

// Latin-1, a quotation mark, a new line, an escape, half a character, those that stand for bytes.
TEST(TheRecord, HasNamesOfAnyBytes) {
  Record record;
  std::vector<Row> rows;
  for (const char* name : {"\"a\"", "a\\b\nc", "caf\xe9", "\xe2\x82", "\xee\xbe\x80",
                           "\xee\xbf\xbf.pt", "\xff\xfe", "\xf0\x9f\x98\x80 \x80"})
    rows.push_back(row(name));
  std::string every;
  for (int byte = 1; byte < 256; ++byte) every += static_cast<char>(byte);
  rows.push_back(row(every));
  rows.back().link = every;
  record.add(of(every), rows, {});
  record.usual = {{{"\xe9#.pt", 1}}};
  record.rewritten = {"\xe9#.pt"};
  record.away = {{4, 1, 12, {"\xe9"}, "why"}};
  const auto read = decode(encode(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
}

TEST(TheRecord, IsRefusedForEveryFlippedBitAndEveryCut) {
  Record record;
  record.add(of("a.pt"), {row("a.pt")}, {});
  const std::string whole = encode(record);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    EXPECT_FALSE(decode(flipped)) << at;
    EXPECT_FALSE(decode(whole.substr(0, at))) << at;
  }
}

TEST(TheRecord, OfANewerSpotterIsNotTakenForADamagedOne) {
  const auto newer = decode(newer_record(encode({})));
  ASSERT_FALSE(newer);
  EXPECT_TRUE(wire::is_newer(newer.error()));
  EXPECT_NE(newer.error().message.find("written by a newer Spotter (format 4"), std::string::npos)
      << newer.error().message;
  EXPECT_FALSE(wire::is_newer(decode("{}").error()));
}

TEST(Generations, EachHasItsContents) {
  Record record;
  record.add(of("a"), {row("a", "1"), row("b", "1")}, {});
  record.add(of("a"), {row("a", "2"), row("c", "2")}, {"b"});
  EXPECT_EQ(names_of(record, 1), (Names{"a 1", "b 1"}));
  EXPECT_EQ(names_of(record, 2), (Names{"a 2", "c 2"}));
  record.amend({row("latest", "2")}, {});
  EXPECT_EQ(record.newest_number(), 2U);
  EXPECT_EQ(names_of(record, 2), (Names{"a 2", "c 2", "latest 2"}));
  EXPECT_EQ(names_of(record, 1), (Names{"a 1", "b 1"}));
  record.go_to(1);
  EXPECT_EQ(names_of(record, 3), (Names{"a 1", "b 1"}));
  EXPECT_FALSE(record.find(2)->failed) << "whoever goes back says why";
  record.forget_but(1);
  EXPECT_EQ(names_of(record, 3), (Names{"a 1", "b 1"}));
  EXPECT_EQ(record.rows.size(), 2U) << "the others are forgotten";
}

TEST(Generations, WhatIsChangedTwiceAtTheSameMomentIsThereOnce) {
  Record record;
  record.add(of("a"), {row("a", "1")}, {});
  record.amend({row("latest", "1")}, {});
  record.amend({row("latest", "2")}, {});
  EXPECT_EQ(names_of(record, 1), (Names{"a 1", "latest 2"}));
  EXPECT_EQ(record.rows.size(), 2U);
}

TEST(Series, AreKnownByAnotherNumber) {
  Record record;
  record.of_files = true;
  record.add(of("e-1.pt"), {row("e-1.pt"), row("yolov3.pt")}, {});
  EXPECT_FALSE(record.is_series("e-1.pt")) << "its number may be anything's";
  record.add(of("e-2.pt"), {row("e-2.pt")}, {});
  EXPECT_TRUE(record.is_series("e-3.pt"));
  EXPECT_FALSE(record.is_series("yolov3.pt"));
  EXPECT_FALSE(record.is_series("last.pt"));
  record.add(of("e-2.pt"), {row("e-2.pt", "2")}, {});
  EXPECT_FALSE(record.is_series("e-3.pt")) << "they are written over";
}

TEST(StepIn, ReadsTheNumberThatANameSaysIsOne) {
  for (const auto& [name, step] : {std::pair{"checkpoint-524837-epoch-19", 524837},
                                   {"epoch=19-step=524837", 524837},
                                   {"step=7-epoch=19", 7},
                                   {"checkpoint-19-global_step500", 500},
                                   {"iter_0000012", 12},
                                   {"llama-7b-checkpoint-100", 100},
                                   {"epoch12", 12},
                                   {"cp-0003", 3},
                                   {"000042", 42},
                                   {"run-v2-500", 500},
                                   {"epoch=3-val_loss=0.25", 3},
                                   {"epoch_3-val_acc=0.9312", 3},
                                   {"epoch=12.ckpt", 12},
                                   {"model-500.ckpt", 500},
                                   {"ep1-ba1200-rank0", 1200},
                                   {"checkpoint_12_50000", 50000},
                                   {"checkpoint-500-lr1e-4-seed-42", 500},
                                   {"Llama-3.1-8B-Instruct-500", 500},
                                   {"checkpoint-20261129-step500", 500},
                                   {"2026-11-29_10-15-30-step-700", 700},
                                   {"step_20250101", 20250101},
                                   {"epoch_7_fold_2", 7},
                                   {"rl_model_10000_steps", 10000},
                                   {"ppo-10000steps-seed3", 10000},
                                   {"12_epochs-fold1", 12},
                                   {"weights.10-0.32", 10},
                                   {"weights-improvement-05-0.91.hdf5", 5},
                                   {"model_07-val_loss0.25.keras", 7},
                                   {"19_step_500", 500},
                                   {"gemma3-it-checkpoint-500", 500},
                                   {"gemma-2-it-lora-500", 500},
                                   {"weights.10-1.5e-05.hdf5", 10},
                                   {"checkpoint-1200-best", 1200}})
    EXPECT_EQ(step_in(name), step) << name;
  for (const char* name : {"lora_rank_16_lr_0.0001", "resnet-50-v1.5", "sd-2-1.5", "resnet50_epoch",
                           "fold1_epoch_best", "gemma-3-it", "resnet50", "llama-7b", "yolov3",
                           "best", "step-1234567890123456", "ckpt_20261129_101530", "2026-11-29",
                           "checkpoint-2026-11-29T10:15:30", "model-0.25", "val_loss=0.25"})
    EXPECT_FALSE(step_in(name)) << name;
}

}  // namespace
}  // namespace spotter::guard
