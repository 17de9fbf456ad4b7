#include "tests/emulator/emulator.hpp"
#include "agent/aws/formats/partition.hpp"

#include <grp.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "tests/emulator/form.hpp"
#include "tests/emulator/machine_kind.hpp"
#include "tests/emulator/namespaces.hpp"
#include "tests/emulator/process_kind.hpp"
#include "tests/world/ec2_access.hpp"

namespace spotter::emulator {
namespace {

std::chrono::nanoseconds boot_time() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
}

WallTime wall_clock() {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

world::Settings settings_of(const ServeOptions& options, WallTime origin) {
  world::Settings settings;
  settings.origin = origin;
  settings.fleet_tags = {Duration{0}, Duration{2000}};
  settings.user_secret = options.secret;
  settings.empty_account = options.empty_account;
  settings.zones = std::vector<Zone>(options.zones.begin(), options.zones.end());
  // A zone is its region and one letter: us-west-2a.
  if (!options.zones.empty())
    settings.region = Region(options.zones[0].substr(0, options.zones[0].size() - 1));
  return settings;
}

// The groups of ours whose members may become root, and which a user namespace keeps.
std::string mighty_groups() {
  gid_t all[256];
  const int count = ::getgroups(std::size(all), all);
  std::string names;
  for (int i = 0; i < count; ++i)
    if (const group* const it = ::getgrgid(all[i]); it != nullptr)
      for (const std::string_view each :
           {"disk", "docker", "lxd", "incus", "incus-admin", "libvirt", "podman", "kmem"})
        if (it->gr_name == each) names += (names.empty() ? "" : ", ") + std::string(each);
  return names;
}

Result<Programs> processes_of(const ServeOptions& options, const Directory& directory,
                              bool namespaces) {
  const auto programs = [&](std::optional<IsolationSettings> isolation, const std::string& may) {
    return Programs{namespaces, std::make_shared<ProcessKind>(namespaces, std::move(isolation)),
                    "what is launched, its user data, too, " + may};
  };
  if (::geteuid() == 0)
    return programs({},
                    "runs as root, on this machine's files (out of their reach: serve as an "
                    "ordinary user, or with --instances container)");
  IsolationSettings isolation{directory.path(), options.binds, {}};
  if (!options.certificate.empty()) isolation.readable.emplace_back(options.certificate);
  if (const auto none = can_isolate({"h/tmp"}); !none)
    return programs({}, "runs as you, with your files: no user namespace is to be had here (" +
                            none.error().message + ")");
  // A path that is wrong must not open all files in the place of few.
  if (const auto possible = can_isolate(isolation_of(isolation, {})); !possible)
    return failure("what is launched cannot be kept from your files: " + possible.error().message);
  const std::string groups = mighty_groups();
  return programs(
      isolation,
      "sees this machine's files, none of them writable, your home empty, and shares "
      "its network" +
          (groups.empty() ? std::string()
                          : ", and could become root as you could, by your groups: " + groups));
}

Result<Programs> programs_of(const ServeOptions& options, const Directory& directory,
                             bool namespaces) {
  if (options.containers)
    return Programs{namespaces, std::make_shared<ContainerKind>(*options.containers), {}};
  if (!options.boot.empty())
    return Programs{namespaces, std::make_shared<MachineKind>(options.boot), {}};
  return processes_of(options, directory, namespaces);
}

Result<bool> choose_namespaces(Mode mode) {
  if (mode == Mode::User) return false;
  const bool loops = ::access("/dev/loop-control", R_OK | W_OK) == 0;
  const bool possible = ::geteuid() == 0 && loops && can_make_namespaces();
  if (mode == Mode::Root && !possible)
    return failure(std::string("--mode root needs ") +
                   (::geteuid() != 0 ? "root"
                    : !loops         ? "/dev/loop-control (modprobe loop)"
                                     : "the right to make namespaces (CAP_SYS_ADMIN)"));
  return possible;
}

bool is_for(const char* service, const HttpRequest& request) {
  const auto authorization = parse_authorization(request.header("authorization"));
  return authorization && authorization->service == service;
}

world::Call call_of(const HttpRequest& request, const std::string& caller) {
  world::Call call{"", {}, caller};
  for (auto& [name, value] : parse_form(request.query(), Plus::IsSpace))
    call.parameters[name] = std::move(value);
  for (auto& [name, value] : parse_form(request.body, Plus::IsSpace))
    call.parameters[name] = std::move(value);
  call.action = call.parameters["Action"];
  return call;
}

}  // namespace

Result<std::unique_ptr<Emulator>> Emulator::create(ServeOptions options) {
  TlsContext tls;
  if (!options.certificate.empty()) {
    auto context = server_tls(options.certificate, options.key);
    if (!context) return tl::unexpected(context.error());
    tls = *context;
  }
  const auto namespaces = choose_namespaces(options.mode);
  if (!namespaces) return tl::unexpected(namespaces.error());
  if ((options.containers || !options.boot.empty()) && !*namespaces)
    return failure("--instances container and machine need root");
  if (options.containers)
    if (auto possible = ContainerKind::possible(*options.containers); !possible)
      return tl::unexpected(possible.error());
  auto directory = Directory::open(options.directory);
  if (!directory) return tl::unexpected(directory.error());
  auto programs = programs_of(options, *directory, *namespaces);
  if (!programs) return tl::unexpected(programs.error());
  std::unique_ptr<Emulator> emulator(new Emulator(std::move(options), std::move(*directory),
                                                  *std::move(programs), std::move(tls)));
  if (emulator->options_.empty_account && emulator->regions_.all().size() > 1)
    return failure("--empty-account is of one region: IAM is one for all of them");
  if (emulator->options_.cold_volumes)
    if (const auto slow = emulator->host_.mount_cold_files(emulator->options_.time_scale); !slow)
      return failure("--cold-volumes: " + slow.error().message);
  auto listener = Listener::open(emulator->context_, emulator->options_.api,
                                 emulator->service(false), emulator->tls_);
  if (!listener) return tl::unexpected(listener.error());
  emulator->listener_ = std::move(*listener);
  return emulator;
}

Emulator::Emulator(ServeOptions options, Directory directory, Programs programs, TlsContext tls)
    : options_(std::move(options)),
      directory_(std::move(directory)),
      namespaces_(programs.namespaces),
      warning_(std::move(programs.warning)),
      tls_(std::move(tls)),
      started_(boot_time()),
      origin_(wall_clock()),
      regions_(settings_of(options_, origin_), options_.seed),
      record_(options_.record),
      s3_({directory_.path() / "s3", world_.settings().region.str(), [this] { return clocks(); },
           [this](std::string_view access_key) { return shared_key(access_key); },
           [this] { return shared_access(); }, world_.settings().account, world_.settings().role,
           [this] { return now(); }, [this](Duration of_world) { return real(of_world); },
           options_.seed}),
      host_(context_,
            {directory_.path(), std::move(programs.kind), options_.metadata, options_.environment},
            {[this](const auto& id, const auto& request) { return metadata(id, request); },
             service(true),
             [this](const Words& words) {
               batch_->hear(words, now());
               settle();
             }},
            [this](const VolumeId& volume, bool mounted) {
              regions_.of(volume).set_mounted(volume, mounted, now());
              settle();
            }),
      batch_(std::in_place, world_, host_.machines(), directory_.path(), options_.seed),
      efs_(std::in_place, world_, options_.seed),
      parameters_(directory_.path()),
      topics_(directory_.path() / "sns"),
      control_({regions_, s3_, batch_->batch(), host_.machines(), [this] { return now(); },
                [this] {
                  share_credentials();
                  settle();
                },
                [this] { end(); }, [this] { return reset(); }, namespaces_ ? "root" : "user",
                options_.version}),
      page_(world_, s3_.store(), [this] { return now(); }),
      timer_(context_),
      ending_timer_(context_),
      ending_(context_, SIGTERM, SIGINT),
      children_(context_, SIGCHLD) {}

HttpService Emulator::service(bool from_inside) {
  const auto answer = [this, from_inside](const auto& asked) { return api(asked, from_inside); };
  const HttpStreams streams = [this](const HttpRequest& head) { return s3_.begin(head); };
  const auto owners_only = [from_inside](const HttpRequest& asked) {
    return !from_inside && asked.path().starts_with("/_spotter/") &&
           asked.path() != "/_spotter/health";
  };
  return {record_.of(answer), record_.of(streams), owners_only, &workers_};
}

void Emulator::share_credentials() {
  const std::lock_guard lock(credentials_mutex_);
  for (const auto& world : regions_.all())
    for (const auto& [access_key, it] : world->cloud().credentials) credentials_[access_key] = it;
  access_ = world_.cloud().access;
}

std::shared_ptr<const world::Access> Emulator::shared_access() {
  const std::lock_guard lock(credentials_mutex_);
  return access_;
}

std::optional<SigningKey> Emulator::shared_key(std::string_view access_key) {
  const std::lock_guard lock(credentials_mutex_);
  const auto found = credentials_.find(std::string(access_key));
  if (found == credentials_.end()) return std::nullopt;
  const world::Credential& it = found->second;
  return SigningKey{it.secret, it.session_token, it.caller, it.expires && *it.expires <= now()};
}

// Without the world, which is another thread's.
std::vector<WallTime> Emulator::clocks() const {
  return {origin_ + now().time_since_epoch(), wall_clock()};
}

Time Emulator::now() const {
  const std::chrono::duration<double, std::milli> real = boot_time() - started_;
  return Time{Duration{static_cast<Duration::rep>(real.count() * options_.time_scale)}};
}

// Rounded up: a timer that rings early would find nothing due.
Duration Emulator::real(Duration of_world) const {
  const double milliseconds = static_cast<double>(of_world.count()) / options_.time_scale;
  return Duration{static_cast<Duration::rep>(milliseconds) + 1};
}

bool Emulator::settle_once() {
  const auto due = regions_.advance(now());
  for (const auto& occurrence : due) host_.perform(occurrence);
  return batch_->settle(now()) || !due.empty();
}

// The host carries out what has happened; what that makes happen (a process that ends) comes next.
void Emulator::settle() {
  if (settling_) return;
  settling_ = true;
  while (settle_once()) {
  }
  settling_ = false;
  if (world_.cloud().access != access_) share_credentials();  // a change in IAM has reached it
  auto next = regions_.next();
  if (const auto other = batch_->next(); other && (!next || *other < *next)) next = other;
  if (!next || next == rings_) return;
  rings_ = next;
  timer_.expires_after(real(std::max(Duration{0}, *next - now())));
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    rings_.reset();
    settle();
  });
}

