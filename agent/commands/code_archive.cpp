#include "agent/commands/code_archive.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "agent/aws/s3/values.hpp"
#include "agent/base/text.hpp"
#include "agent/config/secrets.hpp"
#include "agent/guard/record.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/safe_directory.hpp"
#include "agent/tier/results.hpp"
#include "agent/wire/status.hpp"
#include "trainer/library/transfer.hpp"

namespace spotter::command {
namespace {

using Words = std::vector<std::string>;

constexpr const char* ignores = ".spotterignore";
constexpr const char* ref = "refs/heads/spotter";

// Files of git's input and output, which may be long.
struct Redirected {
  std::string from = "/dev/null", to = {};
};

// Runs git in a folder.
struct Git {
  fs::path folder;
  std::map<std::string, std::string> variables;

  // Without the last newline of its output, of which a MiB is kept.
  Result<std::string> operator()(const Words& words, const Redirected& files = {}) const {
    std::string line = "cd " + wire::shell_quoted(folder.string()) + " && exec git";
    for (const std::string& word : words) line += " " + wire::shell_quoted(word);
    line += " <" + wire::shell_quoted(files.from);
    if (!files.to.empty()) line += " >" + wire::shell_quoted(files.to);
    auto done = TRY(act::host::run_tool({{"sh", "-c", line}, variables}, "git"));
    if (done.status == 127)
      return failure("git is not installed, and it packs what code.folder names: install it");
    if (done.status != 0)
      return failure("git cannot read " + folder.string() + ": " + act::host::last_words(done));
    if (done.output.ends_with('\n')) done.output.pop_back();
    return std::move(done.output);
  }
};

// Of a command that prints names with -z, which may be long: by the file `to`.
Result<std::vector<std::string>> names_of(const Git& git, const Words& words, const fs::path& to) {
  constexpr std::size_t longest = 256U << 20;
  TRY(git(words, {.to = to.string()}));
  const auto text = TRY(behind("cannot read " + to.string(), io::read_file(to, longest)));
  return act::host::names_in(text);
}

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
  TRY(git({"-c", "init.templateDir=", "init", "--quiet"}));
  std::error_code error;
  fs::create_directory(repository / "info", error);
  std::ofstream(repository / "info" / "attributes") << config::code_as_it_is;
  return git;
}

using Names = std::set<std::string>;

// Lists files of a folder.
class Lister {
 public:
  // `ours`: an empty repository whose work tree is the folder.
  Lister(const Git& ours, fs::path scratch)
      : ours_(ours), folder_(ours.folder), scratch_(std::move(scratch)) {}

  // Those that git tracks or does not ignore; without git's repository all.
  Result<Names> all(bool has_repository) {
    auto names = has_repository ? run(theirs(folder_), {"-c", "-o", "--exclude-standard"})
                                : run(ours_, {"-o"});
    if (names) names = with_inner(*std::move(names), {});
    return names ? without_ignored(*std::move(names)) : names;
  }

 private:
  // A folder among them is a submodule, which is empty unless it was fetched here, or a
  // repository that is not tracked.
  Result<Names> with_inner(Names names, const fs::path& below) {
    Names all;
    for (std::string name : names) {
      while (name.ends_with('/')) name.pop_back();
      const fs::path path = below / name;
      if (!fs::is_directory(fs::symlink_status(folder_ / path))) {
        all.insert(path.string());
        continue;
      }
      if (!fs::exists(fs::symlink_status(folder_ / path / ".git"))) continue;
      auto inner = run(theirs(folder_ / path), {"-c", "-o", "--exclude-standard"});
      if (inner) inner = with_inner(*std::move(inner), path);
      if (!inner) return inner;
      all.merge(*inner);
    }
    return all;
  }

  // git applies patterns of a file to what is in an index, with the folder as their root: an index
  // of names alone, whose contents nobody reads.
  Result<Names> without_ignored(Names names) {
    const fs::path file = folder_ / ignores;
    if (!fs::exists(fs::symlink_status(file))) return names;
    if (!fs::is_regular_file(file)) return failure(file.string() + " is no file");
    constexpr const char* any_object = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
    const fs::path list = scratch_ / "names";
    std::ofstream out(list, std::ios::binary);
    for (const std::string& name : names) out << "100644 " << any_object << '\t' << name << '\0';
    if (!out.flush()) return failure("cannot write " + list.string());
    Git git = ours_;
    git.variables["GIT_INDEX_FILE"] = scratch_ / "index";
    TRY(git({"update-index", "-z", "--index-info"}, {.from = list.string()}));
    const auto ignored = TRY(run(git, {"-c", "-i", "-X", file.string()}));
    for (const std::string& name : ignored) names.erase(name);
    return names;
  }

  Result<Names> run(const Git& git, Words words) {
    words.insert(words.begin(), {"ls-files", "-z"});
    auto names = TRY(names_of(git, words, scratch_ / "list"));
    return Names(names.begin(), names.end());
  }

