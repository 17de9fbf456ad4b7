#include "tests/emulator/serve_fixture.hpp"

#include <curl/curl.h>
#include <fcntl.h>
#include <grp.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "tests/emulator/directory.hpp"

namespace spotter::emulator {
namespace fs = std::filesystem;
namespace {

constexpr uid_t somebody = 1234;

std::size_t append(char* data, std::size_t size, std::size_t count, void* to) {
  static_cast<std::string*>(to)->append(data, size * count);
  return size * count;
}

using Curl = std::unique_ptr<CURL, void (*)(CURL*)>;

std::string perform(Curl& curl, const std::string& url, const std::string& certificate) {
  std::string answer;
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer);
  curl_easy_setopt(curl.get(), CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT, 30L);
  if (!certificate.empty()) curl_easy_setopt(curl.get(), CURLOPT_CAINFO, certificate.c_str());
  const auto failed = curl_easy_perform(curl.get());
  return failed == CURLE_OK ? answer : std::string("curl: ") + curl_easy_strerror(failed);
}

std::string escaped(const std::string& text) {
  char* const raw = curl_easy_escape(nullptr, text.c_str(), static_cast<int>(text.size()));
  const std::string result = raw;
  curl_free(raw);
  return result;
}

// Up to the end of the first line, at most 20 s.
std::string first_line(int descriptor) {
  std::string line;
  pollfd readable{descriptor, POLLIN, 0};
  char c = 0;
  while (::poll(&readable, 1, 20'000) > 0 && ::read(descriptor, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

std::string option_value(const std::vector<std::string>& arguments, const std::string& name) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i)
    if (arguments[i] == name) return arguments[i + 1];
  return {};
}

}  // namespace

std::string element(const std::string& xml, const std::string& name) {
  const auto start = xml.find("<" + name + ">");
  if (start == std::string::npos) return {};
  const auto from = start + name.size() + 2;
  return xml.substr(from, xml.find('<', from) - from);
}

std::string base64(const std::string& text) {
  std::string result(4 * (text.size() + 2) / 3 + 4, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(result.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  result.resize(static_cast<std::size_t>(size));
  return result;
}

std::string read_file(const fs::path& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && read_file(entry.path() / "cmdline").find(text) != std::string::npos)
      found.push_back(pid);
  }
  return found;
}

bool eventually(const std::function<bool()>& so) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (!so()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  return true;
}

Served::Served(const std::string& mode, std::vector<std::string> more) {
  char name[] = "/tmp/spotter-emulator-test-XXXXXX";
  folder_ = ::mkdtemp(name);
  // Twenty times faster than AWS: what takes seconds there takes fractions here.
  arguments_ = {"spotter-emulator",
                "serve",
                "--directory",
                folder_.string(),
                "--api",
                "127.0.0.1:0",
                "--metadata",
                "127.0.0.1:0",
                "--mode",
                mode == "root" ? "root" : "user",
                "--time-scale",
                "20"};
  certificate_ = option_value(more, "--tls-certificate");
  arguments_.insert(arguments_.end(), more.begin(), more.end());
  program_ = SPOTTER_EMULATOR_PATH;
  if (::geteuid() == 0 && mode == "isolated") {
    user_ = somebody;
    program_ = folder_ / "spotter-emulator";  // that user may not see our build
    fs::copy_file(SPOTTER_EMULATOR_PATH, program_);
    if (::chown(folder_.c_str(), user_, user_) != 0) throw std::runtime_error("chown");
  }
  start();
}

Served::~Served() {
  if (pid_ > 0) {
    signal(SIGTERM);
    wait();
  }
  eventually([&] { return processes_with(folder_.string()).empty() && loop_devices().empty(); });
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string Served::start() {
  int output[2] = {-1, -1};
  if (::pipe2(output, O_CLOEXEC) != 0) return {};
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(output[1], 1);
    if (user_ != 0 && (::setgroups(0, nullptr) != 0 || ::setgid(user_) != 0 ||
                       ::setuid(user_) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0))
      ::_exit(127);
    std::vector<char*> arguments;
    for (auto& argument : arguments_) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    ::execv(program_.c_str(), arguments.data());
    ::_exit(127);
  }
  ::close(output[1]);
  const std::string line = first_line(output[0]);
  ::close(output[0]);
  const auto at = line.find("api=");
  api_ = at == std::string::npos ? "" : line.substr(at + 4, line.find(' ', at) - at - 4);
  return line;
}

void Served::own() const {
  for (const auto& entry : fs::recursive_directory_iterator(folder_))
    if (user_ != 0 && ::lchown(entry.path().c_str(), user_, user_) != 0)
      throw std::runtime_error("lchown " + entry.path().string());
}

std::string Served::secret() const {
  const auto keys = read_keys(folder_);
  return keys ? keys->secret : keys.error().message;
}

void Served::signal(int number) { ::kill(pid_, number); }

int Served::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

std::string Served::ec2(const std::string& action, Fields fields) {
  fields["Action"] = action;
  fields["Version"] = "2016-11-15";
  std::string body;
  for (const auto& [name, value] : fields)
    body += (body.empty() ? "" : "&") + escaped(name) + "=" + escaped(value);
  Curl curl(curl_easy_init(), curl_easy_cleanup);
  curl_easy_setopt(curl.get(), CURLOPT_AWS_SIGV4, "aws:amz:us-west-2:ec2");
  curl_easy_setopt(curl.get(), CURLOPT_USERPWD, ("AKIAEMULATOR00000000:" + secret()).c_str());
  curl_easy_setopt(curl.get(), CURLOPT_COPYPOSTFIELDS, body.c_str());
  return perform(curl, api_ + "/", certificate_);
}

std::string Served::ec2_value(const std::string& action, const Fields& fields,
                              const std::string& name) {
  const std::string xml = ec2(action, fields);
  const std::string value = element(xml, name);
  if (value.empty()) throw std::runtime_error(action + ": no " + name + " in " + xml);
  return value;
}

std::string Served::get(const std::string& path) {
  Curl curl(curl_easy_init(), curl_easy_cleanup);
  return perform(curl, api_ + path, certificate_);
}

long Served::visit(const Visit& visit) {
  Curl curl(curl_easy_init(), curl_easy_cleanup);
  const std::string at = visit.at.empty() ? api_ : visit.at;
  const std::string place = at.substr(at.find("://") + 3);
  const std::string port = place.substr(place.rfind(':'));
  const std::string host = visit.host.empty() ? place.substr(0, place.rfind(':')) : visit.host;
  curl_slist* names = curl_slist_append(nullptr, (host + port + ":" + place).c_str());
  curl_slist* headers = nullptr;
  for (const auto& each : visit.headers) headers = curl_slist_append(headers, each.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_CONNECT_TO, names);
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers);
  const std::string region = visit.service == "iam" ? "us-east-1" : "us-west-2";
  const std::string keys = "AKIAEMULATOR00000000:" + visit.secret.value_or(secret());
  if (!visit.service.empty()) {
    curl_easy_setopt(curl.get(), CURLOPT_AWS_SIGV4,
                     ("aws:amz:" + region + ":" + visit.service).c_str());
    curl_easy_setopt(curl.get(), CURLOPT_USERPWD, keys.c_str());
  }
  if (!visit.body.empty()) curl_easy_setopt(curl.get(), CURLOPT_COPYPOSTFIELDS, visit.body.c_str());
  perform(curl, "http://" + host + port + visit.path, certificate_);
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  curl_slist_free_all(names);
  curl_slist_free_all(headers);
  return status;
}

