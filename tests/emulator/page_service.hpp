// The live page of this world and of the jobs that publish into its S3, below /_spotter/ on the API
// port:
//   GET /_spotter/                the page (agent/report/page)
//   GET /_spotter/model?job=KEY   what it shows, as JSON; without a job the first, or the world
//   GET /_spotter/events?job=KEY  the same as it changes (agent/report/page/feed.hpp)
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tests/emulator/http.hpp"
#include "tests/emulator/published.hpp"
#include "tests/world/world.hpp"

namespace spotter::emulator {

class PageService {
 public:
  PageService(world::World& world, s3::Store& store, std::function<Time()> now)
      : world_(world), published_(store), now_(std::move(now)) {}

  // Nothing: none of the page's addresses.
  std::optional<HttpResponse> answer(const HttpRequest& request);

 private:
  // `model` changes with the job, `besides` with the world.
  struct Shown {
    std::shared_ptr<const nlohmann::json> model;
    nlohmann::json besides;
  };
  Shown shown(const std::string& job);
  report::Prices prices(const nlohmann::json& state) const;
  HttpResponse events(const std::string& job);

  world::World& world_;
  Published published_;
  std::function<Time()> now_;
};

}  // namespace spotter::emulator
