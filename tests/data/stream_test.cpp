// A channel's stream in this process, whose bytes several threads carry.
#include "agent/data/stream.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/s3/fixture.hpp"

namespace spotter::data {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr std::size_t MiB = 1U << 20;

class StreamOnThreads : public s3_test::S3 {
 protected:
  StreamOnThreads() {
    std::string name = (fs::temp_directory_path() / "stream-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    for (int i = 0; i < 12; ++i) {
      const std::string bytes = s3_test::noise((i % 3 + 1) * 4 * MiB + 1234, i);
      server_.put("p/" + std::to_string(100 + i), bytes);
      all_ += bytes;
    }
  }
  ~StreamOnThreads() override {
    stream_.reset();
    fs::remove_all(folder_);
  }

  // With its FIFO open for reading.
  void begin(std::string_view source = "train=s3://bucket/p/") {
    ::signal(SIGPIPE, SIG_IGN);  // as the plane does
    StreamSettings settings{
        .channel = *wire::parse_channel(source), .directory = folder_, .budget = budget};
    auto made = Stream::make(std::move(settings), client_,
                             {.made = [](const auto&, int) {}, .ended = [](const auto&) {}});
    ASSERT_TRUE(made) << made.error().message;
    stream_ = std::move(*made);
    reader_ = Descriptor(::open((folder_ / "train_0").c_str(), O_RDONLY | O_NONBLOCK));
    ASSERT_TRUE(reader_);
  }
  void turn(std::chrono::milliseconds at_most) {
    client_.turn(at_most);
    stream_->advance();
  }
  // Takes so many bytes, at most, of those that lie in the pipe.
  std::string read(std::size_t most) {
    std::string bytes(most, '\0');
    const auto got = ::read(reader_.get(), bytes.data(), bytes.size());
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  // By all GETs of objects.
  std::size_t asked() const {
    std::size_t bytes = 0;
    for (const auto& request : server_.requests()) {
      const std::string range = request.header("range");
      const auto dash = range.find('-');
      if (dash != std::string::npos)
        bytes += std::stoul(range.substr(dash + 1)) - std::stoul(range.substr(6, dash)) + 1;
    }
    return bytes;
  }

  static constexpr std::size_t budget = 64 * MiB;
  fs::path folder_;
  std::string all_;
  s3::Client client_{settings_with(opened_at_once(3))};
  std::unique_ptr<Stream> stream_;
  Descriptor reader_;
};

TEST_F(StreamOnThreads, KeepsItsOrderWhicheverPartComesFirst) {
  // Requests that are ahead of the reader may be answered when this test is over.
  server_.trouble([count = std::make_shared<std::atomic<int>>(0)](const auto& request, auto&) {
    if (!request.header("range").empty() && (*count)++ % 5 == 0) std::this_thread::sleep_for(20ms);
  });
  begin();
  std::size_t at = 0;
  while (!stream_->failed() && at < all_.size()) {
    turn(1ms);
    for (std::string got = read(MiB); !got.empty(); got = read(MiB)) {
      ASSERT_TRUE(got == std::string_view(all_).substr(at, got.size())) << "at " << at;
      at += got.size();
    }
  }
  EXPECT_FALSE(stream_->failed()) << *stream_->failed();
  EXPECT_EQ(client_.threads(), 4U);
}

TEST_F(StreamOnThreads, AsksForNoMoreThanItHasMemoryForWhileNobodyReads) {
  begin();
  const auto soon = std::chrono::steady_clock::now() + 2s;
  while (std::chrono::steady_clock::now() < soon) turn(5ms);
  const std::size_t before = asked();
  EXPECT_LE(before, budget);
  EXPECT_GE(before, 16 * MiB);
  EXPECT_EQ(client_.under_way(), 0U);
  std::string got;
  while (!stream_->failed() && got.size() < 4 * MiB) {
    turn(1ms);
    got += read(MiB / 4);
    EXPECT_LE(asked(), before + got.size() + 8 * MiB);
  }
  EXPECT_TRUE(got == std::string_view(all_).substr(0, got.size()));
}

TEST_F(StreamOnThreads, BeginsElsewhereInTheMiddleOfItsRequests) {
  begin();
  while (read(MiB).empty()) turn(1ms);
  reader_.close();
  const std::uint64_t position = 30 * MiB + 77;
  while (!stream_->begin_at({0, position})) turn(1ms);
  reader_ = Descriptor(::open((folder_ / "train_0").c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_TRUE(reader_);
  std::string got;
  while (!stream_->failed() && got.size() < all_.size() - position) {
    turn(1ms);
    got += read(MiB);
  }
  EXPECT_FALSE(stream_->failed()) << *stream_->failed();
  EXPECT_TRUE(got == std::string_view(all_).substr(position));
}

TEST_F(StreamOnThreads, LeavesInTheMiddleOfItsRequestsAndNothingIsWrittenAnyMore) {
  begin();
  while (read(MiB).empty()) turn(1ms);
  ASSERT_GT(client_.under_way(), 0U);
  stream_.reset();
  EXPECT_EQ(client_.under_way(), 0U);
  for (int i = 0; i < 20; ++i) client_.turn(5ms);
}

TEST_F(StreamOnThreads, LeavesInTheMiddleOfItsManifest) {
  server_.put("list", s3_test::noise(32 * MiB, 1));
  begin("train=s3://bucket/list,type=manifest");
  while (asked() == 0) turn(1ms);
  ASSERT_GT(client_.under_way(), 0U);
  stream_.reset();
  EXPECT_EQ(client_.under_way(), 0U);
}

}  // namespace
}  // namespace spotter::data
