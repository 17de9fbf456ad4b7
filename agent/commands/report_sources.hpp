// Reads what a job's agents publish in S3 (`publish:` of job.yaml), from any machine with
// permission:
//
//   PREFIX/NAME[/INDEX]/status.json                  the last agent's status (wire/status.hpp)
//   PREFIX/NAME[/INDEX]/history/<ms>-<instance>.jsonl   each agent's entries (wire/history.hpp)
//   PREFIX/NAME[/INDEX]/metrics/<the same>.jsonl        and its learning curve (wire/curve.hpp)
//   PREFIX/NAME[/INDEX]/output/<ms>-<instance>-<slot>.jsonl   each trainer's output
//                                                            (wire/output.hpp)
#pragma once

#include "agent/aws/s3/client.hpp"
#include "agent/config/job.hpp"
#include "agent/report/model.hpp"

namespace spotter::command {

// The published status of the job, or of one experiment of a sweep.
struct Published {
  std::string status;         // the object's content; empty: there is none
  std::optional<double> age;  // the object's, in seconds by S3's clock, as machines' may be wrong
  report::Source source;
};

enum class Wanted : std::uint8_t {
  Status,  // only the newest agent's history
  All,
};

// All that is below s3://bucket/prefix/NAME/, the job's own first, then by experiment; empty: there
// is nothing. Fails as S3 does; an object that goes away meanwhile is none.
Result<std::vector<Published>, s3::Failure> read_published(s3::Client& client,
                                                           const wire::S3Location& place,
                                                           Wanted wanted);

// Each object's bytes by its key, as many at once as S3 takes, without those that are not there.
Result<std::map<std::string, std::string>, s3::Failure> read_objects(
    s3::Client& client, const std::string& bucket, const std::vector<std::string>& keys);

// A job that is named by its description or by its name, and where it is seen.
struct NamedJob {
  std::optional<config::Job> job = {};  // as its description says; none: its name alone is known
  // The job's home, a folder with the home under the job's name, a sweep's folder with its
  // experiments, or s3://bucket/prefix/NAME; empty: the job's own storage, or else where it
  // publishes.
  std::string from = {};
  std::string file = {};  // the job's description; empty: none
  std::string name = {};
  std::optional<wire::S3Location> published = {};  // where its agents publish; ends with its name
  std::vector<std::string> regions{""};  // of its pools; an empty one: that AWS_REGION names
};

// Reads all of a job's model except prices, for report::build(); of a sweep, all experiments. It
// reads the storage if that is mounted, which may hang: agents must not call it. Else it reads what
// the agents publish in S3. Fails without any history, with a message that says what to do.
// `warnings`: what could not be read.
Result<report::Input> read_input(const NamedJob& place, std::vector<std::string>* warnings);

// Finds the job to show from the command line.

struct JobToShow {
  std::string job;      // its file, or its name; empty: job.yaml here, or the service's
  std::string from;     // see NamedJob
  std::string publish;  // s3://bucket/prefix, where its agents publish
};

// The named file; without one job.yaml here, or the service's; "": there is none.
std::string job_file(const JobToShow& options);

// Parses job.yaml without what concerns an agent on this machine, as nothing is run. Fails with all
// its mistakes.
Result<config::Job> read_description(const std::string& file);

// Distinguishes a job's file from a folder of the job's name.
bool is_a_file(const std::string& path);

// The description of a job: its file, or, for its name, job.yaml here, or the service's, if that is
// of this name; "": none.
std::string file_of(const std::string& job);

// Reads the job's file, if there is one. A name that no job may have is not refused.
Result<NamedJob> named_job(const JobToShow& options);
// The same of a job that can be shown. Fails with a message that says which option is missing.
Result<NamedJob> place_of(const JobToShow& options);

// Prices of a job's machines, asked of AWS if credentials allow it.

// The spot prices (ec2:DescribeSpotPriceHistory, of the last 90 days) and on-demand prices
// (pricing:GetProducts) of the types and zones in `input`. A given `on_demand` replaces the latter.
// Never fails: its notes say what is missing.
report::Prices prices_of(const report::Input& input, report::Number on_demand);

}  // namespace spotter::command
