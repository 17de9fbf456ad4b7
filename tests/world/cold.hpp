// A volume that was made of a snapshot is cold: EBS fetches each block from S3 when it is first
// touched. "The default volume initialization rate fluctuates throughout the initialization
// process" is all that AWS says of it, and that it may load by itself meanwhile:
// https://docs.aws.amazon.com/ebs/latest/userguide/initalize-volume.html. The figures are users',
// and nothing is loaded here that nobody touched or paid for.
#pragma once

#include <vector>

#include "tests/world/values.hpp"

namespace spotter::world {

// Each volume draws its own where a range is given.
struct ColdSettings {
  // https://blog.bitfoo.de/posts/aws-ebs-snapshot-s3-lazy-loading: the latency of a first touch.
  Duration touch{35};
  // MiB/s of one request in flight: about 5 in github-aws-runners/terraform-aws-github-runner#5163,
  // 2 to 3 in Project-OSRM/osrm-backend#3407. A program in an image of 15 GB needs more than ten
  // minutes to start: aws-samples/bottlerocket-images-cache#13.
  double request_least = 2.5, request_most = 5;
  // A second, of all requests together: ITISFoundation/osparc-simcore#3893. EBS counts up to
  // 256 KiB as one: https://docs.aws.amazon.com/ebs/latest/userguide/ebs-io-characteristics.html
  double touches = 300;
  double touched = 0.25;  // MiB
  // "It can take up to 5 minutes for the volume initialization information to be updated":
  // https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_VolumeStatusItem.html
  Duration shown_late{300'000};
  // VolumeInitializationRate costs so much for each GiB of the snapshot and each MiB/s: "~$0.0036
  // per GiB" at 300, github-aws-runners/terraform-aws-github-runner#5165, from AWS's price list.
  double rate_dollars = 0.0036 / 300;
};

// The price of a rate, once for the volume.
double price_of_rate(const ColdSettings& settings, int rate, double gibibytes);

// The time that it takes to read so much of the volume for the first time, `in_flight` requests at
// once, from `since` its creation on. It lies anywhere on the volume; a rate loads from end to end.
Duration first_read(const Volume& volume, const ColdSettings& settings, double mebibytes,
                    double in_flight, Duration since);

// The same, of each read of such a volume as it comes, and whatever it touches; for one thread.
class ColdReads {
 public:
  // `request`: as in ColdBlocks; `rate`: MiB/s, 0: nobody paid; `throughput`: the disk's, MiB/s.
  struct Of {
    double request = 0, rate = 0, throughput = 0;
    std::uint64_t mebibytes = 0;  // of the snapshot
  };
  ColdReads(const Of& volume, const ColdSettings& settings);

  // When a read or write of those bytes is over that begins at `now`, both in seconds since the
  // volume was made. Later calls have a later `now`.
  double done(std::uint64_t offset, std::uint64_t bytes, double now);

 private:
  Of volume_;
  ColdSettings settings_;
  std::vector<double> warm_at_;  // of each 256 KiB: when they are there; else infinity
  double touches_until_ = 0, disk_until_ = 0;
};

// It was read, or written: that much is warm from `now` on.
void warm(ColdBlocks& cold, const ColdSettings& settings, double mebibytes, Time now);

// In percent, as EC2 shows it; and the time until a rate is done.
int progress_shown(const Volume& volume, const ColdSettings& settings, Time now);
std::optional<Duration> loads_for(const Volume& volume, Time now);

}  // namespace spotter::world
