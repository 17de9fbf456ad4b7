// A web hook of Slack's kind. No I/O.
// Source: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/
#pragma once

#include <string>
#include <string_view>

namespace spotter::wire {

// The body of the POST; escapes what Slack would interpret as markup. `job`: its name.
std::string webhook_body(std::string_view job, std::string_view words);

// What is wrong with the URL; empty: nothing. Does not repeat the URL, which is a secret.
std::string wrong_webhook(std::string_view url);

}  // namespace spotter::wire
