// The life of a job: https://docs.aws.amazon.com/batch/latest/userguide/job_states.html
#pragma once

#include "tests/world/batch/reader.hpp"
#include "tests/world/batch/state.hpp"

namespace spotter::world::batch {

class Jobs {
 public:
  explicit Jobs(State& state) : state_(state) {}

  Expected<Job> submit(const Json& request, const std::string& caller);
  // Those that have not come to STARTING fail; others go on.
  Expected<void> cancel(const Json& request);
  // The same, and what runs gets SIGTERM, then SIGKILL; none of them is tried again.
  Expected<void> terminate(const Json& request);
  void end_all_of(const std::string& queue);  // it is deleted

  Job* find(const std::string& id);

  // The scheduler's: RUNNABLE -> STARTING. REQUIRES: it fits.
  void place(Job& job, Host& host);
  // A host is reclaimed: what runs gets SIGTERM and SIGKILL as at a stop, what starts goes
  // elsewhere. Then it is gone, with what still ran.
  void drain(Host& host);
  void lose(Host& host);
  // The host tells how an attempt ended; of another than the one under way, nothing follows.
  void ended(const Run& run, Ending ending);

  void on(const JobEnters& happening);
  void on(const ContainerStarts& happening);
  void on(const TimeoutDue& happening);
  void on(const KillDue& happening);

 private:
  Expected<Job*> named(const Json& request, std::string& reason);
  Expected<void> check_dependencies(const Submission& what);
  void proceed(Job& job);
  void spawn(Job& array);
  void set(Job& job, Status status, const std::string& reason = {});
  void finish(Job& job, Status status, const std::string& reason);
  void count(const Job& child, Status before);
  void wait_for(Job& job, const std::string& other);
  std::optional<Status> outcome(const std::string& id);
  void cancel(Job& job, const std::string& reason);
  void terminate(Job& job, const std::string& reason);
  void give_up(Job& job, const std::string& reason);
  void stop(const Job& job);
  void close(Job& job, Ending ending);
  Job* running(const Run& run);
  template <class Visit>
  void each(Job& job, Visit visit);  // of an array its children, or itself before it has some

  State& state_;
};

}  // namespace spotter::world::batch
