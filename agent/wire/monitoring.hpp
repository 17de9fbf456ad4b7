// Formats of those who watch a job: Prometheus, and a web hook of Slack's kind. No I/O.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spotter::wire {

inline constexpr const char* exposition_type = "text/plain; version=0.0.4; charset=utf-8";

class Exposition {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  // Begins a family, to which the samples that follow belong. One without samples is left out.
  void gauge(std::string_view name, std::string_view help) { begin(name, "gauge", help); }
  void counter(std::string_view name, std::string_view help) { begin(name, "counter", help); }
  // Replaces what is no UTF-8, or a control character, in the labels' values, and drops a second
  // sample with the same labels: either would spoil all the metrics for their reader.
  void sample(double value, const Labels& labels = {});
  void sample(const std::optional<double>& value) {
    if (value) sample(*value);
  }
  std::string take() { return std::move(text_); }

 private:
  void begin(std::string_view name, std::string_view type, std::string_view help);

  std::string text_;
  std::string name_, head_;
  std::set<std::string> labels_;  // of the family's samples so far
};

// A web hook of Slack's kind. No I/O.
// Source: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/

// The body of the POST; escapes what Slack would interpret as markup. `job`: its name.
std::string webhook_body(std::string_view job, std::string_view words);

// The mistake in the URL; empty: none. Does not repeat the URL, which is a secret.
std::string wrong_webhook(std::string_view url);

}  // namespace spotter::wire
