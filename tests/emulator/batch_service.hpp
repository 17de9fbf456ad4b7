// AWS Batch on this machine: jobs are processes of the instances that are its hosts.
//   DIR/batch/LOG_STREAM.log                what a job's attempt wrote: DEFINITION/default/TASK
//   DIR/instances/i-*/jobs/TASK             where it ran; its SPOTTER_RUN is run/TASK, cut short
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tests/emulator/http.hpp"
#include "tests/emulator/machines.hpp"
#include "tests/emulator/sigv4.hpp"
#include "tests/world/batch/batch.hpp"

namespace spotter::emulator {

class BatchService {
 public:
  BatchService(world::World& world, Machines& machines, std::filesystem::path directory,
               std::uint64_t seed)
      : batch_(world, {}, seed), machines_(machines), directory_(std::move(directory)) {}

  static bool owns(const HttpRequest& request);  // by its path
  world::Reply answer(const HttpRequest& request, const std::string& caller, Time now);
  // A signature that was not accepted, as Batch words it.
  static world::Reply refuse(const Refusal& why);

  // Carries out what is due; true: something was.
  bool settle(Time now);
  std::optional<Time> next() const { return batch_.next(); }
  // An instance's init tells of one of its containers.
  void hear(const Words& words, Time now);

  world::batch::Batch& batch() { return batch_; }

 private:
  void on(const world::batch::RunJob& order);
  void on(const world::batch::StopJob& order) { tell("stop", order.run, order.host); }
  void on(const world::batch::KillJob& order) { tell("kill", order.run, order.host); }
  void tell(const char* what, const world::batch::Run& run, const InstanceId& host);

  world::batch::Batch batch_;
  Machines& machines_;
  std::filesystem::path directory_;
  std::map<std::string, world::batch::Run> runs_;  // by task
};

}  // namespace spotter::emulator
