#include "agent/config/gang.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "agent/base/text.hpp"
#include "agent/config/scalars.hpp"

namespace spotter::config {
namespace {

const Scalar<int> machine_count{"a number of machines", parse_between<1, 128>};
const Scalar<int> step_count{"a number of steps; 0: none", parse_between<0, 1'000'000>};

// A beat is a sixth of it, and several reads and writes have to fit into that.
const Scalar<Duration> gang_lease{"a duration such as 60s", parse_lease<6>};

// Keys whose work nobody shares out among the members yet, and why.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> refused_with_gang{{
    {"sweep", "each experiment of a sweep is trained by one machine"},
    {"claims", "with a gang the record at gang.at says who trains; leave it out"},
    {"fence", "a gang has no volume"},
    {"channels", "each machine would read its own part, whatever the number of machines"},
    {"sagemaker", "its folder belongs to one machine"},
    {"metrics", "a gang's trainer reports through libspotter"},
    {"cache", "there is nothing to fetch"},
    {"prepare", "there is no volume to fill"},
    {"publish", "its machines would overwrite one another's status and history"},
}};

// A fleet of as many instances as the gang has machines, near one another where that can be had.
void finish_launch(Reader& reader, Job& job) {
  Launch& launch = *job.launch;
  if (reader.given("launch.capacity") != nullptr && launch.capacity != job.gang->size)
    reader.problem("launch.capacity",
                   "is not gang.size: a fleet has as many instances as its gang has machines; "
                   "leave it out");
  launch.capacity = job.gang->size;
  if (launch.on_demand.needs_watcher())
    reader.problem("launch.on_demand",
                   "is `never` or `always` for a job with `gang:`: one instance on demand is no "
                   "gang");
  const auto places = std::max(launch.zones.size(), launch.subnets.size());
  if (!launch.placement_group.empty() && places != 1)
    reader.problem("launch.placement_group",
                   "lies in one zone: name one in `zones`, or one of `subnets`");
  // Its traffic leaves neither the zone nor what the group lets through.
  if (launch.efa && places != 1)
    reader.problem("launch.efa", "stays in one zone: name one in `zones`, or one of `subnets`");
  if (launch.efa && launch.security_groups.empty())
    reader.problem("launch.efa",
                   "needs `security_groups:` with one that lets all traffic in from itself and out "
                   "to itself");
  if (places > 1 && launch.type == FleetKind::AutoScalingGroup)
    reader.problem("launch",
                   "an Auto Scaling group spreads its instances over all its zones: give a gang "
                   "one zone or subnet, or take another type of fleet");
  if (places > 1 && reader.given("launch.allocation") == nullptr)
    launch.allocation = Allocation::CapacityOptimized;  // which alone has priorities
}

struct Word {
  std::string text;
  std::size_t end = 0;
};

// The next word, plain or in single quotes; empty: there is none, or the shell has to say.
Word next_word(std::string_view command, std::size_t from) {
  constexpr std::string_view special = " \t\n'\"\\$`;&|<>()*?[#~={}";
  from = std::min(command.find_first_not_of(' ', from), command.size());
  if (from < command.size() && command[from] == '\'') {
    const auto close = command.find('\'', from + 1);
    const bool whole =
        close != command.npos && (close + 1 == command.size() || command[close + 1] == ' ');
    if (!whole) return {};
    return {std::string(command.substr(from + 1, close - from - 1)), close + 1};
  }
  const auto end = std::min(command.find_first_of(special, from), command.size());
  if (end < command.size() && command[end] != ' ') return {};
  return {std::string(command.substr(from, end - from)), end};
}

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_python(std::string_view path) {
  std::string_view name = name_of(path);
  if (!name.starts_with("python")) return false;
  name.remove_prefix(6);
  return std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) || c == '.'; });
}

}  // namespace

