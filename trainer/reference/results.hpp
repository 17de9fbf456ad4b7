// The files of the result directory. All are functions of the run alone: no times, no names of
// machines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "agent/base/result.hpp"
#include "trainer/reference/snapshot.hpp"

namespace spotter::train {

// training.csv: the header alone, and a row with its newline.
std::string log_header();
std::string log_row(std::uint64_t epoch, const Score& training, const Score& test);

// training.csv, replaced as a whole: no duplicate and no missing row, however often the run was
// interrupted.
Result<void> write_log(const std::filesystem::path& directory, const Position& position);

// model.safetensors, model.pt, metrics.json and training.csv, durable when it returns.
Result<void> write_result(const std::filesystem::path& directory, const Parameters& parameters,
                          const Position& position, const Network& network);

double accuracy(const Score& score);
double mean_loss(const Score& score);

}  // namespace spotter::train
