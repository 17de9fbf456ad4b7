#include "tests/simulate/playing.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace spotter::simulate {
namespace {

thread_local const Simulation* playing = nullptr;
thread_local std::string how_to_play;

void on_abort(int) {
  std::printf("%s: the core aborted\n", how_to_play.c_str());
  if (playing) print_tail(playing->transcript(), 60);
  std::fflush(stdout);
  _exit(1);
}

}  // namespace

Playing::Playing(const Simulation& simulation, std::string how) {
  playing = &simulation;
  how_to_play = std::move(how);
}

Playing::~Playing() { playing = nullptr; }

void print_tail(const std::deque<std::string>& transcript, std::size_t lines) {
  const std::size_t from = transcript.size() > lines ? transcript.size() - lines : 0;
  for (std::size_t i = from; i < transcript.size(); ++i) std::printf("%s\n", transcript[i].c_str());
}

void report_aborts() { std::signal(SIGABRT, on_abort); }

}  // namespace spotter::simulate
