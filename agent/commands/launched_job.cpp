#include "agent/commands/launched_job.hpp"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/job_storage.hpp"
#include "agent/commands/machines.hpp"
#include "agent/config/sweep.hpp"

namespace spotter::command {

Result<std::unique_ptr<AwsCalls>> calls_in(const std::string& region) {
  if (region.empty()) return AwsCalls::open();
  return AwsCalls::open(Region(region));
}

Result<std::vector<JobPlace>> unnamed_places_of(const config::Job& job) {
  std::vector<JobPlace> places;
  for (std::size_t i = 0; i < std::max<std::size_t>(job.launch->places.size(), 1); ++i) {
    JobPlace place{nullptr, job};
    place.job.launch = config::launch_at(*job.launch, i);
    place.calls = TRY(calls_in(place.job.launch->region));
    const Region& region = place.calls->region();
    if (std::ranges::any_of(places, [&](const auto& it) { return it.calls->region() == region; }))
      return failure("launch.pools: " + region.str() +
                     " is there twice, once as the region that AWS_REGION names");
    places.push_back(std::move(place));
  }
  return places;
}

Result<std::vector<JobPlace>> places_of(const config::Job& job) {
  auto places = TRY(unnamed_places_of(job));
  for (JobPlace& it : places) TRY(name_zones(*it.calls, *it.job.launch));
  return places;
}

namespace {

// Instances have these files in one folder, beside job.yaml.
Result<void> add_file(std::map<std::string, std::string>& files, const std::string& job_file,
                      const std::string& name) {
  if (name.empty() || name.starts_with("s3://")) return {};
  if (name.find('/') != name.npos && !name.starts_with("./"))
    return failure(job_file + ": " + name +
                   " would not be on the instances: put it beside job.yaml, or into S3");
  const auto folder = fs::path(job_file).parent_path();
  files[fs::path(name).filename()] =
      TRY(behind(name, io::read_text(folder / name, config::sets_size_limit)));
  return {};
}

// Packs the folder that is the job's code, if it is one, and tells the instances where it will be.
Result<std::shared_ptr<const CodeArchive>> pack_code(
    config::Job& job, const std::string& job_file, const std::vector<launch::SentPackage>& packages,
    std::map<std::string, std::string>& files) {
  if (!job.code || job.code->folder.empty()) return nullptr;
  if (!job.publish)
    return failure(job_file +
                   ": code.folder is sent to where the job is published: say it, such as publish: "
                   "s3://bucket/prefix");
  std::vector<std::string> besides;
  for (const launch::SentPackage& it : packages) besides.push_back(it.file);
  auto archive = TRY(archive_of(job.code->folder, besides));
  job.code->repository = wire::to_url(*job.published_in(config::code_folder));
  job.code->revision = archive.revision;
  files[config::code_sent] = job.code->repository + "\n" + job.code->revision + "\n";
  return std::make_shared<const CodeArchive>(std::move(archive));
}

// The description with on_failure.then: hold. It is a person's text, and only added to.
Result<std::string> held(const std::string& text, const std::string& job_file) {
  const std::string longer =
      text + (text.ends_with('\n') ? "" : "\n") + "on_failure: {then: hold}\n";
  const auto job = config::parse_job(longer, config::Environment::of_root());
  if (job && job->on_failure.then == GiveUp::Hold) return longer;
  return failure(job_file +
                 " has an `on_failure:` of its own: say `then: hold` there, in the "
                 "place of --hold-failed");
}

}  // namespace

Result<std::string, CallError> image_of(AwsCalls& calls, const config::Launch& launch) {
  if (!launch.image.starts_with(image_parameter)) return launch.image;
  auto image = calls.ask(wire::GetParameter{launch.image.substr(image_parameter.size())});
  if (!image || image->starts_with("ami-")) return image;
  return failed(launch.image + " is '" + *image + "', which is no image");
}

std::vector<std::string> regions_of(const config::Job& job) {
  std::vector<std::string> regions;
  if (job.launch)
    for (const config::Place& it : job.launch->places) regions.push_back(it.region);
  if (regions.empty()) regions.emplace_back();
  return regions;
}

Result<config::Job> job_to_launch(const std::string& job_file) {
  auto job = config::read_job(job_file, config::Environment::of_root());
  if (job && !job->launch)
    return failure(job_file +
                   " has no `launch:`, which says where: image, instance_types, profile");
  return job;
}

Result<LaunchedJob> launched_job(const std::string& job_file, launch::Work work,
                                 const std::optional<config::Sending>& sending, bool holds) {
  auto text = TRY(
      behind("cannot read the job: " + job_file, io::read_text(job_file, config::job_size_limit)));
  auto job = TRY(job_to_launch(job_file));
  if (holds) {
    text = TRY(held(text, job_file));
    job.on_failure.then = GiveUp::Hold;
  }
  std::map<std::string, std::string> files{{"job.yaml", text}};
  job.sending = sending;
  if (sending)
    files["send"] = wire::to_url(sending->to) + "\n" + joined(sending->paths, "\n") + "\n";
  const auto names = config::parse_job(text, config::Environment::of_root());
  for (const std::string& name :
       {names->channels.document, names->sweep ? names->sweep->source : std::string()}) {
    TRY(add_file(files, job_file, name));
  }
  auto packages = TRY(packages_to_send(job.launch->package, job_file));
  std::shared_ptr<const CodeArchive> code;
  if (work == launch::Work::Serve) {
    code = TRY(pack_code(job, job_file, packages, files));
  }
  auto script = TRY(launch::user_data(job, files, work, packages));
  auto digest = launch::request_digest(job, script);
  return LaunchedJob{.job = std::move(job),
                     .user_data = std::move(script),
                     .digest = std::move(digest),
                     .packages = std::move(packages),
                     .code = std::move(code)};
}

LaunchedJob launched_at(const LaunchedJob& launched, const config::Job& job, bool rests) {
  LaunchedJob there = launched;
  there.job = job;
  there.digest = launch::request_digest(job, launched.user_data);
  there.rests = rests;
  return there;
}

Result<std::vector<wire::LaunchTemplate>, CallError> templates_of(AwsCalls& calls,
                                                                  const std::string& name) {
  return calls.ask_all(wire::DescribeLaunchTemplates{name});
}

Result<launch::TemplateVersion, CallError> provide_template(AwsCalls& calls,
                                                            const LaunchedJob& launched,
                                                            bool prepares) {
  const config::Job& job = launched.job;
  const auto image = TRY(image_of(calls, *job.launch));
  launch::Template content{image, launched.user_data, prepares};
  if (!prepares) content.interfaces = TRY(efa_interfaces(calls, job));
  if (const auto disk = config::root_disk(job)) {
    const auto seen = TRY(calls.ask_all(wire::DescribeImages{{image}, {}}));
    if (seen.empty() || seen.front().root.empty())
      return tl::unexpected(failed(image + " is not to be seen, or has no root volume whose size "
                                           "launch.disk could set"));
    content.root = seen.front().root;
    content.disk = *disk;
    content.disk.size_gib = std::max(disk->size_gib, seen.front().root_gib);
  }
  content.launched = std::time(nullptr);
  const auto name = prepares ? launch::preparer_name(job) : launch::resource_name(job);
  const auto there = TRY(templates_of(calls, name));
  if (there.empty()) {
    const auto made =
        TRY(calls.ask(launch::create_template(job, content), wire::decode_created_template));
    return launch::TemplateVersion{made.id, made.latest_version};
  }
  const std::string& id = there.front().id;
  const auto version = TRY(
      calls.ask(launch::create_template_version(job, id, content), wire::decode_template_version));
  return launch::TemplateVersion{id, version};
}

}  // namespace spotter::command
