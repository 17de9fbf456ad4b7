#include "agent/commands/code_archive.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "agent/aws/s3/values.hpp"
#include "agent/base/text.hpp"
#include "agent/config/variables.hpp"
#include "agent/guard/record.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/log.hpp"
#include "agent/wire/status.hpp"
#include "trainer/library/transfer.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* ignores = ".spotterignore";
constexpr const char* ref = "refs/heads/spotter";
constexpr std::size_t longest_patch = 256U << 10;

// Files of git's input and output, which may be long.
struct Redirected {
  std::string from = "/dev/null", to = {};
};

// Runs git in a folder.
struct Git {
  fs::path folder;
  std::map<std::string, std::string> variables;

  // Without the last newline of its output.
  Result<std::string> operator()(const Words& words, const Redirected& files = {}) const {
    std::string line = "cd " + wire::shell_quoted(folder.string()) + " && exec git";
    for (const std::string& word : words) line += " " + wire::shell_quoted(word);
    line += " <" + wire::shell_quoted(files.from);
    if (!files.to.empty()) line += " >" + wire::shell_quoted(files.to);
    auto done = act::host::run_tool({{"sh", "-c", line}, variables}, "git");
    if (!done) return tl::unexpected<Error>(done.error());
    if (done->status == 127)
      return failure("git is not installed, and it packs what code.folder names: install it");
    if (done->status != 0)
      return failure("git cannot read " + folder.string() + ": " + act::host::last_words(*done));
    if (done->output.ends_with('\n')) done->output.pop_back();
    return std::move(done->output);
  }
};

// The repository that a person works in, with their own settings.
Git theirs(const fs::path& folder) {
  auto variables = config::variables_of_process();
  for (const char* name : {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}) variables.erase(name);
  variables["GIT_OPTIONAL_LOCKS"] = "0";
  variables["LC_ALL"] = "C";
  return {folder, std::move(variables)};
}

