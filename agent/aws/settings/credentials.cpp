#include "agent/aws/settings/credentials.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "agent/aws/formats/aws_error.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/s3.hpp"
#include "agent/aws/formats/services.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/base/text.hpp"

namespace spotter::act {

std::optional<std::vector<std::string>> command_words(std::string_view line) {
  std::vector<std::string> words;
  char quote = 0;
  bool inside = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char letter = line[i];
    const bool blank = quote == 0 && std::string_view(" \t\r\n").find(letter) != line.npos;
    if (blank) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (letter == quote) {
      quote = 0;
    } else if (quote == 0 && (letter == '\'' || letter == '"')) {
      quote = letter;
    } else if (letter == '\\' && quote != '\'') {
      if (++i == line.size()) return std::nullopt;
      if (quote == '"' && line[i] != '"' && line[i] != '\\') words.back() += letter;
      words.back() += line[i];
    } else {
      words.back() += letter;
    }
  }
  if (quote != 0) return std::nullopt;
  return words;
}

namespace {

constexpr int most_tries = 3;
constexpr const char* of_variables = "the environment (AWS_ACCESS_KEY_ID)";

std::string get(const Profile& profile, const char* key) {
  const auto found = profile.find(key);
  return found == profile.end() ? std::string() : found->second;
}

std::optional<wire::Credentials> keys_of(const Profile& profile) {
  std::string token = get(profile, "aws_security_token");
  if (token.empty()) token = get(profile, "aws_session_token");
  wire::Credentials keys{get(profile, "aws_access_key_id"), get(profile, "aws_secret_access_key"),
                         std::move(token), std::nullopt};
  if (keys.access_key_id.empty() || keys.secret_access_key.empty()) return std::nullopt;
  return keys;
}

Profile variables_of(const Environment& environment) {
  return {{"aws_access_key_id", environment.get("AWS_ACCESS_KEY_ID")},
          {"aws_secret_access_key", environment.get("AWS_SECRET_ACCESS_KEY")},
          {"aws_session_token", environment.get("AWS_SESSION_TOKEN")},
          {"aws_security_token", environment.get("AWS_SECURITY_TOKEN")},
          {"AWS_CREDENTIAL_EXPIRATION", environment.get("AWS_CREDENTIAL_EXPIRATION")}};
}

bool takes_role(const Profile& profile) {
  return !get(profile, "role_arn").empty() && get(profile, "web_identity_token_file").empty();
}

std::string sha1_hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), sum.data(), &size, EVP_sha1(), nullptr);
  return hexadecimal({reinterpret_cast<const char*>(sum.data()), size});
}

constexpr std::chrono::minutes refresh_before{15};  // as botocore does

// Programs write it as 2026-11-21T10:15:30Z, 2026-11-21 10:15:30+00:00, 2026-11-21T10:15:30UTC.
std::optional<wire::WallTime> time_in(const wire::Json& token, const char* key) {
  std::string text = wire::text_field(token, key);
  if (text.ends_with("UTC")) text.replace(text.size() - 3, 3, "Z");
  if (text.find(' ') == 10) text[10] = 'T';
  const auto time = wire::parse_rfc3339(text);
  return time ? std::optional(*time) : std::nullopt;
}

std::string expired(wire::WallTime end, wire::WallTime now) {
  return " expired at " + wire::to_rfc3339(end) + " by this machine's clock, which says " +
         wire::to_rfc3339(now);
}

std::string login(const std::string& profile) {
  return ": run `aws sso login --profile " + profile + "`";
}

// The container's, and the instance's, are AWS's own; a program's have a version.
Result<wire::Credentials> of_program(const std::string& text, wire::WallTime now) {
  auto document = wire::parse_json_object(text);
  if (!document) return failure("its output is no JSON object");
  const auto version = document->find("Version");
  if (version == document->end() || *version != 1)
    return failure("its Version is not 1, the only one there is");
  (*document)["Token"] = wire::text_field(*document, "SessionToken");
  if (document->value("Expiration", wire::Json()).is_null()) document->erase("Expiration");
  if (const auto end = time_in(*document, "Expiration"))
    (*document)["Expiration"] = wire::to_rfc3339(*end);
  auto keys = wire::parse_credentials(wire::json_text(*document));
  if (keys && keys->expiration && *keys->expiration <= now)
    return failure("what it gave has" + expired(*keys->expiration, now));
  return keys;
}

