// Services of JSON 1.1 whose values are files. SSM's GetParameter: DIR/ssm/NAME, as it stands
// without its last newline; those of AWS's own images (/aws/service/...) are there without one.
// Service Quotas' GetServiceQuota: DIR/quotas/CODE, a number; without one, 1152. The price list's
// GetProducts: DIR/prices/TYPE, dollars an hour; without one, three times the spot price. Regions
// other than the home have their parameters in DIR/ssm/REGION/, and may have prices in
// DIR/prices/REGION/TYPE; quotas are the same.
// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html
// https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_GetServiceQuota.html
#pragma once

#include <filesystem>
#include <string>

#include "tests/emulator/http.hpp"
#include "tests/emulator/sigv4.hpp"
#include "tests/world/access.hpp"
#include "tests/world/settings.hpp"
#include "tests/world/world.hpp"

namespace spotter::emulator {

class Parameters {
 public:
  explicit Parameters(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // "ssm" | "servicequotas" | "pricing", as requests are signed for it; empty: neither.
  static std::string service_of(const HttpRequest& request);
  static world::AccessRequest needed_access(const HttpRequest& request,
                                            const world::Settings& settings);
  world::Reply answer(const HttpRequest& request, const world::Settings& settings) const;
  static world::Reply refuse(const Refusal& why);

 private:
  std::filesystem::path directory_;
};

}  // namespace spotter::emulator
