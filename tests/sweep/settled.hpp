// settle() of a store that answers at once.
#pragma once

#include "agent/sweep/asha.hpp"

namespace spotter::sweep {

inline Result<RungRecord> settled(RungStore& store, const Asha& rule, const Objective& objective,
                                  const Measured& measured) {
  asio::io_context context;
  Result<RungRecord> outcome = failure("it waits");
  asio::co_spawn(context, settle(store, rule, objective, measured),
                 [&](std::exception_ptr, Result<RungRecord> record) { outcome = record; });
  context.run();
  return outcome;
}

}  // namespace spotter::sweep