// {"roleCredentials": {..., "expiration": milliseconds}}
Result<wire::Credentials> of_sso_answer(const std::string& text) {
  const auto document = wire::parse_json_object(text);
  const auto inner = document ? document->find("roleCredentials") : wire::Json::const_iterator();
  if (!document || inner == document->end() || !inner->is_object())
    return failure("the answer has no roleCredentials");
  const auto key = wire::required_text(*inner, "accessKeyId");
  const auto secret = wire::required_text(*inner, "secretAccessKey");
  const auto end = wire::number_field(*inner, "expiration");
  if (!key || !secret || !end || *end < 0 || *end > 1e15)
    return failure("the answer's roleCredentials are not whole");
  const std::chrono::seconds seconds(static_cast<std::int64_t>(*end / 1000));
  return wire::Credentials{*key, *secret, wire::text_field(*inner, "sessionToken"),
                           wire::WallTime(seconds)};
}

}  // namespace

CredentialSearch::CredentialSearch(const Environment& environment, wire::WallTime now)
    : environment_(environment), now_(now) {
  plan();
}

void CredentialSearch::fail(const std::string& why) {
  problem_ = why;
  steps_.clear();
  found_.reset();
}

void CredentialSearch::fail(const Step& step, const std::string& why) {
  constexpr std::array<const char*, 7> sources{// by Step::Kind
                                               "the container's credentials",
                                               "the instance's role",
                                               "its credential_process",
                                               "its role by SSO",
                                               "the role ",
                                               "the role ",
                                               "its token of SSO"};
  const bool web = step.kind == Step::Kind::WebIdentity;
  const bool role = web || step.kind == Step::Kind::Role;
  fail((step.profile.empty() ? "" : "profile " + step.profile + ": ") +
       sources.at(static_cast<std::size_t>(step.kind)) +
       (role ? get(step.settings, "role_arn") : "") + (web ? " by web identity: " : ": ") + why);
}

void CredentialSearch::plan() {
  if (plan_keys(variables_of(environment_), of_variables)) return;
  auto files = shared_files(environment_);
  if (!files) return fail(files.error().message);
  files_ = std::move(*files);
  const std::string name = files_.name;
  if (files_.named && !files_.profile(name) &&
      environment_.get("AWS_WEB_IDENTITY_TOKEN_FILE").empty())
    return fail("AWS_PROFILE names " + name + ", which neither ~/.aws/config nor " +
                "~/.aws/credentials has");
  if (plan_profile(name, true) || !problem_.empty()) return;
  const auto container = container_endpoint(environment_);
  if (!container) return fail(container.error().message);
  if (*container)
    steps_.push_back({Step::Kind::Container, ""});
  else if (!is_set(environment_, "AWS_EC2_METADATA_DISABLED"))
    steps_.push_back({Step::Kind::Instance, ""});
}

// True: it has keys, or half of one, in whose place no other identity must do the work.
bool CredentialSearch::plan_keys(const Profile& of, const std::string& where) {
  if (get(of, "aws_access_key_id").empty()) return false;
  found_ = keys_of(of);
  if (!found_) {
    fail("partial credentials in " + where + ": aws_access_key_id without aws_secret_access_key");
  } else if (const std::string text = get(of, "AWS_CREDENTIAL_EXPIRATION"); !text.empty()) {
    const auto end = time_in({{"at", text}}, "at");
    found_->expiration = end;
    if (!end || *end <= now_)
      fail("the keys of " + where +
           (end ? " have" + expired(*end, now_) : " end at no time: " + text));
  }
  return true;
}

// True: the profile says where its credentials are, or it is a mistake.
bool CredentialSearch::plan_profile(const std::string& name, bool with_variables) {
  const Profile profile = files_.profile(name).value_or(Profile{});
  if (takes_role(profile) && (with_variables || get(profile, "aws_access_key_id").empty()))
    return plan_role(name, profile);
  Profile web = profile;
  if (const auto& of = environment_; with_variables)
    for (const auto& [variable, key] :
         {std::pair{"AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file"},
          std::pair{"AWS_ROLE_ARN", "role_arn"},
          std::pair{"AWS_ROLE_SESSION_NAME", "role_session_name"}})
      if (const std::string value = of.get(variable); !value.empty()) web[key] = value;
  if (!get(web, "web_identity_token_file").empty()) {
    steps_.push_back({Step::Kind::WebIdentity, get(profile, "role_arn").empty() ? "" : name, web});
    if (get(web, "role_arn").empty())
      fail(
          "AWS_WEB_IDENTITY_TOKEN_FILE or web_identity_token_file is set, and no role: set "
          "AWS_ROLE_ARN or role_arn");
    return true;
  }
  return plan_source(name, profile);
}

