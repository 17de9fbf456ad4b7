// A small object that several write: who has written it is known, whatever becomes of the answers.
#include <latch>

#include "agent/aws/s3_client.hpp"
#include "tests/s3/fixture.hpp"

namespace spotter::s3_test {
namespace {

using act::Register;
using act::S3Client;
using Kind = s3::Failure::Kind;
using std::chrono::seconds;

constexpr Duration limit{10'000};
constexpr const char* noon = "Sat, 21 Nov 2026 12:00:00 GMT";
constexpr const char* a_minute_later = "Sat, 21 Nov 2026 12:01:00 GMT";

class RegisterTest : public S3 {
 protected:
  RegisterTest() { trouble({}); }

  // Changes an answer that S3's own clock has signed.
  void trouble(const Server::Trouble& change) {
    server_.trouble([this, change](const Request& request, Reply& reply) {
      reply.headers["Date"] = date_;
      reply.headers["Last-Modified"] = noon;
      if (change) change(request, reply);
    });
  }
  void lose_answers_to_writes(int count) {
    trouble(
        [left = std::make_shared<std::atomic<int>>(count)](const Request& request, Reply& reply) {
          if (request.method == "PUT" && (*left)-- > 0)
            reply = {.headers = {{"Content-Length", "9"}}, .cut_after = 0};
        });
  }
  void answer_writes(int count, int status, const std::string& code) {
    server_.refuse([left = std::make_shared<std::atomic<int>>(count), status,
                    code](const Request& request) -> std::optional<Reply> {
      if (request.method != "PUT" || (*left)-- <= 0) return std::nullopt;
      return refusal(status, code);
    });
  }

  template <class Value>
  Result<Value, s3::Failure> end(S3Client::Answer<Value> asking) {
    std::optional<Result<Value, s3::Failure>> outcome;
    asio::co_spawn(context_, std::move(asking),
                   [&](std::exception_ptr, auto got) { outcome = std::move(got); });
    context_.restart();
    context_.run();
    return std::move(*outcome);
  }
  auto read() { return end(register_.read(limit)); }
  auto write(const std::string& text, const std::string& etag) {
    return end(register_.write(text, etag, limit));
  }
  bool is_written(const std::string& text, const std::string& etag) {
    const auto written = write(text, etag);
    EXPECT_TRUE(written) << written.error().text();
    return written && *written;
  }
  bool is_too_late(const std::string& text, const std::string& etag) {
    const auto written = write(text, etag);
    EXPECT_TRUE(written) << written.error().text();
    return written && !*written;
  }
  std::string there() const { return server_.find("record")->bytes; }

  std::string date_ = a_minute_later;
  asio::io_context context_;
  S3Client loop_client_{settings()};
  Register register_{loop_client_, at("record")};
};

TEST_F(RegisterTest, IsReadAsItWasWritten) {
  const auto none = read();
  ASSERT_TRUE(none) << none.error().text();
  EXPECT_FALSE(none->exists());
  const auto first = write("one", "");
  ASSERT_TRUE(first && *first);
  const auto version = read();
  ASSERT_TRUE(version) << version.error().text();
  EXPECT_EQ(version->text, "one");
  EXPECT_EQ(version->etag, **first);
  EXPECT_EQ(version->age(), seconds(60));
  EXPECT_TRUE(is_written("two", version->etag));
  EXPECT_EQ(there(), "two");
}

TEST_F(RegisterTest, IsNoYoungerThanNow) {
  server_.put("record", "one");
  date_ = "Sat, 21 Nov 2026 11:59:58 GMT";  // another of S3's machines
  const auto version = read();
  ASSERT_TRUE(version) << version.error().text();
  EXPECT_EQ(version->age(), seconds(0));
}

TEST_F(RegisterTest, OfTwoWritersOneIsRefused) {
  server_.put("record", "theirs");
  EXPECT_TRUE(is_too_late("ours", "")) << "there is one";
  EXPECT_TRUE(is_too_late("ours", "\"an older one\""));
  EXPECT_EQ(there(), "theirs");
}

TEST_F(RegisterTest, IsRefusedWhereTheVersionWasDeleted) {
  EXPECT_TRUE(is_too_late("ours", "\"e1\""));
  EXPECT_FALSE(server_.find("record"));
}

TEST_F(RegisterTest, KnowsItsOwnWriteWhenItsAnswerWasLost) {
  lose_answers_to_writes(1);
  const auto written = write("ours", "");
  ASSERT_TRUE(written && *written) << "the second try came too late for the first";
  EXPECT_EQ(**written, server_.find("record")->etag);
}

TEST_F(RegisterTest, KnowsItsOwnWriteWhenNoAnswerCame) {
  lose_answers_to_writes(1000);
  const auto written = write("ours", "");
  ASSERT_TRUE(written && *written) << "a look shows it";
  EXPECT_EQ(**written, server_.find("record")->etag);
}

// The next write would take it for "absent".
TEST_F(RegisterTest, GivesOutNoEmptyETag) {
  trouble([](const Request& request, Reply& reply) {
    if (request.method == "PUT") reply.headers.erase("ETag");
  });
  const auto written = write("ours", "");
  ASSERT_TRUE(written && *written) << "a look shows it";
  EXPECT_EQ(**written, server_.find("record")->etag);
  trouble([](const Request&, Reply& reply) { reply.headers.erase("ETag"); });
  const auto unsaid = write("more", **written);
  ASSERT_FALSE(unsaid);
  EXPECT_EQ(unsaid.error().kind, Kind::Refused);
}

TEST_F(RegisterTest, SaysThatItDoesNotKnowWhereNothingIsThere) {
  answer_writes(1000, 503, "SlowDown");
  const auto written = write("ours", "");
  ASSERT_FALSE(written) << "it may be carried out yet";
  EXPECT_EQ(written.error().kind, Kind::Unavailable);
}

TEST_F(RegisterTest, WritesAgainWhatWasNotCarriedOut) {
  answer_writes(1, 500, "InternalError");
  EXPECT_TRUE(is_written("ours", ""));
  EXPECT_EQ(there(), "ours");
  server_.put("record", "one");
  answer_writes(1, 409, "ConditionalRequestConflict");
  EXPECT_TRUE(is_written("two", server_.find("record")->etag));
  EXPECT_EQ(there(), "two");
}

TEST_F(RegisterTest, IsRefusedWhereAnotherHasWrittenSinceItsLostWrite) {
  trouble(
      [this, left = std::make_shared<std::atomic<int>>(1)](const Request& request, Reply& reply) {
        if (request.method != "PUT" || (*left)-- <= 0) return;
        server_.put("record", "theirs");
        reply = {.headers = {{"Content-Length", "9"}}, .cut_after = 0};
      });
  EXPECT_TRUE(is_too_late("ours", ""));
  EXPECT_EQ(there(), "theirs");
}

TEST_F(RegisterTest, DoesNotKnowThatItIsRefusedWhereItCannotLook) {
  server_.put("record", "theirs");
  server_.refuse([](const Request& request) -> std::optional<Reply> {
    if (request.method != "HEAD") return std::nullopt;
    return refusal(403, "");
  });
  const auto written = write("ours", "");
  ASSERT_FALSE(written) << "an earlier try of this write may be what is there";
  EXPECT_EQ(written.error().kind, Kind::Permission);
}

TEST_F(RegisterTest, HasNoVersionWithoutETagOrClock) {
  server_.put("record", "one");
  for (const char* header : {"ETag", "Date", "Last-Modified"}) {
    trouble([header](const Request&, Reply& reply) { reply.headers.erase(header); });
    const auto version = read();
    ASSERT_FALSE(version) << header;
    EXPECT_EQ(version.error().kind, Kind::Refused);
  }
}

// The server says nothing until the end of the test.
class Silent : public RegisterTest {
 protected:
  Silent() {
    trouble([asked = asked_, over = over_](const Request&, Reply&) {
      *asked = true;
      over->wait();
    });
  }
  ~Silent() override { over_->count_down(); }

  void wait_until_asked() {
    while (!*asked_) context_.poll();
  }

  std::shared_ptr<std::atomic<bool>> asked_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::latch> over_ = std::make_shared<std::latch>(1);
};

TEST_F(Silent, IsNotWaitedForBeyondTheLimit) {
  const auto version = end(register_.read(Duration(50)));
  ASSERT_FALSE(version);
  EXPECT_EQ(version.error().kind, Kind::Unavailable);
}

TEST_F(Silent, IsNotWaitedForByWhoGivesUp) {
  asio::cancellation_signal signal;
  std::optional<Result<Register::Version, s3::Failure>> outcome;
  asio::co_spawn(context_, register_.read(std::chrono::hours(1)),
                 asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr, auto got) {
                   outcome = std::move(got);
                 }));
  wait_until_asked();
  signal.emit(asio::cancellation_type::all);
  context_.run();
  ASSERT_TRUE(outcome && !*outcome);
  EXPECT_EQ(outcome->error().kind, Kind::GivenUp);
}

TEST_F(Silent, IsNotWaitedForByAClientThatEnds) {
  auto client = std::make_unique<S3Client>(settings());
  const Register record(*client, at("record"));
  bool answered = false;
  asio::co_spawn(context_, record.read(std::chrono::hours(1)),
                 [&](std::exception_ptr, auto) { answered = true; });
  wait_until_asked();
  client.reset();
  context_.poll();
  EXPECT_FALSE(answered);
}

}  // namespace
}  // namespace spotter::s3_test
