// The emulator's world as the page shows it, made of World::state_json: what is there now, and,
// where no job tells of itself, what has happened.
#pragma once

#include <nlohmann/json.hpp>

namespace spotter::emulator {

// The model's "world". `origin`: seconds since 1970 at the state's time 0. `model`: of the job
// that is shown, or null; says who trains.
nlohmann::json world_view(const nlohmann::json& state, double origin, const nlohmann::json& model);

// A model of the world alone: its interruptions, changes of volumes and journal.
nlohmann::json world_model(const nlohmann::json& state, double origin);

}  // namespace spotter::emulator
