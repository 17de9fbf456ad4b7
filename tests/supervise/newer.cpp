// Files that a later version of Spotter has left in the run directory, when the package was rolled
// back: refused with a sentence, left as they are, and no second trainer is started beside them.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "agent/supervise/client.hpp"
#include "agent/supervise/launch.hpp"
#include "agent/supervise/run_directory.hpp"
#include "tests/supervise/stage.hpp"

namespace spotter::supervise {
namespace {

class NewerRunDirectory : public Stage {
 protected:
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path(file)).parent_path());
    std::ofstream(path(file)) << text;
  }
  std::string read(const std::string& file) {
    std::ifstream from(path(file));
    return {std::istreambuf_iterator<char>(from), {}};
  }
};

TEST_F(NewerRunDirectory, IsRefusedAndLeftAsItIs) {
  for (const char* file : {"supervisor.json", "ended.json"}) {
    const std::string name = "run/" + std::string(file);
    const std::string text = R"({"version": 2, "pid": "of another kind"})";
    write(name, text);
    const auto seen = look(path("run"));
    ASSERT_FALSE(seen) << file;
    EXPECT_NE(seen.error().message.find("was written by a newer Spotter (format 2"),
              std::string::npos)
        << seen.error().message;
    EXPECT_FALSE(collect(path("run"))) << file;
    EXPECT_EQ(read(name), text);
    std::filesystem::remove(path(name));
  }
}

TEST(NewerSpec, IsRefused) {
  std::string newer = to_json(Spec{});
  newer.replace(newer.find("\"version\":1"), 11, "\"version\":2");
  const auto spec = parse_spec(newer);
  ASSERT_FALSE(spec);
  EXPECT_NE(spec.error().message.find("written by a newer Spotter"), std::string::npos)
      << spec.error().message;
}

}  // namespace
}  // namespace spotter::supervise
