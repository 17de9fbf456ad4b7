#include "tests/guard/folder.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "trainer/library/manifest.hpp"

namespace spotter::guard {

namespace fs = std::filesystem;

Folder::Folder(const char* above) {
  std::string name = std::string(above) + "/spotter-guard-XXXXXX";
  mount_ = ::mkdtemp(name.data());
  fs::create_directories(mount_ / ".spotter");
  fs::create_directories(mount_ / "ckpt");
}

Folder::~Folder() { fs::remove_all(mount_); }

void Folder::write(const std::string& name, std::string_view bytes) const {
  fs::create_directories(path(name).parent_path());
  // Avoids a stream: a test of a power cut would not see its calls within libc.
  const Descriptor file(::open(path(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  ASSERT_EQ(::write(file.get(), bytes.data(), bytes.size()), std::ssize(bytes)) << name;
}

std::string Folder::read(const std::string& name) const {
  std::ifstream file(path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::size_t Folder::set_aside() const {
  const fs::path torn = mount_ / ".spotter" / torn_directory;
  if (!fs::exists(torn)) return 0;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(torn), fs::directory_iterator()));
}

Keeper Folder::keeper() const {
  auto opened = Keeper::open(where());
  EXPECT_TRUE(opened) << opened.error().message;
  return *std::move(opened);
}

void Folder::record(Keeper& keeper, const std::string& name) {
  auto captured = keeper.capture([&name](const std::string& other) {
    return other != name && !other.starts_with(name + "/");
  });
  ASSERT_TRUE(captured) << captured.error().words;
  ASSERT_FALSE(captured->rows.empty()) << name;
  ASSERT_TRUE(keeper.finish(*std::move(captured)));
}

Settled Folder::settle() const {
  auto settled = keeper().settle(true);
  EXPECT_TRUE(settled) << settled.error().message;
  return settled.value_or(Settled{});
}

std::string newer_record(const std::string& ours) {
  auto json = nlohmann::json::parse(ours);
  json.erase("xxh3_128");
  json.erase("rows");
  json["format"] = 4;
  std::string body = json.dump();
  body.pop_back();
  return body + ",\"xxh3_128\":\"" + checkpoint::sum_of(body) + "\"}\n";
}

std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += static_cast<char>(i < 8 ? value >> (8 * i) & 0xff : 0);
  }
  return text;
}

std::string zip(const std::string& content) {
  const auto crc = ::crc32(0, reinterpret_cast<const unsigned char*>(content.data()),
                           static_cast<unsigned>(content.size()));
  const std::string name = "archive/data.pkl";
  const std::string sizes = number(crc, 4) + number(content.size(), 4) + number(content.size(), 4);
  const std::string local =
      "PK\x03\x04" + number(0, 10) + sizes + number(name.size(), 2) + number(0, 2) + name + content;
  const std::string entry =
      "PK\x01\x02" + number(0, 12) + sizes + number(name.size(), 2) + number(0, 16) + name;
  return local + entry + "PK\x05\x06" + number(0, 4) + number(1, 2) + number(1, 2) +
         number(entry.size(), 4) + number(local.size(), 4) + number(0, 2);
}

std::string hdf5(const std::string& content) {
  const std::string signature = "\x89HDF\r\n\x1a\n";
  const std::string head = signature + number(0, 5) + number(8, 1) + number(8, 1) + number(0, 9);
  constexpr std::size_t superblock = 96;
  const std::size_t end = superblock + content.size();
  std::string text = head + number(0, 8) + number(~0ULL, 8) + number(end, 8) + number(~0ULL, 8);
  text.resize(superblock, '\0');
  return text + content;
}

}  // namespace spotter::guard
