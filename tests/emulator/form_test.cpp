#include "tests/emulator/form.hpp"

#include <gtest/gtest.h>

#include "tests/emulator/duration.hpp"

namespace spotter::emulator {
namespace {

TEST(Form, ReadsFieldsInTheirOrder) {
  const FormFields expected = {
      {"Action", "CreateTags"}, {"Tag.1.Value", "a b&c=d"}, {"DryRun", ""}};
  EXPECT_EQ(parse_form("Action=CreateTags&&Tag.1.Value=a+b%26c%3Dd&DryRun", Plus::IsSpace),
            expected);
}

TEST(Form, KeepsWhatIsNoEscape) {
  EXPECT_EQ(percent_decode("100%", Plus::IsSpace), "100%");
  EXPECT_EQ(percent_decode("%zz%4", Plus::IsSpace), "%zz%4");
  EXPECT_EQ(percent_decode("a+b", Plus::Literal), "a+b");
}

TEST(Form, EncodingComesBack) {
  std::string every;
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  EXPECT_EQ(percent_decode(percent_encode(every), Plus::IsSpace), every);
}

TEST(Durations, HaveAUnit) {
  EXPECT_EQ(parse_duration("120s").value(), Duration{120'000});
  EXPECT_EQ(parse_duration("2m").value(), Duration{120'000});
  EXPECT_EQ(parse_duration("500ms").value(), Duration{500});
  for (const char* wrong : {"", "120", "-1s", "1 s", "s", "1d", "nan s", "1e99h"})
    EXPECT_FALSE(parse_duration(wrong).has_value()) << wrong;
}

}  // namespace
}  // namespace spotter::emulator