bool CredentialSearch::plan_source(const std::string& name, const Profile& profile) {
  if (!get(profile, "sso_account_id").empty() || !get(profile, "sso_role_name").empty()) {
    steps_.push_back({Step::Kind::Sso, name, profile});
    return true;
  }
  const std::string where = "profile " + name;
  if (const auto own = files_.credentials.find(name); own != files_.credentials.end())
    if (plan_keys(own->second, where + " of ~/.aws/credentials")) return true;
  if (!get(profile, "login_session").empty()) {
    fail("profile " + name + " signs in by `aws login` (login_session), which only AWS's own " +
         "programs can use: eval \"$(aws configure export-credentials --profile " + name +
         " --format env)\" hands its keys on");
    return true;
  }
  if (!get(profile, "credential_process").empty()) {
    steps_.push_back({Step::Kind::Program, name, profile});
    return true;
  }
  return plan_keys(profile, where + " of ~/.aws/config");
}

bool CredentialSearch::plan_role(const std::string& name, const Profile& profile) {
  const Step role{Step::Kind::Role, name, profile};
  const std::string source = get(profile, "source_profile");
  const std::string kind = get(profile, "credential_source");
  const auto wrong = [&](const std::string& why) {
    fail("profile " + name + " of ~/.aws/config: " + why);
    return true;
  };
  if (source.empty() == kind.empty())
    return wrong("role_arn wants either source_profile or credential_source");
  if (!get(profile, "mfa_serial").empty())
    return wrong(
        "its role wants an MFA code (mfa_serial), which nobody is here to type: eval "
        "\"$(aws configure export-credentials --profile " +
        name + " --format env)\" asks for it and hands the keys on");
  if (!kind.empty()) {
    if (kind == "Environment") {
      if (!plan_keys(variables_of(environment_), of_variables))
        return wrong("credential_source is Environment, and AWS_ACCESS_KEY_ID is empty");
      if (!problem_.empty()) return true;
    } else if (kind == "EcsContainer") {
      const auto endpoint = container_endpoint(environment_);
      if (!endpoint) return wrong(endpoint.error().message);
      if (!*endpoint) return wrong("credential_source is EcsContainer, and this is no container");
      steps_.push_back({Step::Kind::Container, name});
    } else if (kind == "Ec2InstanceMetadata") {
      steps_.push_back({Step::Kind::Instance, name});
    } else {
      return wrong("credential_source is " + kind +
                   ": Environment, Ec2InstanceMetadata or EcsContainer");
    }
    steps_.push_back(role);
    return true;
  }
  const auto found = files_.profile(source);
  if (!found) return wrong("there is no source_profile " + source);
  visited_.insert(name);
  if (visited_.contains(source)) {
    if (found_ = keys_of(*found); !found_ || source != name)
      return wrong("its source_profile leads back to " + source);
  } else if (!plan_profile(source, false)) {
    return wrong("its source_profile " + source + " has no credentials");
  }
  if (problem_.empty()) steps_.push_back(role);
  return true;
}

std::optional<Question> CredentialSearch::next() {
  if (steps_.empty()) return std::nullopt;
  using Kind = Step::Kind;
  const Step step = steps_.front();
  Question made;
  if (step.kind == Kind::Instance) {
    made.kind = Question::Kind::InstanceRole;
  } else if (step.kind == Kind::Program) {
    made.kind = Question::Kind::Program;
    made.words = command_words(get(step.settings, "credential_process")).value_or(made.words);
    if (made.words.empty()) fail(step, "it is no command line");
  } else if (step.kind == Kind::Container) {
    made = of_container();
  } else if (step.kind == Kind::SsoRefresh) {
    made = *refresh_;
  } else {
    made = step.kind == Kind::Sso ? of_sso(step) : of_sts(step);
  }
  if (!problem_.empty()) return std::nullopt;
  return made;
}

Question CredentialSearch::refused(const Step& step, const std::string& why) {
  fail(step, why);
  return {};
}

