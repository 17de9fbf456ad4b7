#include "agent/wire/webhook.hpp"

#include "agent/base/json.hpp"

namespace spotter::wire {

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
  return Json{{"text", text}}.dump(-1, ' ', false, Json::error_handler_t::replace);
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
