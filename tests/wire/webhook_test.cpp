#include "agent/wire/monitoring.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

TEST(Webhook, what_slack_takes_for_markup_stays_text) {
  EXPECT_EQ(webhook_body("mnist", "a <b> & \"c\"\n"),
            R"({"text":"*mnist*: a &lt;b&gt; &amp; \"c\"\n"})");
  EXPECT_EQ(webhook_body("mnist", "\xff"), "{\"text\":\"*mnist*: \xef\xbf\xbd\"}");
}

TEST(Webhook, only_https_leaves_the_machine) {
  for (const char* good : {"https://hooks.example/T0/B0/x", "http://127.0.0.1:8080/x",
                           "http://localhost", "http://[::1]/x"})
    EXPECT_EQ(wrong_webhook(good), "") << good;
  for (const char* bad :
       {"http://hooks.example/x", "http://127.0.0.1.example/x", "http://localhost.example/", "",
        "ftp://127.0.0.1/", "https://a/ b", "http://localhost:x@elsewhere/", "https://me@a/",
        "https://a/\r\nHost: b"})
    EXPECT_NE(wrong_webhook(bad), "") << bad;
  EXPECT_EQ(wrong_webhook("http://secret/").find("secret"), std::string::npos);
}

}  // namespace
}  // namespace spotter::wire