Question CredentialSearch::of_container() {
  const auto endpoint = container_endpoint(environment_);
  if (!endpoint) return refused(steps_.front(), endpoint.error().message);
  Question made{.url = (*endpoint)->url, .on_this_host = true};
  if (!(*endpoint)->token.empty()) made.headers.emplace_back("Authorization", (*endpoint)->token);
  return made;
}

Question CredentialSearch::of_sso(const Step& step) {
  Profile settings = step.settings;
  const std::string session = get(settings, "sso_session");
  if (!session.empty()) {
    const auto found = files_.config.find("sso-session " + session);
    if (found == files_.config.end())
      return refused(step, "~/.aws/config has no [sso-session " + session + "]");
    settings.insert(found->second.begin(), found->second.end());
  }
  for (const char* key : {"sso_start_url", "sso_region", "sso_account_id", "sso_role_name"})
    if (get(settings, key).empty()) return refused(step, std::string(key) + " is missing");
  const std::string path = environment_.get("HOME") + "/.aws/sso/cache/" +
                           sha1_hex(session.empty() ? get(settings, "sso_start_url") : session) +
                           ".json";
  const auto token = wire::parse_json_object(refreshed_ ? refreshed_->text : file_contents(path));
  const auto end = token ? time_in(*token, "expiresAt") : std::nullopt;
  if (!session.empty() && end && *end - now_ < refresh_before && begin_refresh(step, *token, path))
    return *refresh_;
  if (!end || *end <= now_)
    return refused(step, (end ? "its token has" + expired(*end, now_) + not_refreshed_
                              : "there is no token of SSO") +
                             login(step.profile));
  const Region region(get(settings, "sso_region"));
  return {.url = endpoint(environment_, "sso", region) + "/federation/credentials?" +
                 wire::escape_query({{"account_id", get(settings, "sso_account_id")},
                                     {"role_name", get(settings, "sso_role_name")}}),
          .headers = {{"x-amz-sso_bearer_token", wire::text_field(*token, "accessToken")}}};
}

// Once, by the client that `aws sso login` has registered, as botocore does; false: it cannot be.
// https://docs.aws.amazon.com/singlesignon/latest/OIDCAPIReference/API_CreateToken.html
bool CredentialSearch::begin_refresh(const Step& step, const wire::Json& token,
                                     const std::string& path) {
  const auto registered_until = time_in(token, "registrationExpiresAt");
  if (refresh_ || !registered_until || *registered_until <= now_) return false;
  wire::Json body{{"grantType", "refresh_token"}};
  for (const char* key : {"clientId", "clientSecret", "refreshToken"}) {
    body[key] = wire::text_field(token, key);
    if (body[key] == "") return false;
  }
  std::string region = wire::text_field(token, "region");
  if (const auto at = files_.config.find("sso-session " + get(step.settings, "sso_session"));
      at != files_.config.end() && !get(at->second, "sso_region").empty())
    region = get(at->second, "sso_region");
  refresh_ = Question{.method = "POST",
                      .url = endpoint(environment_, "sso-oidc", Region(region)) + "/token",
                      .headers = {{"content-type", "application/json"}},
                      .body = wire::json_text(body)};
  steps_.push_front({Step::Kind::SsoRefresh, step.profile});
  to_refresh_ = {path, wire::json_text(token)};
  return true;
}

// A failure is none as long as the token is valid.
void CredentialSearch::take_refreshed(const Reply& reply) {
  auto token = wire::parse_json_object(to_refresh_.text);
  const auto answer = wire::parse_json_object(reply.body);
  const auto seconds = answer ? wire::number_field(*answer, "expiresIn") : std::nullopt;
  const bool whole = reply.trouble.empty() && reply.status == 200 && seconds && *seconds > 0 &&
                     *seconds < 1e9 && !wire::text_field(*answer, "accessToken").empty();
  if (!whole) {
    const std::string why = answer ? wire::text_field(*answer, "error") : "";
    not_refreshed_ = ", and it was not refreshed (" +
                     (!reply.trouble.empty() ? reply.trouble
                                             : "HTTP " + std::to_string(reply.status) +
                                                   (why.empty() ? "" : ", " + why)) +
                     ")";
    return;
  }
  (*token)["accessToken"] = wire::text_field(*answer, "accessToken");
  (*token)["expiresAt"] =
      wire::to_rfc3339(now_ + std::chrono::seconds(static_cast<std::int64_t>(*seconds)));
  if (const auto next = wire::text_field(*answer, "refreshToken"); !next.empty())
    (*token)["refreshToken"] = next;
  refreshed_ = {to_refresh_.path, wire::json_text(*token)};
}

