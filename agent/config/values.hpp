// Parsers: the text of one value -> the value, or what is wrong with it. Pure. Each Scalar is one
// type of job.yaml; its message lacks the key, which the reader adds.
#pragma once

#include <algorithm>
#include <concepts>

#include "agent/config/job.hpp"

namespace spotter::config {

// The candidate most similar to `word`; empty: none is similar.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

// Quotes for a message; shortens long text.
inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t shown = 100;
  return "'" + std::string(text.substr(0, shown)) + (text.size() > shown ? "...'" : "'");
}

template <class T>
using Choices = std::vector<std::pair<std::string_view, T>>;

template <class T>
Result<T> choose(std::string_view text, const Choices<T>& choices) {
  std::vector<std::string_view> names;
  std::string list;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names.push_back(name);
    list.append(list.empty() ? "" : ", ").append(name);
  }
  const auto meant = nearest(text, names);
  return failure(in_quotes(text) + " is not one of " + list +
                 (meant.empty() ? "" : "; did you mean '" + std::string(meant) + "'?"));
}

template <class T>
struct Scalar {
  std::string_view expected;  // "a duration such as 90s": what a message says was expected
  Result<T> (*read)(std::string_view text) = nullptr;
  Choices<T> choices = {};                        // without `read`: it is one of these
  bool (*fits)(std::string_view text) = nullptr;  // or a text of which this is true

  Result<T> parse(std::string_view text) const {
    if (read != nullptr) return read(text);
    if (fits == nullptr) return choose<T>(text, choices);
    if constexpr (std::constructible_from<T, std::string_view>)
      if (fits(text)) return T(text);
    // A text for a terminal, and none of the environment's that is no text of a job.yaml.
    constexpr std::size_t shown = 100;
    const bool plain = text.size() <= shown && std::ranges::none_of(text, [](unsigned char each) {
                         return each < ' ' || each == 127;
                       });
    return failure("expected " + std::string(expected) +
                   (plain ? ", found " + in_quotes(text) : ""));
  }
};

extern const Scalar<JobName> job_name;              // [a-z0-9-]{1,63}
extern const Scalar<std::string> mount_point;       // absolute
extern const Scalar<std::string> path_below_mount;  // relative, without ".."
extern const Scalar<std::string> folder_path;       // absolute, of a file or folder
extern const Scalar<std::uint16_t> port;
extern const Scalar<std::string> volume_type;  // gp3
extern const Scalar<int> volume_rate;          // IOPS or MiB/s
extern const Scalar<bool> yes_or_no;
extern const Scalar<Duration> stall_duration;  // 0: never
extern const Scalar<std::string> commit_id;
extern const Scalar<std::string> command;           // any text that is not blank
extern const Scalar<Duration> duration;             // 90s, 500ms, 2h30m; positive
extern const Scalar<std::string> instance_profile;  // of IAM: its ARN, or its name
extern const Scalar<std::string> sha256;
extern const Scalar<double> positive_number;
extern const Scalar<wire::S3Location> s3_prefix;     // the key gets a slash at its end
extern const Scalar<std::string> environment_value;  // any text, the empty one, too
extern const Scalar<std::string> tag_value;          // EC2: at most 256 characters

// The error in the name of a trainer's variable, or of a tag; empty: none.
std::string wrong_variable_name(std::string_view name);
std::string wrong_tag_key(std::string_view key);

// Replaces `${NAME}` by its value and `$${` by `${`; leaves every other `$`.
Result<std::string> expand(std::string_view text,
                           const std::map<std::string, std::string>& variables);

}  // namespace spotter::config
