// The real spotter-emulator in a folder of its own, on ports of its own, talked to with libcurl,
// whose SigV4 is not ours.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace spotter::emulator {

using Fields = std::map<std::string, std::string>;

class Served {
 public:
  // `mode`: root, user; isolated: user, served by an ordinary user, also where the test is root's.
  explicit Served(const std::string& mode, std::vector<std::string> more = {});
  ~Served();  // kills it, if it still runs, and removes the folder
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  // Starts it (again) in the same folder; answers its READY line, or "" when it ended before.
  std::string start();
  void signal(int number);
  int wait();  // its wait status

  // One signed EC2 call: the XML.
  std::string ec2(const std::string& action, Fields fields = {});
  // The same, and the text of that element: ec2_value("CreateVolume", {...}, "volumeId").
  std::string ec2_value(const std::string& action, const Fields& fields, const std::string& name);
  std::string get(const std::string& path);  // of the API port, by nobody
  // The status of what a browser asks for in the name of `host`, which it takes for this machine,
  // with the signature of `service` where there is one; 0: no answer.
  struct Visit {
    std::string host;  // empty: by address
    std::string path = "/";
    std::vector<std::string> headers = {};
    std::string body = {};  // empty: GET
    std::string service = {};
    std::string at = {};                     // http://ADDRESS:PORT; empty: the API
    std::optional<std::string> secret = {};  // nothing: the right one
  };
  long visit(const Visit& visit);
  nlohmann::json control(const std::string& what, const nlohmann::json& body = nullptr);
  // The "state" of the thing with this id in the state document, or "".
  std::string state_of(const std::string& id);

  std::string run_instance(const std::string& user_data);
  std::string make_volume(const Fields& more = {});  // and waits until it is available
  void attach(const std::string& volume, const std::string& instance);

  std::filesystem::path folder() const { return folder_; }
  void own() const;  // gives all that is in the folder to who serves
  std::filesystem::path instance(const std::string& id) const { return folder_ / "instances" / id; }
  const std::string& api() const { return api_; }
  std::string secret() const;  // of the keys for people
  pid_t pid() const { return pid_; }
  // Loop devices whose file is in the folder.
  std::vector<std::string> loop_devices() const;

 private:
  std::filesystem::path folder_;
  std::vector<std::string> arguments_;
  std::string api_;
  std::string certificate_;
  std::string program_;
  uid_t user_ = 0;  // who serves, if somebody else
  pid_t pid_ = -1;
};

std::string element(const std::string& xml, const std::string& name);
std::string base64(const std::string& text);
std::string read_file(const std::filesystem::path& path);
// Processes of this machine whose command line holds the text.
std::vector<pid_t> processes_with(const std::string& text);
// Looks every 20 ms, for 60 s at most.
bool eventually(const std::function<bool()>& so);

}  // namespace spotter::emulator
