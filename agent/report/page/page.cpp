#include "agent/report/page/page.hpp"

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

#include "agent/report/page/assets.hpp"

namespace spotter::page {
namespace {

// "'sha256-...'": an inline script in the policy.
std::string hash_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("SHA-256 failed");
  std::array<unsigned char, 4 * ((EVP_MAX_MD_SIZE + 2) / 3) + 1> base64{};
  const int length = EVP_EncodeBlock(base64.data(), digest.data(), static_cast<int>(size));
  return "'sha256-" + std::string(base64.begin(), base64.begin() + length) + "'";
}

std::string policy(std::string_view connects) {
  return "default-src 'none'; script-src " + hash_of(script) + "; style-src " + hash_of(style) +
         "; img-src data:; connect-src " + std::string(connects) +
         "; base-uri 'none'; form-action 'none'";
}

// In JSON only texts can contain '<'; once escaped, none can end the element or begin a comment.
std::string harmless(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json)
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  return text;
}

std::string filled(std::string_view connects, std::string_view model) {
  std::string_view rest = frame;
  std::string result;
  const std::array<std::pair<std::string_view, std::string>, 4> parts = {{
      {"@POLICY@", policy(connects)},
      {"@STYLE@", std::string(style)},
      {"@MODEL@", harmless(model)},
      {"@SCRIPT@", std::string(script)},
  }};
  for (const auto& [mark, text] : parts) {  // in the order of the page's template
    const auto at = rest.find(mark);
    result.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + mark.size());
  }
  return result.append(rest);
}

}  // namespace

std::string html() { return filled("'self'", ""); }
std::string document(std::string_view model_json) { return filled("'none'", model_json); }

}  // namespace spotter::page