void Emulator::await_child() {
  children_.async_wait([this](const boost::system::error_code& failed, int) {
    if (failed) return;
    reap();
    await_child();
  });
}

// Answers everything that came first, so that whoever asked for the end hears of it.
void Emulator::end() {
  constexpr int looks = 1000;
  if (++ending_looks_ > looks || (ending_looks_ > 1 && !listener_->busy())) return context_.stop();
  ending_timer_.expires_after(std::chrono::milliseconds{1});
  ending_timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) end();
  });
}

// The keys of people stay what they are, and the time goes on: who is connected is not cut off.
Result<void> Emulator::reset() {
  host_.reset();
  if (auto cleared = directory_.clear(); !cleared) return cleared;
  regions_.reset(settings_of(options_, origin_), options_.seed);
  batch_.emplace(world_, host_.machines(), directory_.path(), options_.seed);
  efs_.emplace(world_, options_.seed);
  {
    const std::lock_guard lock(credentials_mutex_);
    credentials_.clear();
  }
  share_credentials();
  settle();
  spdlog::info("reset");
  if (!s3_.reset()) return failure("not all of " + s3_.parts().folder.string() + " can be removed");
  return {};
}

// An init that a signal ended was killed by somebody: the instance is dead without a notice. An
// init that ended by itself has shut its machine down.
void Emulator::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto id = host_.machines().init_ended(pid);
    if (!id) continue;
    spdlog::warn("{}: its init is gone", id->view());
    host_.machines().kill(*id);
    world::World& region = regions_.of(*id);
    const auto ended =
        WIFSIGNALED(status) ? region.kill(*id, now()) : region.instances(now()).halted(*id);
    if (!ended) spdlog::warn("{}: {}", id->view(), ended.error().message);
  }
  settle();
}

