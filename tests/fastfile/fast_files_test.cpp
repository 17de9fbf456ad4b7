#include <cstring>
#include <random>

#include "agent/aws/s3/crc.hpp"
#include "agent/data/fast_file/cache.hpp"
#include "tests/s3/fixture.hpp"

namespace spotter::fastfile {
namespace {

using namespace std::chrono_literals;

TEST(Tree, HasTheFilesInTheirFolders) {
  const auto made = Tree::make({{"b/c/2", 5}, {"a", 3}, {"b/c/10", 9}, {"b.c", 1}});
  ASSERT_TRUE(made) << made.error().message;
  const auto names = [&](Tree::Number folder) {
    std::string all;
    for (const auto child : made->at(folder).children) all += made->at(child).name + " ";
    return all;
  };
  EXPECT_EQ(names(Tree::root), "a b b.c ");
  const auto folder = made->find(*made->find(Tree::root, "b"), "c");
  ASSERT_TRUE(folder);
  EXPECT_EQ(names(*folder), "10 2 ");
  EXPECT_EQ(made->at(*made->find(*folder, "2")).file, 0U);
  EXPECT_EQ(made->at(*made->find(Tree::root, "a")).file, 1U);
  EXPECT_FALSE(made->at(*folder).file);
  EXPECT_EQ(made->at(*folder).modified, 9);
  EXPECT_EQ(made->at(Tree::root).modified, 9);
  for (const char* absent : {"", "c", "b/c", "aa"})
    EXPECT_FALSE(made->find(Tree::root, absent)) << absent;
}

TEST(Tree, HasNoFileThatIsAFolder) {
  EXPECT_FALSE(Tree::make({{"a", 0}, {"a/b", 0}}));
  EXPECT_FALSE(Tree::make({{"a/b", 0}, {"a", 0}}));
  EXPECT_FALSE(Tree::make({{"a", 0}, {"a", 0}}));
  EXPECT_TRUE(Tree::make({}));
}

constexpr std::uint64_t mebibyte = 1U << 20;

TEST(ReadAhead, GrowsAsLongAsWhoReadsOnHasToWait) {
  ReadAhead ahead(64 * mebibyte);
  const ReadAhead::Instant now{};
  EXPECT_EQ(ahead.window(ahead.read(0, 4096, true, now), now), 0U);
  std::uint64_t at = 4096;
  const auto window_after = [&](std::uint64_t bytes, bool waits) {
    for (const std::uint64_t end = at + bytes; at < end; at += 131072)
      ahead.read(at, 131072, waits, now);
    return ahead.window(ahead.readers().front(), now);
  };
  const auto first = window_after(mebibyte, true);
  EXPECT_EQ(first, 2 * mebibyte);
  EXPECT_EQ(window_after(20 * mebibyte, false), first);
  EXPECT_EQ(window_after(mebibyte, true), 2 * first) << "once for each time that it was too small";
  EXPECT_EQ(window_after(1000 * mebibyte, true), 64 * mebibyte);
  EXPECT_EQ(ahead.readers().size(), 1U);
}

TEST(ReadAhead, TellsReadersApartAndSharesTheMemoryAmongThem) {
  ReadAhead ahead(64 * mebibyte);
  const ReadAhead::Instant now{};
  for (std::uint64_t at = 0; at < 200 * mebibyte; at += 131072) {
    for (const std::uint64_t reader : {0U, 1U})
      ahead.read(reader * 1000 * mebibyte + at, 131072, true, now);
  }
  ASSERT_EQ(ahead.readers().size(), 2U);
  EXPECT_EQ(ahead.window(ahead.readers()[0], now), 32 * mebibyte);
  const auto later = now + 1h;
  EXPECT_EQ(ahead.window(ahead.read(200 * mebibyte, 131072, true, later), later), 64 * mebibyte);
}

TEST(ReadAhead, FetchesNothingForThoseWhoJump) {
  ReadAhead ahead(64 * mebibyte);
  const ReadAhead::Instant now{};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t at = i * 7919 % 1000 * 16 * mebibyte;
    EXPECT_EQ(ahead.window(ahead.read(at, 4096, true, now), now), 0U);
  }
}

class Cached : public s3_test::S3 {
 protected:
  void put(const std::string& key, std::size_t size) {
    contents_.push_back(s3_test::noise(size, contents_.size() + 1));
    server_.put(key, contents_.back());
    files_.push_back({"bucket", key, server_.find(key)->etag, size, false});
  }
  void make(std::size_t memory) {
    cache_ = std::make_unique<Cache>(files_, client_, *data::Memory::make(memory));
  }
  void read(std::size_t file, std::uint64_t offset, std::size_t bytes) {
    ++open_;
    cache_->read(file, offset, bytes,
                 [=, this](const std::vector<iovec>& pieces, const s3::Failure* failure) {
                   --open_;
                   if (failure != nullptr) return failures_.push_back(*failure);
                   std::string got;
                   for (const auto& each : pieces)
                     got.append(static_cast<const char*>(each.iov_base), each.iov_len);
                   EXPECT_TRUE(got == contents_[file].substr(offset, bytes)) << file << offset;
                 });
  }
  void finish() {
    while (open_ > 0) {
      cache_->advance();
      if (open_ > 0) client_.turn(100ms);
    }
  }