  const Git& ours_;
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

// Says which of the packed files differ from the commit. Their difference is left out: it would
// have what was taken out of them, too, and what a filter of the person's makes of them.
Result<Origin> origin_of(const fs::path& folder, const Names& packed, const fs::path& scratch) {
  const Git git = theirs(folder);
  const auto head = git({"rev-parse", "--verify", "HEAD"});
  if (!head) return Origin{"a repository without a commit", "a repository without a commit\n"};
  const auto prefix = TRY(git({"rev-parse", "--show-prefix"}));
  const auto seen = TRY(names_of(git, {"status", "--porcelain", "-z", "-uall", "--no-renames", "."},
                                 scratch / "list"));
  std::string changes;
  std::size_t count = 0;
  for (const std::string& each : seen) {  // "XY PATH", from the top
    const std::string name = each.size() > 3 ? each.substr(3) : std::string();
    if (!name.starts_with(prefix) || !packed.contains(name.substr(prefix.size()))) continue;
    changes += each.substr(0, 3) + name.substr(prefix.size()) + "\n";
    ++count;
  }
  Origin origin{"commit " + head->substr(0, 12), "commit " + *head + "\n"};
  if (count == 0) return origin;
  origin.text += " and " + std::to_string(count) + (count == 1 ? " change" : " changes");
  origin.record += "with\n" + changes;
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
  return file.starts_with(".env") || file == ".netrc" || file == ".pypirc" ||
         file == "credentials" || file.starts_with("id_ecdsa") || file.starts_with("id_rsa") ||
         file.starts_with("id_ed25519") || file.ends_with(".pem") || file.ends_with(".key");
}

void doubt(CodeArchive& archive, const Words& names, const std::string& what) {
  if (names.empty()) return;
  std::string text = wire::printable(names.front());
  if (names.size() > 1) text += " and " + std::to_string(names.size() - 1) + " more";
  archive.doubts.push_back(text + ": " + what);
}

// Counts what is to be packed, and writes it for git. Leaves out what is neither a file nor a link,
// and what is gone.
Result<void> look_over(const Names& names, const fs::path& folder, const fs::path& list,
                       CodeArchive& archive) {
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
    if (act::host::is_pointer(file)) pointers.push_back(name);
    out << name << '\0';
  }
  if (!out.flush()) return failure("cannot write " + list.string());
  if (archive.files == 0)
    return failure(folder.string() + " has no file that git does not ignore, nor " + ignores);
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

// Makes a commit of the files that look_over() wrote down, in a bundle.
Result<void> pack(const Git& git, const fs::path& scratch, CodeArchive& archive) {
  const std::string message = scratch / config::code_record;
  const std::string bundle = scratch / config::code_bundle;
  std::ofstream(message, std::ios::binary) << archive.record;
  TRY(git({"update-index", "--add", "-z", "--stdin"}, {.from = (scratch / "wanted").string()}));
  const auto tree = TRY(git({"write-tree"}));
  const auto commit = TRY(git({"commit-tree", "-F", message, tree}));
  archive.revision = commit;
  TRY(git({"update-ref", ref, commit}));
  TRY(git({"bundle", "create", "--quiet", bundle, ref}));
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
  const auto git = TRY(ours(folder, scratch / "git"));
  const auto inside = TRY(has_repository(folder));
  auto names = TRY(Lister(git, scratch).all(inside));
  for (const std::string& each : besides)
    names.erase(fs::relative(fs::absolute(each, error), folder, error).string());
  const auto origin = TRY(inside ? origin_of(folder, names, scratch)
                                 : Result<Origin>(Origin{"no repository", "no repository\n"}));
  archive.origin = origin.text;
  archive.record = "The folder as it is, of " + origin.record;
  TRY(look_over(names, folder, scratch / "wanted", archive));
  TRY(pack(git, scratch, archive));
  fs::remove_all(scratch / "git", error);
  return archive;
}

std::string describe(const CodeArchive& archive, const fs::path& folder) {
  return std::to_string(archive.files) + (archive.files == 1 ? " file, " : " files, ") +
         guard::bytes_text(archive.bytes) + ", of " + folder.string() + " (" + archive.origin + ")";
}

Result<void> send_code(const CodeArchive& archive, const config::Code& code) {
  const auto at = TRY(wire::parse_s3_url(code.repository));
  bucket::Bucket bucket(at, "", {.environment = act::Environment::of_this_process()});
  const std::string name = bucket::manifest_name(archive.revision);
  const auto there = bucket.read(name);
  if (!there && there.error().kind != bucket::torn) return tl::unexpected<Error>(there.error());
  if (there && *there) return {};
  const auto folder =
      TRY(behind("cannot open the archive", io::SafeDirectory::open(archive.scratch->path())));
  bucket::Sender sender(bucket, archive.revision, tier::opener(folder));
  auto sent = TRY(sender.send({{config::code_bundle, config::code_bundle, {}, {}},
                               {config::code_record, config::code_record, {}, {}}}));
  bucket::Manifest manifest{.name = {}, .files = std::move(sent)};
  return bucket.replace(name, manifest);
}

}  // namespace spotter::command
