// The control API, /_spotter/... on the API port, JSON. Instances get 404.
//  GET  health     to whoever asks on this machine
//  GET  state, faults; of the home, "regions" has those of the others
//  POST interrupt  {"instance"?,"action"?,"in_ms"?}; without "instance": the only one that lives
//  POST rebalance, withdraw, kill  {"instance"?}
//  POST instance   {"zone"?,"type"?} -> {"instance","metadata"}; without "zone": the first
//  POST fault      {"name","arguments": {...}}
//  POST market     {"pools": [{"type","zone","available","dollars"}],"in_ms"?}
//  POST policy     {"who","documents": [...]}
//  POST reset      no instance, volume, object, fault is left; answers once it is done
//  POST stop
// Errors: 400 or 404 with {"error": "..."}.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>

#include "tests/emulator/http.hpp"
#include "tests/emulator/machines.hpp"
#include "tests/emulator/regions.hpp"
#include "tests/emulator/s3/service.hpp"
#include "tests/world/batch/batch.hpp"
#include "tests/world/world.hpp"

namespace spotter::emulator {

class Control {
 public:
  struct Parts {
    Regions& regions;
    s3::Service& s3;
    world::batch::Batch& batch;
    Machines& machines;
    std::function<Time()> now;
    std::function<void()> settle;  // lets the host carry out what has happened
    std::function<void()> stop;
    std::function<Result<void>()> reset;
    std::string mode;
    std::string version;
  };
  explicit Control(Parts parts) : parts_(std::move(parts)) {}

  HttpResponse answer(const HttpRequest& request);
  static std::vector<std::string> fault_names();  // of both, one line each

 private:
  HttpResponse health();
  HttpResponse state();
  void describe_s3(nlohmann::json& document);
  void describe_machines(nlohmann::json& document);
  HttpResponse post(std::string_view what, const nlohmann::json& body);
  HttpResponse add_instance(const nlohmann::json& body);
  HttpResponse reserve(const nlohmann::json& body);
  world::Expected<void> reclaim(const nlohmann::json& body);
  world::Expected<void> change(std::string_view what, const nlohmann::json& body);
  world::Expected<void> market(const nlohmann::json& body);
  world::Expected<InstanceId> instance_of(const nlohmann::json& body);
  Duration lead_of(const nlohmann::json& body) const;
  world::Expected<void> fault(const nlohmann::json& body);
  world::Expected<void> fault_of_worlds(const std::string& name,
                                        const std::map<std::string, std::string>& arguments);
  world::Expected<void> interrupt(const InstanceId& id, const nlohmann::json& body);

  Parts parts_;
};

}  // namespace spotter::emulator
