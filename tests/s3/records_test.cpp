#include "agent/curl/records.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <string>

#include "tests/s3/sealed.hpp"

namespace spotter::curl {
namespace {

using State = Records::State;

const std::string ticket("\x04\x00\x00\x06ticket", 10);

std::unique_ptr<Records> opened(std::uint64_t sequence = 0) {
  return Records::make(EVP_aes_128_gcm(), EVP_sha256(), secret, sequence);
}

struct Read {
  State state;  // after all
  std::string content;
};

// `bytes` come so many at once, and are taken so many at once.
Read read(std::string_view bytes, std::size_t step, std::size_t taken, Records& records) {
  std::string into(taken, '?');
  Read all{State::Lacking, {}};
  while (true) {
    std::size_t got = 0;
    all.state = records.take(into, got);
    if (all.state == State::Some) {
      all.content += into.substr(0, got);
      continue;
    }
    if (all.state != State::Lacking || bytes.empty()) return all;
    const auto room = records.room();
    const auto piece = bytes.substr(0, std::min(step, room.size()));
    piece.copy(room.data(), piece.size());
    records.put(piece.size());
    bytes.remove_prefix(piece.size());
  }
}

TEST(Records, OpenWhatTheRfcSealed) {
  // RFC 8448, 3: "server: send application_data record", the second after the ticket.
  const std::string record = from_hex(
      "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb501a"
      "59a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d");
  auto records = opened(1);
  const Read all = read(record, 1, 100, *records);
  std::string wanted;
  for (char each = 0; each < 50; ++each) wanted += each;
  EXPECT_EQ(all.content, wanted);
  EXPECT_EQ(all.state, State::Lacking);
}

TEST(Records, AreTheSameHoweverTheyComeAndAreTaken) {
  std::string content, bytes;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::string some(i % 3 == 0 ? 16384 : 1000 + 37 * i, static_cast<char>('a' + i % 26));
    content += some;
    bytes += sealed(i, some, of_content, i % 5 == 0 && i % 3 != 0 ? i : 0);
  }
  for (const std::size_t step : {1UL, 4096UL, 100'000UL, bytes.size()})
    for (const std::size_t taken : {1UL, 1000UL, 16384UL, 1UL << 20}) {
      auto records = opened();
      const Read all = read(bytes, step, taken, *records);
      EXPECT_TRUE(all.content == content) << step << " " << taken;
      EXPECT_EQ(all.state, State::Lacking);
    }
}

TEST(Records, WithOneChangedBitGiveNothing) {
  const std::string good = sealed(0, "some content");
  for (std::size_t byte = 5; byte < good.size(); ++byte) {
    std::string bad = good;
    bad[byte] = static_cast<char>(bad[byte] ^ 1);
    auto records = opened();
    const Read all = read(bad, bad.size(), 100, *records);
    EXPECT_EQ(all.state, State::Broken) << byte;
    EXPECT_EQ(all.content, "") << byte;
  }
}

TEST(Records, InAnotherOrderOrTwiceGiveNothing) {
  for (const std::string& bytes : {sealed(1, "second"), sealed(0, "first") + sealed(0, "first")}) {
    auto records = opened();
    const Read all = read(bytes, bytes.size(), 100, *records);
    EXPECT_EQ(all.state, State::Broken);
    EXPECT_TRUE(all.content.empty() || all.content == "first");
  }
}

TEST(Records, ThatAreNoneOrTooLongAreBroken) {
  for (const char* head :
       {"\x16\x03\x03\x00\x40", "\x17\x03\x03\x00\x10", "\x17\x03\x03\x41\x01"}) {
    auto records = opened();
    EXPECT_EQ(read(std::string(head, 5) + std::string(100, 'x'), 105, 10, *records).state,
              State::Broken);
  }
  auto records = opened();
  EXPECT_EQ(read(sealed(0, std::string(16385, 'x')), 1 << 16, 1 << 16, *records).state,
            State::Broken);
}

TEST(Records, WithTicketsAreReadOn) {
  auto records = opened();
  const std::string two_tickets = ticket + ticket;
  const std::string bytes =
      sealed(0, "one ") + sealed(1, two_tickets, of_handshake) + sealed(2, "") + sealed(3, "two");
  EXPECT_EQ(read(bytes, bytes.size(), 100, *records).content, "one two");
}

// New keys that come behind a ticket, or of which a fragment could be taken for one.
TEST(Records, WithMoreOrLessThanATicketAreBroken) {
  const std::string new_keys("\x18\x00\x00\x01\x00", 5);
  for (const std::string& message : {ticket + new_keys, ticket.substr(0, 9), ticket + "\x04"}) {
    auto records = opened();
    const std::string bytes = sealed(0, message, of_handshake) + sealed(1, "content");
    const Read all = read(bytes, bytes.size(), 100, *records);
    EXPECT_EQ(all.state, State::Broken);
    EXPECT_EQ(all.content, "");
  }
}

TEST(Records, WithoutContentAreNotReadForEver) {
  auto records = opened();
  std::string bytes;
  for (std::uint64_t i = 0; i < 40; ++i) bytes += sealed(i, "");
  EXPECT_EQ(read(bytes, bytes.size(), 100, *records).state, State::Broken);
}

TEST(Records, BehindABrokenOneStayUnread) {
  auto records = opened();
  std::string forged = sealed(0, "forged");
  forged.back() = static_cast<char>(forged.back() ^ 1);
  EXPECT_EQ(read(forged + sealed(1, "behind"), 1000, 100, *records).state, State::Broken);
  const Read all = read("", 1, 100, *records);
  EXPECT_EQ(all.state, State::Broken);
  EXPECT_EQ(all.content, "");
}

TEST(Records, ThatSayTheEndAreClosedAndNewKeysBroken) {
  const auto state = [](const std::string& last, unsigned char type) {
    auto records = opened();
    const std::string bytes = sealed(0, "content") + sealed(1, last, type);
    const Read all = read(bytes, bytes.size(), 100, *records);
    EXPECT_EQ(all.content, "content");
    return all.state;
  };
  EXPECT_EQ(state(std::string("\x01\x00", 2), of_alert), State::Closed);
  EXPECT_EQ(state(std::string("\x02\x14", 2), of_alert), State::Broken);
  EXPECT_EQ(state(std::string("\x18\x00\x00\x01\x00", 5), of_handshake), State::Broken);
  EXPECT_EQ(state("", 0), State::Broken);
}

TEST(Records, NeedACipherThatIsKnownHere) {
  EXPECT_EQ(Records::make(EVP_aes_128_cbc(), EVP_sha256(), secret, 0), nullptr);
  EXPECT_EQ(Records::make(EVP_aes_128_gcm(), EVP_sha384(), secret, 0), nullptr);
  EXPECT_EQ(Records::make(nullptr, EVP_sha256(), secret, 0), nullptr);
}

}  // namespace
}  // namespace spotter::curl
