// Where credentials of AWS are, in the order of botocore: variables, a role of the profile (with
// its chain of profiles), a web identity, IAM Identity Center (SSO), the files' keys, a
// credential_process, a container's endpoint, the instance's role. No network and no processes: the
// search says what is to be asked, and whoever has it asked hands the answer over
// (aws/s3/keys.hpp).
// Source: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
#pragma once

#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "agent/aws/settings/settings.hpp"
#include "agent/base/json.hpp"

namespace spotter::act {

// The words of a command line as shlex.split() has them: quotes, no shell. None: a quote is open.
std::optional<std::vector<std::string>> command_words(std::string_view line);

struct Question {
  enum class Kind : std::uint8_t { Http, Program, InstanceRole };
  Kind kind = Kind::Http;
  std::string method = "GET";
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool on_this_host = false;       // no proxy, short limits
  std::vector<std::string> words;  // a program and its arguments; its output is the answer
};

inline constexpr std::chrono::seconds longest_program{60};

struct Reply {
  std::string trouble;  // why there is no answer; empty: there is one
  int status = 0;       // HTTP's, or the program's exit status
  std::string body;
  std::string errors;                     // a program's stderr
  std::optional<wire::WallTime> date;     // of the server's clock
  std::optional<wire::Credentials> role;  // the instance's; none: it has none, or this is none
};

// A token of SSO that was refreshed: its file, and what that has to say from now on.
struct RefreshedToken {
  std::string path;
  std::string text;
};

class CredentialSearch {
 public:
  CredentialSearch(const Environment& environment, wire::WallTime now);

  // The next question; none: result() is known.
  std::optional<Question> next();
  void take(const Reply& reply);

  // The caller writes it, for itself and AWS's own programs: a token can be refreshed once.
  const std::optional<RefreshedToken>& refreshed() const { return refreshed_; }

  // None: no source is named. A failure says which source has none, and what to do; never a secret.
  Result<std::optional<wire::Credentials>> result() const;

 private:
  struct Step {
    enum class Kind : std::uint8_t {
      Container,
      Instance,
      Program,
      Sso,
      WebIdentity,
      Role,
      SsoRefresh
    };
    Kind kind;
    std::string profile;  // empty: of variables
    Profile settings = {};
  };

  void plan();
  bool plan_keys(const Profile& of, const std::string& where);
  bool plan_profile(const std::string& name, bool with_variables);
  bool plan_role(const std::string& name, const Profile& profile);
  bool plan_source(const std::string& name, const Profile& profile);
  void fail(const Step& step, const std::string& why);
  void fail(const std::string& why);

  Question refused(const Step& step, const std::string& why);
  Question of_container();
  Question of_sso(const Step& step);
  bool begin_refresh(const Step& step, const wire::Json& token, const std::string& path);
  void take_refreshed(const Reply& reply);
  Question of_sts(const Step& step);
  Result<wire::Credentials> read(const Step& step, const Reply& reply) const;
  bool asks_again(const Reply& reply);

  const Environment environment_;
  wire::WallTime now_;
  SharedFiles files_;
  std::set<std::string> visited_;
  std::deque<Step> steps_;
  int tries_ = 0;
  bool clock_learnt_ = false;
  std::optional<wire::Credentials> found_;
  std::string problem_;
  std::optional<Question> refresh_;  // of a token, once
  RefreshedToken to_refresh_;
  std::optional<RefreshedToken> refreshed_;
  std::string not_refreshed_;  // why; empty: it was not tried, or it was
};

// What is said when there are none anywhere.
inline constexpr const char* no_credentials =
    "no AWS credentials: neither in AWS_ACCESS_KEY_ID, nor in ~/.aws, nor from a container's "
    "endpoint, nor from the instance's role";

}  // namespace spotter::act