nlohmann::json Served::control(const std::string& what, const nlohmann::json& body) {
  Curl curl(curl_easy_init(), curl_easy_cleanup);
  if (!body.is_null()) curl_easy_setopt(curl.get(), CURLOPT_COPYPOSTFIELDS, body.dump().c_str());
  return nlohmann::json::parse(perform(curl, api_ + "/_spotter/" + what, certificate_), nullptr,
                               false);
}

std::string Served::state_of(const std::string& id) {
  const auto state = control("state");
  for (const char* kind : {"instances", "volumes", "snapshots", "fleets"})
    for (const auto& item : state.value(kind, nlohmann::json::array()))
      if (item.value("id", "") == id) return item.value("state", "");
  return {};
}

std::string Served::run_instance(const std::string& user_data) {
  return ec2_value("RunInstances",
                   {{"ImageId", "ami-0123456789abcdef0"},
                    {"InstanceType", "p3.2xlarge"},
                    {"MinCount", "1"},
                    {"MaxCount", "1"},
                    {"Placement.AvailabilityZone", "us-west-2a"},
                    {"UserData", base64(user_data)}},
                   "instanceId");
}

std::string Served::make_volume(const Fields& more) {
  Fields fields = {{"AvailabilityZone", "us-west-2a"}};
  if (more.empty()) fields["Size"] = "1";
  fields.insert(more.begin(), more.end());
  const std::string volume = ec2_value("CreateVolume", fields, "volumeId");
  eventually([&] { return state_of(volume) == "available"; });
  return volume;
}

void Served::attach(const std::string& volume, const std::string& instance) {
  eventually([&] { return state_of(instance) == "running"; });
  ec2_value("AttachVolume",
            {{"VolumeId", volume}, {"InstanceId", instance}, {"Device", "/dev/sdf"}}, "status");
}

std::vector<std::string> Served::loop_devices() const {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator("/sys/block"))
    if (read_file(entry.path() / "loop/backing_file").starts_with(folder_.string()))
      found.push_back(entry.path().filename());
  return found;
}

}  // namespace spotter::emulator
