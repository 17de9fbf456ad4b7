#include "agent/tools/launch/dry_run.hpp"

#include <cstdio>

#include "agent/base/shell.hpp"
#include "agent/launch/places.hpp"
#include "agent/launch/requests.hpp"

namespace spotter::command {
namespace {

void print_line(const std::string& line) { std::printf("%s\n", line.c_str()); }

// Prints the requests of a first launch as they are sent, except for values that only AWS knows.
int print_requests(const LaunchedJob& launched) {
  const auto& [job, user_data, digest, packages, rests, regions] = launched;
  if (!packages.empty()) print_line("# Unless they are there:");
  for (const launch::SentPackage& it : packages) print_line(launch::send_command(it));
  std::string image = job.launch->image;
  if (image.starts_with(image_parameter)) {
    print_line("# The image is the value of this:\naws ssm get-parameter --name " +
               wire::shell_quoted(image.substr(image_parameter.size())));
    image = "ami-OF-THE-PARAMETER";
  }
  if (!job.storage.share && !job.sweep && job.launch->volume) {
    print_line("# Unless the job's volume is there:");
    print_line(wire::command_of(launch::create_volume(job, "TOKEN")));
  }
  if (job.launch->placement_group == config::own_placement_group) {
    print_line("# Unless the job's placement group is there:");
    print_line(wire::command_of(launch::create_placement_group(job)));
  }
  launch::Template content{image, user_data};
  if (job.launch->efa) {
    std::string types;
    for (const std::string& it : job.launch->instance_types) types += " " + wire::shell_quoted(it);
    print_line(
        "# With an interface on each network card with EFA, by this:\n"
        "aws ec2 describe-instance-types --instance-types" +
        types);
    content.interfaces = {{0, "efa"}};
  }
  print_line("# When there is such a template already, it gets a new version instead:");
  print_line(wire::command_of(launch::create_template(job, content)));
  print_line("# Once no other fleet of the job is at work:");
  if (job.launch->type == FleetKind::AutoScalingGroup)
    print_line("# (a group that is there already is changed to this instead)");
  print_line(wire::command_of(launch::request_fleet(
      job,
      {{"lt-OF-THE-TEMPLATE", "1"}, "TOKEN", digest, {}, rests, launch::tag_of_regions(regions)})));
  if (job.launch->type == FleetKind::AutoScalingGroup)
    print_line(wire::command_of(launch::keep_zones(FleetId(launch::resource_name(job)))));
  if (job.launch->on_demand.needs_watcher()) {
    print_line("# By `spotter watch`, for as long as there is no spot capacity:");
    print_line(wire::command_of(launch::request_on_demand(
        job, {"lt-OF-THE-TEMPLATE", "1"}, FleetId("fleet-OF-THE-JOB"), "TOKEN", digest)));
  }
  return 0;
}

}  // namespace

int print_all_requests(const LaunchedJob& launched, const std::vector<config::Job>& jobs) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::string& region = jobs[i].launch->region;
    if (jobs.size() > 1)
      print_line("# In " + (region.empty() ? "the region that AWS_REGION names" : region) + ":");
    LaunchedJob there = launched_at(launched, jobs[i], i > 0);
    for (const config::Job& it : jobs)
      if (jobs.size() > 1)
        there.regions.push_back(it.launch->region.empty() ? "THIS-REGION" : it.launch->region);
    print_requests(there);
  }
  return 0;
}

}  // namespace spotter::command
