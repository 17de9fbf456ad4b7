// A signed request as it comes to the emulator. The first line is the method and the target, then
// headers up to an empty line, then the body.
#include <algorithm>
#include <string>

#include "tests/emulator/duration.hpp"
#include "tests/emulator/form.hpp"
#include "tests/emulator/s3/signature.hpp"
#include "tests/emulator/sigv4.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

using namespace emulator;

constexpr std::string_view secret = "emulator-secret";

std::string_view take_line(std::string_view& rest) {
  const auto end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

HttpRequest read_request(std::string_view bytes) {
  HttpRequest request;
  const std::string_view first = take_line(bytes);
  const auto space = std::min(first.find(' '), first.size());
  request.method = first.substr(0, space);
  request.target = first.substr(std::min(space + 1, first.size()));
  for (auto line = take_line(bytes); !line.empty(); line = take_line(bytes)) {
    const auto colon = std::min(line.find(':'), line.size());
    request.headers.emplace_back(line.substr(0, colon),
                                 line.substr(std::min(colon + 1, line.size())));
  }
  request.body = bytes;
  return request;
}

void forms(std::string_view bytes) {
  for (const Plus plus : {Plus::IsSpace, Plus::Literal}) {
    std::string printed;
    const auto fields = parse_form(bytes, plus);
    for (const auto& [name, value] : fields) {
      printed += "&" + percent_encode(name) + "=" + percent_encode(value);
    }
    must(parse_form(printed, plus) == fields, "a form printed reads the same");
  }
  must(percent_decode(percent_encode(bytes), Plus::IsSpace) == bytes, "what is escaped comes back");
  const auto duration = parse_duration(std::string(bytes));
  must(!duration || *duration >= Duration{0}, "a duration is not negative");
}

void replace(HttpRequest& request, std::string_view name, const std::string& value) {
  for (auto& [key, old] : request.headers) {
    if (key == name) old = value;
  }
}

}  // namespace

void examine(std::string_view bytes) {
  forms(bytes);
  HttpRequest request = read_request(bytes);
  const Verification rules{
      .region = "us-east-1",
      .service = "ec2",
      .now = {std::chrono::sys_days{std::chrono::year{2015} / 8 / 30} + std::chrono::hours{12}},
      .tolerance = std::chrono::hours{12},
      .key = [](std::string_view key) -> std::optional<SigningKey> {
        if (key != "AKIDEXAMPLE") return std::nullopt;
        return SigningKey{std::string(secret), "", "user"};
      }};
  must(!verify(request, rules), "nobody guesses a signature");
  const auto signer = emulator::s3::verify(request, {rules.now, rules.tolerance, rules.key});
  must(!signer || signer->caller.empty(), "nor one of S3");
  // The same request, signed: it is accepted when only the signature was wrong, and a change is
  // found then.
  const auto authorization = parse_authorization(request.header("authorization"));
  if (!authorization) return;
  std::string header(request.header("authorization"));
  const auto at = header.rfind(authorization->signature);
  if (at == std::string::npos) return;  // it was sent with spaces that do not count
  header.replace(at, authorization->signature.size(),
                 expected_signature(request, *authorization, request.header("x-amz-date"), secret));
  replace(request, "authorization", header);
  if (!verify(request, rules)) return;
  request.body += "x";
  must(!verify(request, rules), "a signature is of one body");
  request.body.pop_back();
  request.method += "x";
  must(!verify(request, rules), "and of one method");
}

}  // namespace spotter::fuzz