Result<void> Emulator::run() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const std::string api = std::string(tls_ ? "https://" : "http://") + listener_->endpoint().str();
  const std::string mode = namespaces_ ? "root" : "user";
  // Inside a namespace the API is plain HTTP on 127.0.0.1:4566; outside it is this port.
  std::error_code ignored;
  const std::string certificate =
      tls_ ? std::filesystem::absolute(options_.certificate, ignored).string() : "";
  if (!namespaces_) host_.machines().add_environment("AWS_ENDPOINT_URL=" + api);
  if (!namespaces_ && tls_) host_.machines().add_environment("AWS_CA_BUNDLE=" + certificate);
  const world::Settings& settings = world_.settings();
  auto announced = directory_.publish({settings.user_access_key, settings.user_secret});
  if (announced)
    announced = directory_.announce(
        {api, options_.metadata.str(), mode, certificate, settings.region.str(), ::getpid()});
  if (!announced) return announced;
  ending_.async_wait([this](const boost::system::error_code& failed, int) {
    if (!failed) end();
  });
  await_child();
  settle();
  share_credentials();
  std::printf("READY api=%s metadata=%s mode=%s pid=%d directory=%s\n", api.c_str(),
              options_.metadata.str().c_str(), mode.c_str(), ::getpid(), directory_.path().c_str());
  std::fflush(stdout);
  workers_.start();
  context_.run();
  workers_.stop();
  host_.machines().kill_all();
  return {};
}

