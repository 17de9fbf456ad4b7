// A client whose bytes several threads carry.
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "tests/s3/fixture.hpp"

namespace spotter::s3_test {
namespace {

using namespace std::chrono_literals;
using Kind = s3::Failure::Kind;
using Outcome = Result<s3::Answer, s3::Failure>;

constexpr std::size_t MiB = 1U << 20;

class OnThreads : public S3 {
 protected:
  s3::Settings settings_with(s3::Threads threads) const {
    s3::Settings all = S3::settings_with(threads);
    all.window.first = 8;
    return all;
  }
  static s3::Request part(std::span<char> all, std::size_t begin, std::size_t bytes) {
    s3::Request request{.bucket = "bucket", .key = "big"};
    request.into = all.subspan(begin, bytes);
    request.offset = begin;
    return request;
  }

  s3::Client client_{settings_with(opened_at_once(3))};
};

TEST_F(OnThreads, EachPartIsInItsPlace) {
  const std::string bytes = noise(40 * MiB);
  server_.put("big", bytes);
  std::string into(bytes.size(), '\0');
  const auto read = read_into(client_, object("big", bytes.size()), into);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_TRUE(into == bytes);
  EXPECT_EQ(client_.threads(), 4U);
}

TEST_F(OnThreads, WhatHasNoBytesOfItsOwnStaysInTheCallersThread) {
  server_.put("a", "hello");
  EXPECT_TRUE(s3::head(client_, at("a")));
  EXPECT_TRUE(s3::list(client_, at("")));
  EXPECT_EQ(client_.threads(), 1U);
}

TEST_F(OnThreads, ThereIsNoneWhereTheCallersSuffices) {
  const std::string bytes = noise(20 * MiB);
  server_.put("big", bytes);
  std::string into(bytes.size(), '\0');
  s3::Client client(settings_with({.most = 3, .busy = 1.5, .period = 0ms}));
  ASSERT_TRUE(read_into(client, object("big", bytes.size()), into));
  EXPECT_EQ(client.threads(), 1U) << "no thread has one and a half processors";
}

TEST_F(OnThreads, OneProcessorIsTheCallersAlone) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int i = 0; CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(s3::Threads().most, 0U);
  ::sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(s3::Threads().most > 0, CPU_COUNT(&before) >= 4);
}

TEST_F(OnThreads, OnePartThatIsRefusedEndsItsReadAndNoOther) {
  const std::string bytes = noise(24 * MiB);
  server_.put("big", bytes);
  server_.trouble([](const Request& request, Reply& reply) {
    if (request.header("range").starts_with("bytes=16777216-"))
      reply = refusal(403, "AccessDenied");
  });
  std::string into(bytes.size(), '\0');
  const auto read = read_into(client_, object("big", bytes.size()), into);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, Kind::Permission);
  EXPECT_EQ(client_.under_way(), 0U);
  std::string other(8 * MiB, '\0');
  ASSERT_TRUE(client_.perform(part(other, 0, other.size())));
  EXPECT_TRUE(other == bytes.substr(0, other.size()));
}

// Calls in the middle of their answers.
class MidwayOnThreads : public OnThreads {
 protected:
  MidwayOnThreads() {
    server_.put("big", noise(parts * part_bytes));
    for (std::size_t i = 0; i < parts; ++i) {
      s3::Request request = part(into_, i * part_bytes, part_bytes);
      request.arrived = &arrived_[i];
      calls_.push_back(client_->start(std::move(request), [this](const Outcome& answer) {
        ended_ += answer.has_value() ? 1 : 100;
      }));
    }
    const auto begun = [](const auto& arrived) { return arrived > 0; };
    while (std::ranges::none_of(arrived_, begun)) client_->turn(1ms);
    EXPECT_GT(client_->threads(), 1U);
  }
  // From now on nobody else may touch the memory.
  void expect_left_alone() {
    std::ranges::fill(into_, 'x');
    const int before = ended_;
    for (int i = 0; i < 20; ++i) {
      if (client_) client_->turn(5ms);
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_TRUE(std::ranges::all_of(into_, [](char each) { return each == 'x'; }));
    EXPECT_EQ(ended_, before);
  }

  static constexpr std::size_t parts = 8;
  static constexpr std::size_t part_bytes = 4 * MiB;
  std::string into_ = std::string(parts * part_bytes, '\0');
  std::array<std::atomic<std::size_t>, parts> arrived_{};
  int ended_ = 0;
  std::vector<s3::Client::CallId> calls_;
  std::optional<s3::Client> client_{std::in_place, settings_with(opened_at_once(3))};
};

TEST_F(MidwayOnThreads, WhatIsDroppedTouchesNothingAnyMore) {
  for (const auto call : calls_) client_->drop(call);
  EXPECT_EQ(client_->under_way(), 0U);
  expect_left_alone();
  std::string other(MiB, '\0');
  EXPECT_TRUE(client_->perform(part(other, 0, other.size())));
  EXPECT_TRUE(other == server_.find("big")->bytes.substr(0, other.size()));
}

TEST_F(MidwayOnThreads, AClientThatGoesTakesItsThreadsAlong) {
  client_.reset();
  expect_left_alone();
}

TEST_F(MidwayOnThreads, ManyAreDroppedTogether) {
  client_->drop(calls_);
  EXPECT_EQ(client_->under_way(), 0U);
  expect_left_alone();
}

// `spotter tier` has one, for whichever thread reads a mapped file that became shorter.
TEST_F(OnThreads, AFaultIsForTheHandlerOfTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto upload = [this] {
    std::FILE* file = std::tmpfile();
    const std::size_t bytes = 16 * MiB;
    if (::ftruncate(::fileno(file), static_cast<off_t>(bytes)) != 0) ::_exit(2);
    void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, ::fileno(file), 0);
    if (::ftruncate(::fileno(file), 0) != 0) ::_exit(2);
    std::signal(SIGBUS, [](int) { ::_exit(42); });
    s3::Settings all = settings_with(opened_at_once(3));
    all.anonymous = true;  // so that this thread reads it for no signature
    s3::Client client(all);
    s3::Request request{.method = "PUT", .bucket = "bucket", .key = "short"};
    request.body = {static_cast<const char*>(mapped), bytes};
    (void)client.perform(std::move(request));
    ::_exit(1);
  };
  EXPECT_EXIT(upload(), testing::ExitedWithCode(42), "");
}

// The bytes are counted when they are there, so that a stream may send them on at once.
TEST_F(MidwayOnThreads, WhatHasArrivedIsThere) {
  const std::string bytes = server_.find("big")->bytes;
  while (client_->under_way() > 0) {
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t here = arrived_[i];
      const auto got = std::string_view(into_).substr(i * part_bytes, here);
      const auto last = got.substr(got.size() - std::min<std::size_t>(got.size(), 64U << 10));
      ASSERT_TRUE(last ==
                  std::string_view(bytes).substr(i * part_bytes + here - last.size(), last.size()));
    }
    client_->turn(1ms);
  }
  EXPECT_EQ(ended_, static_cast<int>(parts));
  EXPECT_TRUE(into_ == bytes);
}

}  // namespace
}  // namespace spotter::s3_test
