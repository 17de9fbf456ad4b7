#include <nlohmann/json.hpp>

#include "agent/job/prepare.hpp"

namespace spotter::config {

using nlohmann::json;

std::string to_json(const FillRequest& request) {
  json sources = json::array();
  for (const Source& it : request.sources) {
    sources.push_back({{"from", it.from}, {"to", it.to}, {"sha256", it.sha256}});
    if (it.via) sources.back()["via"] = {it.via->bucket, it.via->key};
  }
  return json{{"job", request.job},
              {"volume", request.volume},
              {"mount", request.mount},
              {"user", request.user},
              {"sources", std::move(sources)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<FillRequest> parse_fill_request(const std::string& text) {
  try {
    const json object = json::parse(text);
    FillRequest request{
        object.at("job"), object.at("volume"), object.at("mount"), object.at("user"), {}};
    for (const json& it : object.at("sources")) {
      Source source{it.at("from"), it.at("to"), it.at("sha256"), {}};
      if (it.contains("via")) source.via = wire::S3Location{it["via"].at(0), it["via"].at(1)};
      request.sources.push_back(std::move(source));
    }
    return request;
  } catch (const json::exception& error) {
    return failure(std::string("no request to fill: ") + error.what());
  }
}

}  // namespace spotter::config
