// The services whose requests are JSON, or which answer in JSON.
#include <spdlog/spdlog.h>

#include "tests/emulator/emulator.hpp"
#include "tests/emulator/form.hpp"
#include "tests/world/ec2_access.hpp"

namespace spotter::emulator {

HttpResponse Emulator::parameter(const HttpRequest& request) {
  const auto caller = caller_of(request, Parameters::service_of(request));
  if (!caller) return response(Parameters::refuse(caller.error()));
  const world::Cloud& cloud = world_of(request).cloud();
  const auto needed = Parameters::needed_access(request, cloud.settings);
  if (cloud.access && !cloud.access->allows(*caller, needed))
    return response(
        Parameters::refuse({400, "AccessDenied", world::denial(cloud, *caller, needed)}));
  return response(parameters_.answer(request, cloud.settings));
}

HttpResponse Emulator::batch(const HttpRequest& request) {
  const auto caller = caller_of(request, "batch");
  if (!caller) return response(BatchService::refuse(caller.error()));
  auto result = response(batch_->answer(request, *caller, now()));
  spdlog::info("{} {} {} -> {}", *caller, request.method, request.path(), result.status);
  settle();
  return result;
}

HttpResponse Emulator::efs(const HttpRequest& request) {
  const auto caller = caller_of(request, "elasticfilesystem");
  if (!caller) return response(BatchService::refuse(caller.error()));  // all of REST-JSON say so
  world::EfsRequest asked{
      request.method, percent_decode(request.path(), Plus::Literal), {}, request.body, *caller};
  for (auto& [name, value] : parse_form(request.query(), Plus::IsSpace))
    asked.query[name] = std::move(value);
  auto result = response(efs_->answer(asked, now()));
  spdlog::info("{} {} {} -> {}", *caller, request.method, request.path(), result.status);
  return result;
}

}  // namespace spotter::emulator