void read_gang(Reader& reader, const Node& node, const std::string& path, Gang& gang) {
  gang.min = 0;
  reader.map(node, path,
             {{"size", required, reader.scalar(gang.size, machine_count)},
              {"min", optional, reader.scalar(gang.min, machine_count)},
              {"at", required, reader.expanded(gang.at, s3_prefix)},
              {"lease", optional, reader.scalar(gang.lease, gang_lease)},
              {"copy_every", optional, reader.scalar(gang.copy_every, step_count)},
              {"stall", optional, reader.scalar(gang.stall, stall_duration)},
              {"replace_after", optional, reader.scalar(gang.replace_after, duration)}});
  if (gang.min == 0) gang.min = gang.size;
}

void finish_gang(Reader& reader, Job& job) {
  if (!job.gang) return;
  job.gang->at.key += job.name.str() + "/";
  if (job.gang->min > job.gang->size)
    reader.problem("gang.min",
                   "is more than gang.size: a gang trains with `min` machines at least, and `size` "
                   "at most");
  for (const auto& [name, why] : refused_with_gang)
    if (reader.given(name) != nullptr)
      reader.problem(std::string(name), "is not for a job with `gang:`: " + std::string(why));
  if (job.launch) finish_launch(reader, job);
  if (!job.storage.share || job.storage.in_bucket())
    reader.problem("gang",
                   "needs a home that all its machines reach: storage.folder, nfs, efs or sshfs");
  if (job.checkpoints.has_patterns())
    reader.problem("gang",
                   "needs checkpoints of libspotter: 'files' and 'folders' are of one machine");
}

std::string with_torchrun(std::string_view command) {
  Word first = next_word(command, 0);
  std::string before;
  if (first.text == "exec") {
    before = "exec ";
    first = next_word(command, first.end);
  }
  const Word second = next_word(command, first.end);
  const auto launched = [&](const std::string& python, std::size_t rest) {
    return before + (python == first.text ? wire::shell_quoted(python) : python) +
           " -m spotter.torchrun" + std::string(command.substr(rest));
  };
  if (first.end == 0) return std::string(command);
  if (name_of(first.text) == "torchrun") {
    const std::string folder = first.text.substr(0, first.text.size() - name_of("torchrun").size());
    return launched(wire::shell_quoted(folder + "python3"), first.end);
  }
  if (!is_python(first.text)) return std::string(command);
  if (second.text.ends_with(".py")) return launched(first.text, first.end);
  const Word third = next_word(command, second.end);
  if (second.text == "-m" && third.text == "torch.distributed.run")
    return launched(first.text, third.end);
  return std::string(command);
}

std::string in_gang(const Job& job, const std::string& program, const std::string& line,
                    bool replaced) {
  if (!job.gang) return line;
  const auto processes = job.trainer.gpus == all_gpus
                             ? std::string("gpu")
                             : std::to_string(std::max(job.trainer.gpus, 1));
  std::string words = "exec " + wire::shell_quoted(program) + " gang";
  for (const auto& [option, value] :
       {std::pair<const char*, std::string>{" --at ", wire::to_url(job.gang->at)},
        {" --job ", job.name.str()},
        {" --name ", job.member},
        {" --size ", std::to_string(job.gang->size)},
        {" --min ", std::to_string(job.gang->min)},
        {" --lease ", std::to_string(job.gang->lease.count())},
        {" --stall ", std::to_string(job.gang->stall.count())},
        {" --copy-every ", std::to_string(job.gang->copy_every)},
        {" --home ", job.trainers_home()},
        {" --checkpoints ", job.checkpoints.directory},
        {" --processes ", processes}})
    words += option + wire::shell_quoted(value);
  if (replaced) words += " --replaced";
  if (!job.trainer.result.empty()) words += " --result " + wire::shell_quoted(job.trainer.result);
  return words + " -- \"$SHELL\" -c " + wire::shell_quoted(line);
}

void join_gang(Job& job, std::string_view name) {
  job.member = member_name(name);
  job.trainer.command = with_torchrun(job.trainer.command);
}

std::string member_name(std::string_view host) {
  constexpr std::size_t most = 64;
  std::string name(host.substr(0, most));
  std::ranges::replace_if(
      name,
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '_' && c != '-'; },
      '-');
  while (name.starts_with('.')) name.erase(0, 1);
  return name.empty() ? "machine" : name;
}

}  // namespace spotter::config