// A repository of ours, whose work tree is the folder. Files are taken, and later put in place, as
// they are: with the ends of their lines, and past all filters, whatever a .gitattributes says.
Result<Git> ours(const fs::path& folder, const fs::path& repository) {
  Git git{folder,
          {{"HOME", repository.string()},
           {"LC_ALL", "C"},
           {"GIT_DIR", repository.string()},
           {"GIT_WORK_TREE", folder.string()},
           {"GIT_CONFIG_GLOBAL", "/dev/null"},
           {"GIT_CONFIG_NOSYSTEM", "1"},
           {"GIT_ATTR_NOSYSTEM", "1"},
           {"GIT_AUTHOR_NAME", "spotter"},
           {"GIT_AUTHOR_EMAIL", "spotter"},
           {"GIT_AUTHOR_DATE", "@0 +0000"},
           {"GIT_COMMITTER_NAME", "spotter"},
           {"GIT_COMMITTER_EMAIL", "spotter"},
           {"GIT_COMMITTER_DATE", "@0 +0000"}}};
  if (auto made = git({"-c", "init.templateDir=", "init", "--quiet"}); !made)
    return tl::unexpected<Error>(made.error());
  std::error_code error;
  fs::create_directory(repository / "info", error);
  std::ofstream(repository / "info" / "attributes") << config::code_as_it_is;
  return git;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Lists files by `git ls-files`, of a repository of theirs or of ours.
class Lister {
 public:
  Lister(fs::path folder, fs::path scratch)
      : folder_(std::move(folder)), scratch_(std::move(scratch)) {}

  Result<std::set<std::string>> tracked_and_new(const fs::path& below = {}) {
    const Git git = theirs(folder_ / below);
    auto names = run(git, {"-c", "-o", "--exclude-standard"});
    if (!names) return names;
    if (ignores_some()) {  // of what is tracked git passes nothing over
      const auto out = run(git, {"-c", "-i"});
      if (!out) return out;
      for (const std::string& name : *out) names->erase(name);
    }
    std::set<std::string> all;
    for (std::string name : *names) {
      while (name.ends_with('/')) name.pop_back();
      const fs::path path = below / name;
      if (!fs::is_directory(fs::symlink_status(folder_ / path))) {
        all.insert(path.string());
        continue;
      }
      // A submodule, or a repository that is not tracked. Empty: it was not fetched here.
      if (!fs::exists(fs::symlink_status(folder_ / path / ".git"))) continue;
      auto inner = tracked_and_new(path);
      if (!inner) return inner;
      all.merge(*inner);
    }
    return all;
  }

  Result<std::set<std::string>> everything(const Git& git) { return run(git, {"-o"}); }

 private:
  bool ignores_some() const { return fs::is_regular_file(folder_ / ignores); }

  Result<std::set<std::string>> run(const Git& git, Words words) {
    words.insert(words.begin(), {"ls-files", "-z"});
    if (ignores_some()) words.insert(words.end(), {"-X", (folder_ / ignores).string()});
    const fs::path to = scratch_ / "list";
    if (auto done = git(words, {.to = to.string()}); !done)
      return tl::unexpected<Error>(done.error());
    std::set<std::string> names;
    const std::string text = content_of(to);
    for (std::size_t at = 0, end = 0; (end = text.find('\0', at)) != text.npos; at = end + 1)
      names.insert(text.substr(at, end - at));
    return names;
  }

  fs::path folder_;
  fs::path scratch_;
};

// False: it is in no repository.
Result<bool> has_repository(const fs::path& folder) {
  const auto inside = theirs(folder)({"rev-parse", "--is-inside-work-tree"});
  if (inside) return true;
  if (inside.error().message.find("not a git repository") != std::string::npos) return false;
  return tl::unexpected<Error>(inside.error());
}

struct Origin {
  std::string text;    // for a line
  std::string record;  // all that is known
};

Origin origin_of(const fs::path& folder) {
  const Git git = theirs(folder);
  const auto head = git({"rev-parse", "--verify", "HEAD"});
  if (!head) return {"a repository without a commit", "a repository without a commit\n"};
  const auto changes = git({"status", "--porcelain", "."});
  const auto patch = git({"diff", "HEAD", "--", "."});
  const auto count = changes && !changes->empty() ? std::ranges::count(*changes, '\n') + 1 : 0;
  Origin origin{"commit " + head->substr(0, 12), "commit " + *head + "\n"};
  if (count == 0) return origin;
  origin.text += " and " + std::to_string(count) + (count == 1 ? " change" : " changes");
  origin.record += "with\n" + *changes + "\n\n";
  if (patch) origin.record += patch->substr(0, longest_patch) + "\n";
  if (patch && patch->size() > longest_patch) origin.record += "(the rest is left out)\n";
  return origin;
}

// The largest files, or folders directly below, for an error message.
std::string largest(const std::map<std::string, std::uint64_t>& bytes) {
  constexpr std::size_t most = 3;
  std::vector<std::pair<std::uint64_t, std::string>> parts;
  for (const auto& [name, size] : bytes) parts.emplace_back(size, name);
  std::ranges::sort(parts, std::greater());
  std::string text;
  for (std::size_t i = 0; i < std::min(most, parts.size()); ++i)
    text += (text.empty() ? "" : ", ") + wire::printable(parts[i].second) + " " +
            guard::bytes_text(parts[i].first);
  return text;
}

bool may_be_secret(const fs::path& name) {
  const std::string file = name.filename().string();
  return file == ".env" || file == ".netrc" || file == "credentials" ||
         file.starts_with("id_rsa") || file.starts_with("id_ed25519") || file.ends_with(".pem") ||
         file.ends_with(".key");
}

bool is_pointer(const fs::path& file) {
  constexpr std::string_view begins = "version https://git-lfs.github.com/spec/";
  std::string start(begins.size(), '\0');
  std::ifstream(file, std::ios::binary)
      .read(start.data(), static_cast<std::streamsize>(start.size()));
  return start == begins;
}

void doubt(CodeArchive& archive, const Words& names, const std::string& what) {
  if (names.empty()) return;
  std::string text = wire::printable(names.front());
  if (names.size() > 1) text += " and " + std::to_string(names.size() - 1) + " more";
  archive.doubts.push_back(text + ": " + what);
}

// Counts what is to be packed, and writes it for git. Leaves out what is neither a file nor a link,
// and what is gone.
Result<void> look_over(const std::set<std::string>& names, const fs::path& folder,
                       const fs::path& list, CodeArchive& archive) {
  std::map<std::string, std::uint64_t> parts;
  std::ofstream out(list, std::ios::binary);
  Words secrets, pointers;
  for (const std::string& name : names) {
    struct stat status {};
    const fs::path file = folder / name;
    if (::lstat(file.c_str(), &status) != 0) continue;
    if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) continue;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    ++archive.files;
    archive.bytes += size;
    const std::size_t slash = name.find('/');
    parts[slash == name.npos ? name : name.substr(0, slash + 1)] += size;
    if (may_be_secret(name)) secrets.push_back(name);
    if (S_ISREG(status.st_mode) && size < 1024 && is_pointer(file)) pointers.push_back(name);
    out << name << '\0';
  }
  if (!out.flush()) return failure("cannot write " + list.string());
  if (archive.files == 0) return failure(folder.string() + " has no file that machines could run");
  if (archive.bytes > code_limit)
    return failure(folder.string() + " has " + guard::bytes_text(archive.bytes) +
                   ", and code may have " + guard::bytes_text(code_limit) + ": name in " + ignores +
                   " what machines need not have (the largest: " + largest(parts) +
                   "), and bring data as a channel");
  doubt(archive, secrets,
        std::string("whoever reads the bucket sees it; if it is a secret, name it in ") + ignores);
  doubt(archive, pointers, "a pointer of Git LFS, not the file: `git lfs pull` brings it");
  return {};
}

