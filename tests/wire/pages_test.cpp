#include "agent/aws/formats/pages.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

// The listing's error at its end, and the number of pages until then; `token` makes the next one of
// a page's number.
template <class Token>
std::pair<std::string, std::size_t> walk(Pages pages, std::size_t items, Token token) {
  for (std::size_t page = 1; page < 10'000; ++page) {
    const std::string next = token(page);
    const auto more = pages.add(items, next);
    if (!more) return {more.error().message, page};
    if (next.empty()) return {"", page};
  }
  return {"it never ended", 0};
}

bool says(const std::string& text, const char* what) { return text.find(what) != text.npos; }

TEST(Pages, EndWithTheLastOne) {
  const auto [error, pages] = walk(Pages(), 1000, [](std::size_t page) {
    return page == 999 ? std::string() : std::to_string(page);
  });
  EXPECT_EQ(error, "");
  EXPECT_EQ(pages, 999U);
}

TEST(Pages, FindATokenThatComesAgainHoweverLongTheWayToIt) {
  for (const std::size_t before : {0U, 1U, 2U, 5U, 60U}) {
    for (const std::size_t circle : {1U, 2U, 3U, 7U, 100U}) {
      const auto [error, pages] = walk(Pages(), 1000, [&](std::size_t page) {
        return std::to_string(page <= before ? page : 1000 + (page - before) % circle);
      });
      EXPECT_TRUE(says(error, "came a second time")) << before << " " << circle << error;
      EXPECT_LE(pages, 3 * (before + circle) + 2) << before << " " << circle;
    }
  }
}

TEST(Pages, ThatAreEmptyOneAfterTheOtherEnd) {
  const auto [error, pages] =
      walk(Pages(), 0, [](std::size_t page) { return std::to_string(page); });
  EXPECT_TRUE(says(error, "without an entry")) << error;
  EXPECT_EQ(pages, 101U);
}

TEST(Pages, HaveALimitAndSoHasWhatTheyList) {
  const auto number = [](std::size_t page) { return std::to_string(page); };
  const auto [few, pages] = walk(Pages({.pages = 50}), 1, number);
  EXPECT_TRUE(says(few, "more than 50 pages")) << few;
  EXPECT_EQ(pages, 50U);
  const auto [many, page] = walk(Pages({.items = 9'999}), 1000, number);
  EXPECT_TRUE(says(many, "more than 9999 entries")) << many;
  EXPECT_EQ(page, 10U);
}

TEST(Pages, TenMillionObjectsAreNotTooMany) {
  Pages pages(object_pages);
  for (std::size_t page = 1; page < 10'000; ++page)
    ASSERT_TRUE(pages.add(1000, std::to_string(page)));
  EXPECT_TRUE(pages.add(1000, ""));
}

}  // namespace
}  // namespace spotter::wire