Question CredentialSearch::of_sts(const Step& step) {
  const bool web = step.kind == Step::Kind::WebIdentity;
  const std::string session = get(step.settings, "role_session_name");
  wire::Query query{.service = "sts",
                    .action = web ? "AssumeRoleWithWebIdentity" : "AssumeRole",
                    .parameters = {{"RoleArn", get(step.settings, "role_arn")},
                                   {"RoleSessionName", session.empty() ? "spotter" : session}}};
  for (const auto& [name, key] :
       {std::pair{"DurationSeconds", "duration_seconds"}, std::pair{"ExternalId", "external_id"}})
    if (const std::string value = get(step.settings, key); !web && !value.empty())
      query.parameters[name] = value;
  if (web) {
    const std::string path = get(step.settings, "web_identity_token_file");
    const std::string token(trimmed(file_contents(path)));
    if (token.empty()) return refused(step, "there is no token in " + path);
    query.parameters["WebIdentityToken"] = token;
  }
  Region region = configured_region(environment_);
  if (region.empty()) region = Region(get(step.settings, "region"));
  if (region.empty()) region = Region("us-east-1");
  Question made{.method = "POST",
                .url = endpoint(environment_, "sts", region) + "/",
                .headers = {{"content-type", "application/x-www-form-urlencoded; charset=utf-8"}},
                .body = wire::form_body(query)};
  if (web) return made;
  wire::sign(made.headers, made.method, made.url, made.body, *found_, {"sts", region.str(), now_});
  return made;
}

Result<wire::Credentials> CredentialSearch::read(const Step& step, const Reply& reply) const {
  using Kind = Step::Kind;
  if (!reply.trouble.empty()) return failure(reply.trouble);
  if (step.kind == Kind::Program) {
    if (reply.status == 0) return of_program(reply.body, now_);
    const std::string said(trimmed(reply.errors));
    return failure("it ended with status " + std::to_string(reply.status) +
                   (said.empty() ? "" : ": " + said.substr(0, 1000)));
  }
  if (reply.status == 200) {
    if (step.kind == Kind::Container) return wire::parse_credentials(reply.body);
    if (step.kind == Kind::Sso) return of_sso_answer(reply.body);
    return wire::decode_assumed_role(
        reply.body, step.kind == Kind::WebIdentity ? "AssumeRoleWithWebIdentity" : "AssumeRole");
  }
  if (step.kind == Kind::Sso && reply.status == 401)
    return failure("its token is refused" + login(step.profile));
  std::string why = "HTTP " + std::to_string(reply.status);
  if (step.kind == Kind::Container) return failure(why);
  const CallError error = wire::parse_error(reply.body);
  if (!error.code.empty()) why += ", " + error.code;
  return failure(error.message.empty() ? why : why + ": " + error.message);
}

// What passes by itself, and a refusal while our clock is wrong.
bool CredentialSearch::asks_again(const Reply& reply) {
  if (steps_.front().kind == Step::Kind::Program) return false;
  if (reply.status / 100 == 4 && reply.date && !clock_learnt_ &&
      std::chrono::abs(*reply.date - now_) > tolerated_skew) {
    now_ = *reply.date;
    return clock_learnt_ = true;
  }
  const bool passes = !reply.trouble.empty() || reply.status >= 500 || reply.status == 429;
  return passes && ++tries_ < most_tries;
}

void CredentialSearch::take(const Reply& reply) {
  const Step step = steps_.front();
  if (step.kind == Step::Kind::Instance) {
    found_ = reply.role;
    if (!reply.trouble.empty()) return fail(step, reply.trouble);
    if (!found_ && steps_.size() > 1) return fail(step, "there is none");
  } else {
    if (asks_again(reply)) return;
    if (step.kind == Step::Kind::SsoRefresh) {
      take_refreshed(reply);
      steps_.pop_front();
      tries_ = 0;
      return;
    }
    auto keys = read(step, reply);
    if (!keys) return fail(step, keys.error().message);
    found_ = std::move(*keys);
  }
  steps_.pop_front();
  tries_ = 0;
}

Result<std::optional<wire::Credentials>> CredentialSearch::result() const {
  if (!problem_.empty()) return failure(problem_);
  return found_;
}

}  // namespace spotter::act