HttpResponse Emulator::response(world::Reply reply) const {
  HttpResponse result{reply.status, std::move(reply.body), std::move(reply.content_type)};
  for (auto& [name, value] : reply.headers) result.headers.emplace_back(name, std::move(value));
  if (reply.delay.count() > 0) result.delay = real(reply.delay);
  result.drop = reply.drop;
  return result;
}

HttpResponse Emulator::metadata(const InstanceId& id, const HttpRequest& request) {
  world::MetadataRequest asked{request.method, std::string(request.path()), {}};
  for (const auto& [name, value] : request.headers) asked.headers.emplace(name, value);
  auto result = response(regions_.of(id).metadata(id, asked, now()));
  if (request.method == "HEAD") {
    result.announced = result.body.size();
    result.body.clear();
  }
  if (request.path().find("security-credentials") != std::string_view::npos) share_credentials();
  settle();
  return result;
}

HttpResponse Emulator::api(const HttpRequest& request, bool from_inside) {
  if (BatchService::owns(request)) return batch(request);
  if (is_for("elasticfilesystem", request)) return efs(request);
  for (const char* service : {"sts", "iam", "autoscaling"})
    if (is_for(service, request)) return query(request, service);
  if (is_for("sns", request)) return sns(request);
  if (!Parameters::service_of(request).empty()) return parameter(request);
  if (!request.path().starts_with("/_spotter/")) return query(request, "ec2");
  if (from_inside) return {404, "the control API is not for instances\n"};
  if (auto answer = page_.answer(request)) return std::move(*answer);
  return control_.answer(request);
}

world::World& Emulator::world_of(const HttpRequest& request) {
  world::World* const named = regions_.named(signed_region(request));
  return named == nullptr ? world_ : *named;
}

tl::expected<std::string, Refusal> Emulator::caller_of(const HttpRequest& request,
                                                       const std::string& service) {
  const std::string region =
      service == "sns" ? signed_region(request) : world_of(request).settings().region.str();
  // The price list and IAM answer in one region for all.
  const wire::Partition& partition = wire::partition_of(region);
  // At an endpoint of somebody's own botocore signs for IAM in the region that is configured.
  const bool botocore = request.header("user-agent").starts_with("aws-cli/") ||
                        request.header("user-agent").starts_with("Boto3/");
  const bool is_global =
      (service == "iam" || service == "sts") && signed_region(request) == partition.iam_region;
  const std::string_view its = service == "pricing" ? partition.price_list
                               : is_global || (service == "iam" && !botocore)
                                   ? partition.iam_region
                                   : std::string_view(region);
  Verification rules{std::string(its), service, clocks()};
  rules.key = [this](std::string_view access_key) -> std::optional<SigningKey> {
    const auto found = regions_.credential(access_key, now());
    if (!found) return std::nullopt;
    return SigningKey{found->secret, found->session_token, found->caller};
  };
  return verify(request, rules);
}

// The services of the Query protocol share the root: distinguished by the signature's.
HttpResponse Emulator::query(const HttpRequest& request, const std::string& service) {
  const auto caller = caller_of(request, service);
  if (!caller) {
    const Refusal why = service == "ec2" ? caller.error() : in_query(caller.error());
    return response(world_.refuse({why.code, why.message, why.status}, now()));
  }
  const world::Call call = call_of(request, *caller);
  if (call.action == "DetachVolume") host_.watch_mounts();
  world::World& its = world_of(request);
  auto result = response(service == "iam"           ? world_.iam(call, now())
                         : service == "sts"         ? world_.sts(call, now())
                         : service == "autoscaling" ? its.auto_scaling(call, now())
                                                    : its.ec2(call, now()));
  for (const auto& [name, value] : result.headers)
    if (name == "x-spotter-ignored") spdlog::warn("{}: ignored {}", call.action, value);
  spdlog::info("{} {} -> {}", call.caller, call.action,
               result.drop ? "no answer" : std::to_string(result.status));
  if (service == "iam" || service == "sts") share_credentials();  // who may do what has changed
  settle();
  return result;
}

HttpResponse Emulator::sns(const HttpRequest& request) {
  const auto caller = caller_of(request, "sns");
  if (!caller) {
    const Refusal why = in_query(caller.error());
    return response(Topics::refuse(why.status, why.code, why.message));
  }
  const world::Call call = call_of(request, *caller);
  const auto needed = Topics::needed_access(call);
  const world::Cloud& cloud = world_.cloud();
  if (cloud.access && !cloud.access->allows(*caller, needed))
    return response(
        Topics::refuse(403, "AuthorizationError", world::denial(cloud, *caller, needed)));
  return response(topics_.answer(call, signed_region(request), cloud.settings.account));
}

}  // namespace spotter::emulator
