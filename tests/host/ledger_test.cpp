#include "agent/host/records.hpp"

#include <boost/pfr/core.hpp>
#include <nlohmann/json.hpp>

#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

using LedgerFile = Directory;

// Each field has a value that no other has, and that is not its default; a flag is true.
decide::Ledger with_all_fields() {
  decide::Ledger ledger;
  int number = 1;
  boost::pfr::for_each_field(ledger, [&number](auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_arithmetic_v<Field>)
      field = static_cast<Field>(++number);
    else
      field = std::string_view("a sentence");
  });
  return ledger;
}

TEST_F(LedgerFile, IsZeroWhenMissingAndWhatWasWrittenAfter) {
  const auto none = read_ledger(directory_);
  ASSERT_TRUE(none);
  EXPECT_EQ(none->file.ledger, decide::Ledger());
  EXPECT_EQ(none->warning, "");
  EXPECT_EQ(kind_of(write_ledger(directory_, {})), "not-mounted");
  fs::create_directory(directory_ / ".spotter");
  const decide::Ledger ledger = with_all_fields();
  ASSERT_TRUE(write_ledger(directory_, {.ledger = ledger, .failures = 3}));
  const auto read = read_ledger(directory_)->file;
  EXPECT_EQ(read.ledger, ledger);
  EXPECT_EQ(read.failures, 3U);
}

// A later Spotter may write more, and never these otherwise.
TEST_F(LedgerFile, OfTheFirstReleaseIsReadAndWrittenAsItWas) {
  const auto first = nlohmann::json::parse(
      R"({"attempts_without_progress":2,"dollars":0.75,"done":true,"failures":3,"losses":5,)"
      R"("newest_step":2345,"reached":2400,"releases":6,"repeated":55,"running":true,)"
      R"("seconds":12.5,"speaks":false,"stall":1.5,"starts":4,"trainers":1,"version":1})");
  const auto file = wire::parse_ledger(first.dump());
  ASSERT_TRUE(file);
  const auto written = nlohmann::json::parse(wire::to_json(*file));
  for (const auto& [name, value] : first.items()) EXPECT_EQ(written[name], value) << name;
}

TEST_F(LedgerFile, IsReadWithoutAnyOfItsFields) {
  const auto whole = nlohmann::json::parse(wire::to_json({.ledger = with_all_fields()}));
  for (const auto& [name, value] : whole.items()) {
    auto older = whole;
    older.erase(name);
    const auto file = wire::parse_ledger(older.dump());
    ASSERT_TRUE(file) << name;
    older[name] = nlohmann::json::parse(wire::to_json({}))[name];
    EXPECT_EQ(nlohmann::json::parse(wire::to_json(*file)), older) << name;
  }
}

TEST_F(LedgerFile, HasNoStepThatNobodyReported) {
  fs::create_directory(directory_ / ".spotter");
  ASSERT_TRUE(write_ledger(directory_, {}));
  EXPECT_EQ(read_ledger(directory_)->file.ledger.newest_step, -1);
  write(".spotter/ledger.json", R"({"newest_step":0,"losses":99999999999,"-":null,"later":3.5})");
  EXPECT_EQ(read_ledger(directory_)->file.ledger.newest_step, -1);
  EXPECT_EQ(read_ledger(directory_)->file.ledger.losses, UINT32_MAX);
  const std::string words(300, 'w');
  write(".spotter/ledger.json",
        R"({"reached":9999999999999999999,"stopped_early":")" + words + "\"}");
  EXPECT_EQ(read_ledger(directory_)->file.ledger.reached, INT64_MAX);
  EXPECT_EQ(read_ledger(directory_)->file.ledger.stopped_early.view(), words.substr(0, 200));
}

TEST_F(LedgerFile, CountsTheTrainersThatWereStarted) {
  fs::create_directory(directory_ / ".spotter");
  const auto trainers_after = [this](bool running, std::uint32_t losses) {
    EXPECT_TRUE(write_ledger(directory_, {.ledger = {.losses = losses, .running = running}}));
    return read_ledger(directory_)->file.trainers;
  };
  EXPECT_EQ(trainers_after(false, 0), 0U);
  EXPECT_EQ(trainers_after(true, 0), 1U);
  EXPECT_EQ(trainers_after(true, 0), 1U) << "a minute later";
  EXPECT_EQ(trainers_after(false, 0), 1U) << "it was asked to end";
  EXPECT_EQ(trainers_after(true, 0), 2U);
  EXPECT_EQ(trainers_after(true, 1), 3U) << "that one was lost with its machine";
  EXPECT_EQ(trainers_after(false, 2), 3U) << "that one crashed, and was the last";
}

TEST_F(LedgerFile, ThatIsDamagedIsMovedAsideAndSaidSo) {
  for (const char* damage : {"", "{\"starts\":", "[]", "{\"done\":3}", "{\"running\":1}",
                             "{\"stall\":-1}", "{\"starts\":-1}", "{\"reached\":-1}",
                             "{\"trained\":null}", "{\"command\":null}", "{\"starts\":1.5}"}) {
    const auto path = write(".spotter/ledger.json", damage);
    const auto read = read_ledger(directory_);
    ASSERT_TRUE(read) << words_of(read);
    EXPECT_EQ(read->file.ledger, decide::Ledger());
    EXPECT_NE(read->warning.find("ledger.damaged-"), std::string::npos) << damage;
    EXPECT_FALSE(fs::exists(path));
  }
}

}  // namespace
}  // namespace spotter::act::host