  std::vector<std::string> contents_;
  std::vector<RemoteFile> files_;
  std::vector<s3::Failure> failures_;
  std::size_t open_ = 0;
  std::unique_ptr<Cache> cache_;
};

TEST_F(Cached, GivesEachReaderItsBytes) {
  for (const std::size_t size : {0U, 1U, 5'000U, 3'000'000U, 20'000'000U})
    put("k" + std::to_string(size), size);
  make(32 * mebibyte);
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const std::size_t file = 1 + random() % 4;
    const auto offset = random() % files_[file].size;
    read(file, offset, std::min<std::size_t>(1 + random() % 300'000, files_[file].size - offset));
    if (i % 20 == 0) finish();
  }
  finish();
  EXPECT_TRUE(failures_.empty());
}

TEST_F(Cached, ReadsAheadAcrossFilesSoThatNobodyWaitsForTheNextOnes) {
  for (int i = 0; i < 100; ++i) put("k" + std::to_string(1000 + i), 100'000);
  make(32 * mebibyte);
  std::size_t file = 0;
  for (; file < 10; ++file) {
    read(file, 0, 100'000);
    finish();
  }
  while (client_.under_way() > 0) client_.turn(100ms);
  for (; file < 20; ++file) {
    read(file, 0, 100'000);
    cache_->advance();
    EXPECT_EQ(open_, 0U) << file;
  }
  for (; file < files_.size(); ++file) {
    read(file, 0, 100'000);
    finish();
  }
  EXPECT_TRUE(failures_.empty());
  EXPECT_EQ(server_.requests().size(), files_.size()) << "each file once";
}

TEST_F(Cached, NeedsNoMoreThanItsMemoryHoweverManyWait) {
  put("large", 10'000'000);
  make(2 * mebibyte);
  for (std::uint64_t at = 0; at + 300'000 <= 10'000'000; at += 300'000) read(0, at, 300'000);
  finish();
  EXPECT_TRUE(failures_.empty());
}

TEST_F(Cached, SaysWhatIsWrongToThoseWhoAskForThatFile) {
  for (const char* key : {"good", "replaced", "spoiled", "forbidden", "throttled"})
    put(key, key == std::string_view("replaced") ? 5'000'000 : 200'000);
  files_[2].checksum = true;
  make(128 * mebibyte);
  read(1, 0, 1000);
  finish();
  server_.put("replaced", s3_test::noise(5'000'000, 99));
  server_.trouble([](const s3_test::Request& request, s3_test::Reply& reply) {
    if (request.path == "/bucket/spoiled") reply.headers["x-amz-checksum-crc32c"] = "AAAAAA==";
  });
  server_.refuse([](const s3_test::Request& request) -> std::optional<s3_test::Reply> {
    if (request.path == "/bucket/forbidden") return s3_test::refusal(403, "AccessDenied");
    if (request.path == "/bucket/throttled") return s3_test::refusal(503, "SlowDown");
    return std::nullopt;
  });
  using Kind = s3::Failure::Kind;
  const std::pair<std::size_t, Kind> expected[] = {
      {1, Kind::Changed}, {2, Kind::Corrupt}, {3, Kind::Permission}, {4, Kind::Unavailable}};
  for (const auto& [file, kind] : expected) {
    failures_.clear();
    read(0, 100'000, 100'000);
    read(file, files_[file].size - 1000, 1000);
    finish();
    read(file, 0, 1000);
    finish();
    ASSERT_EQ(failures_.size(), 2U) << file;
    EXPECT_EQ(failures_.back().kind, kind) << file;
    EXPECT_EQ(failures_.back().key, files_[file].key);
  }
}

TEST_F(Cached, ComparesAWholeFileThatIsReadFromItsBegin) {
  for (const char* key : {"good", "spoiled"}) put(key, 5'000'000);
  for (auto& file : files_) file.checksum = true;
  const auto crc = s3::crc32c(0, contents_[0]);  // of the other it is a wrong one
  server_.trouble([crc](const s3_test::Request& request, s3_test::Reply& reply) {
    const auto sum = s3::bytes_of(crc);
    if (request.method == "HEAD") reply.headers["x-amz-checksum-crc32c"] = wire::to_base64(sum);
  });
  make(32 * mebibyte);
  const auto read_on = [&](std::size_t file, std::uint64_t from) {
    for (std::uint64_t at = from; at < 5'000'000; at += 100'000) {
      read(file, at, 100'000);
      finish();
    }
  };
  read_on(0, 0);
  EXPECT_TRUE(failures_.empty());
  read(1, 0, 100'000);
  finish();
  EXPECT_TRUE(failures_.empty()) << "only its end is held back";
  read_on(1, 100'000);
  ASSERT_FALSE(failures_.empty());
  EXPECT_EQ(failures_.back().kind, s3::Failure::Kind::Corrupt);
  EXPECT_EQ(failures_.back().key, "spoiled");
}

TEST_F(Cached, RemembersThatAFileWasWrongBeforeItWasRead) {
  put("spoiled", 5'000'000);
  files_[0].checksum = true;
  server_.trouble([](const s3_test::Request& request, s3_test::Reply& reply) {
    if (request.method == "HEAD") reply.headers["x-amz-checksum-crc32c"] = "AAAAAA==";
  });
  make(32 * mebibyte);
  for (std::uint64_t at = 0; at < 500'000; at += 100'000) {
    read(0, at, 100'000);
    finish();
  }
  while (client_.under_way() > 0) {  // all of it is fetched ahead, and compared
    client_.turn(100ms);
    cache_->advance();
  }
  for (std::uint64_t at = 500'000; at < 5'000'000; at += 100'000) {
    read(0, at, 100'000);
    finish();
  }
  ASSERT_FALSE(failures_.empty());
  EXPECT_EQ(failures_.back().kind, s3::Failure::Kind::Corrupt);
}

TEST_F(Cached, DoesNotCompareWhatIsReadInJumps) {
  put("spoiled", 5'000'000);
  files_[0].checksum = true;
  server_.trouble([](const s3_test::Request& request, s3_test::Reply& reply) {
    if (request.method == "HEAD") reply.headers["x-amz-checksum-crc32c"] = "AAAAAA==";
  });
  make(32 * mebibyte);
  read(0, 0, 1000);
  finish();
  for (const std::uint64_t at : {4'999'000U, 4'990'000U, 2'000'000U, 4'980'000U}) {
    read(0, at, 1000);
    finish();
  }
  EXPECT_TRUE(failures_.empty());
}

TEST_F(Cached, ForgetsAReaderThatWasInterrupted) {
  put("a", 1000);
  make(2 * mebibyte);
  bool answered = false;
  const auto id = cache_->read(0, 0, 10, [&](const auto&, const auto*) { answered = true; });
  cache_->advance();
  cache_->forget(id);
  read(0, 0, 1000);
  finish();
  EXPECT_FALSE(answered);
}

}  // namespace
}  // namespace spotter::fastfile