// None: the folder is packed. In a repository a commit of the files, in a bundle.
Result<void> pack(const Git& git, const fs::path& scratch, CodeArchive& archive) {
  archive.message = scratch / config::code_record;
  archive.bundle = scratch / config::code_bundle;
  std::ofstream(archive.message, std::ios::binary) << archive.record;
  if (auto added =
          git({"update-index", "--add", "-z", "--stdin"}, {.from = (scratch / "wanted").string()});
      !added)
    return tl::unexpected<Error>(added.error());
  const auto tree = git({"write-tree"});
  if (!tree) return tl::unexpected<Error>(tree.error());
  const auto commit = git({"commit-tree", "-F", archive.message.string(), *tree});
  if (!commit) return tl::unexpected<Error>(commit.error());
  archive.revision = *commit;
  if (auto named = git({"update-ref", ref, *commit}); !named)
    return tl::unexpected<Error>(named.error());
  if (auto made = git({"bundle", "create", "--quiet", archive.bundle.string(), ref}); !made)
    return tl::unexpected<Error>(made.error());
  return {};
}

}  // namespace

Result<CodeArchive> archive_of(const fs::path& named, const std::vector<std::string>& besides) {
  std::error_code error;
  const fs::path folder = fs::canonical(named, error);
  if (error || !fs::is_directory(folder))
    return failure("code.folder: " + named.string() + " is no folder here");
  CodeArchive archive{.scratch = std::make_unique<io::ScratchFolder>("code")};
  const fs::path& scratch = archive.scratch->path();
  if (scratch.empty()) return failure("cannot make a temporary folder: is $TMPDIR full?");
  const auto git = ours(folder, scratch / "git");
  if (!git) return tl::unexpected<Error>(git.error());
  const auto inside = has_repository(folder);
  if (!inside) return tl::unexpected<Error>(inside.error());
  Lister lister(folder, scratch);
  auto names = *inside ? lister.tracked_and_new() : lister.everything(*git);
  if (!names) return tl::unexpected<Error>(names.error());
  for (const std::string& each : besides)
    names->erase(fs::relative(fs::absolute(each, error), folder, error).string());
  const Origin origin = *inside ? origin_of(folder) : Origin{"no repository", "no repository\n"};
  archive.origin = origin.text;
  archive.record = "The folder as it is, of " + origin.record;
  if (auto counted = look_over(*names, folder, scratch / "wanted", archive); !counted)
    return tl::unexpected<Error>(counted.error());
  if (auto packed = pack(*git, scratch, archive); !packed)
    return tl::unexpected<Error>(packed.error());
  fs::remove_all(scratch / "git", error);
  return archive;
}

std::string describe(const CodeArchive& archive, const fs::path& folder) {
  return std::to_string(archive.files) + (archive.files == 1 ? " file, " : " files, ") +
         guard::bytes_text(archive.bytes) + ", of " + folder.string() + " (" + archive.origin + ")";
}

Result<void> send_code(const CodeArchive& archive, const config::Code& code) {
  const auto at = wire::parse_s3_url(code.repository);
  if (!at) return tl::unexpected<Error>(at.error());
  bucket::Bucket bucket(*at, "", {.environment = act::Environment::of_this_process()});
  const std::string name = bucket::manifest_name(archive.revision);
  const auto there = bucket.read(name);
  if (!there && there.error().kind != bucket::torn) return tl::unexpected<Error>(there.error());
  if (there && *there) return {};
  bucket::Sender sender(bucket, archive.revision, [](const std::string& path) {
    checkpoint::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    using Opened = Result<checkpoint::Descriptor, std::error_code>;
    return file ? Opened(std::move(file))
                : tl::unexpected(std::error_code(errno, std::generic_category()));
  });
  auto sent = sender.send(
      {{.path = config::code_bundle, .from = archive.bundle.string(), .sum = {}, .content = {}},
       {.path = config::code_record, .from = archive.message.string(), .sum = {}, .content = {}}});
  if (!sent) return tl::unexpected<Error>(sent.error());
  bucket::Manifest manifest{.name = {}, .files = *std::move(sent)};
  return bucket.replace(name, manifest);
}

}  // namespace spotter::command
