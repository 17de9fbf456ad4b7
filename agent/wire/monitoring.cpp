#include "agent/wire/monitoring.hpp"

#include <algorithm>
#include <cmath>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

// In quotes. The only escapes of JSON's that remain are those that the format has: \\, \" and \n.
std::string quoted(std::string value) {
  for (char& each : value)
    if ((static_cast<unsigned char>(each) < ' ' && each != '\n') || each == 0x7f) each = '?';
  return json_text(Json(std::move(value)));
}

// Whole numbers without a fraction, all others with every digit that they need.
std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  constexpr double exact = 9007199254740992.0;  // 2^53
  const bool whole = std::abs(value) < exact && std::floor(value) == value;
  return printed(whole ? "%.0f" : "%.17g", value);
}

}  // namespace

void Exposition::begin(std::string_view name, std::string_view type, std::string_view help) {
  name_ = "spotter_" + std::string(name);
  head_ = "# HELP " + name_ + " " + std::string(help) + "\n# TYPE " + name_ + " " +
          std::string(type) + "\n";
  labels_.clear();
}

void Exposition::sample(double value, const Labels& labels) {
  std::string its;
  for (const auto& [label, of_it] : labels)
    its += (its.empty() ? "{" : ",") + std::string(label) + "=" + quoted(of_it);
  its += labels.empty() ? " " : "} ";
  if (!labels_.insert(its).second) return;
  text_ += std::exchange(head_, {}) + name_ + its + number(value) + "\n";
}

std::string webhook_body(std::string_view job, std::string_view words) {
  std::string text = "*" + std::string(job) + "*: ";
  for (const char each : words) {
    if (each == '&')
      text += "&amp;";
    else if (each == '<')
      text += "&lt;";
    else if (each == '>')
      text += "&gt;";
    else
      text += each;
  }
  return json_text(Json{{"text", text}});
}

std::string wrong_webhook(std::string_view url) {
  if (url.find_first_of(" \t\r\n") != url.npos) return "the web hook's URL has a space in it";
  // http://localhost:x@elsewhere/ is a URL of the host elsewhere.
  if (url.substr(0, url.find('/', url.find("://") + 3)).find('@') != url.npos)
    return "the web hook's URL has a user in it";
  if (url.starts_with("https://")) return "";
  for (const std::string_view here : {"http://127.0.0.1", "http://localhost", "http://[::1]"}) {
    const bool ends =
        url.size() == here.size() ||
        (url.size() > here.size() && (url[here.size()] == ':' || url[here.size()] == '/'));
    if (url.starts_with(here) && ends) return "";
  }
  return "the web hook's URL does not begin with https://";
}

}  // namespace spotter::wire
